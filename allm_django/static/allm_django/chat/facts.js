// What a card tells beyond its arguments: how the tool changed since, and what is known of a lost call.

import { h, icon, visible } from "./dom.js";
import { fullTime, number, since, t } from "./words.js";

/** The tool changed while the call waited: what, place by place, and what one can do now. */
export function changedOf(card) {
  const lines = (card.changes ?? []).map(({ label, before, after }) =>
    h("li", {}, h("span", { class: "change-name" }, visible(`${label}: `)), h("del", {}, shown(before)), " → ", h("ins", {}, shown(after))),
  );
  const way = card.verbs.includes("reask") ? t("reask_hint") : t("gone_hint");
  const hint = card.may_decide ? way : "";
  return h(
    "div",
    { class: "warning drift" },
    icon("warning"),
    h("div", {}, h("p", { class: "drift-head" }, visible(card.changed)), lines.length ? h("ul", {}, lines) : null, hint ? h("p", {}, hint) : null),
  );
}

const shown = (value) => (value === null ? t("change_none") : visible(value));

/** When, where and under which key the call was started. */
export function knownOf({ started_at: started, attempt, idempotency_key: key, host, pid, seen_at: seen }) {
  const where = host ? [t("known_process", { host, pid }), seen && t("known_seen", { time: since(seen) })].filter(Boolean).join(", ") : t("known_gone");
  const row = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  return h(
    "dl",
    { class: "reading known" },
    started && row(t("known_started"), `${fullTime(started)} (${since(started)})`),
    row(t("known_where"), visible(where)),
    row(t("known_attempt"), number(attempt)),
    row(t("known_key"), h("code", {}, key)),
  );
}

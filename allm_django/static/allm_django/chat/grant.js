// What is approved beforehand together with a call: where, which arguments, for how long, how often.

import { button, h } from "./dom.js";
import { t } from "./words.js";

const HOUR = 3600;
let boxes = 0;

function choice(label, options) {
  boxes += 1;
  const id = `grant-${boxes}`;
  const select = h("select", { id }, options.map(([value, words]) => h("option", { value }, words)));
  return { element: h("p", { class: "grant-choice" }, h("label", { for: id }, label), select), select };
}

/** Called with decide(verb, fields) and cancel(), as the other boxes; the strictest choices stand first. */
export function grantBox(decide, cancel) {
  const scope = choice(t("grant_where"), [["session", t("grant_session")], ["user", t("grant_user")]]);
  const match = choice(t("grant_which"), [["exact", t("grant_exact")], ["any", t("grant_any")]]);
  const time = choice(t("grant_time"), [[HOUR, t("grant_hour")], [24 * HOUR, t("grant_day")], [7 * 24 * HOUR, t("grant_week")]]);
  const uses = choice(t("grant_uses"), [["1", "1"], ["5", "5"], ["20", "20"], ["", t("grant_unlimited")]]);
  const press = () =>
    decide("approve", {
      grant: {
        scope: scope.select.value,
        match: match.select.value,
        seconds: Number(time.select.value),
        ...(uses.select.value ? { uses: Number(uses.select.value) } : {}),
      },
    });
  const field = button(t("grant_now"), { class: "verb primary", on: { click: press } });
  const element = h(
    "div",
    { class: "box", role: "group", "aria-label": t("grant_more"), on: { keydown: (event) => event.key === "Escape" && cancel() } },
    h("p", { class: "hint" }, t("grant_hint")),
    [scope, match, time, uses].map((one) => one.element),
    h("div", { class: "card-verbs" }, field, button(t("cancel"), { class: "verb", on: { click: cancel } })),
  );
  return { element, field };
}

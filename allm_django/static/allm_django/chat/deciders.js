// The part of a card about people: how many have to approve and who has, who may decide, and until when. It is drawn
// apart from the rest, so that another's approval takes nothing from what a person types.

import { fill, h, icon, text, visible } from "./dom.js";
import { fullTime, shortTime, t, timeLeft } from "./words.js";

const SECOND = 1000;

export class Deciders {
  element = h("div", { class: "deciders" });
  #drawn = "";

  /** Show the card's terms; "" for calls that wait for nobody's decision. */
  update(card) {
    const parts = termsOf(card);
    const drawn = JSON.stringify([parts.approvals, parts.facts, parts.times]);
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    fill(this.element, parts.approvals && approvalsOf(parts.approvals), factsOf(parts));
  }
}

function termsOf(card) {
  if (card.state === "asking") return { approvals: null, facts: [], times: expiryOf(card) };
  if (card.state !== "pending" && card.state !== "unknown") return { approvals: null, facts: [], times: [] };
  const { quorum, approvals, approved } = card;
  return {
    approvals: quorum > 1 ? { quorum, names: approvals.map(({ by }) => by), approved } : null,
    facts: [
      card.groups?.length ? t("may_decide_groups", { groups: card.groups.join(", ") }) : "",
      card.four_eyes && card.asked_by ? t("four_eyes", { name: card.asked_by.name }) : "",
    ].filter(Boolean),
    times: card.state === "pending" ? [...expiryOf(card), ...escalationOf(card)] : [],
  };
}

function expiryOf({ expires_at: at }) {
  return at ? [{ words: t("decide_by", { time: shortTime(at) }), at }] : [];
}

function escalationOf({ escalates_at: at, escalated, escalation_groups: groups }) {
  return at && !escalated && groups?.length ? [{ words: t("escalates", { groups: groups.join(", "), time: shortTime(at) }), at }] : [];
}

/** "1 of 2 approvals: Bob", with a mark for each that is needed. */
function approvalsOf({ quorum, names, approved }) {
  const marks = Array.from({ length: Math.min(quorum, 10) }, (_, place) => h("span", { class: place < names.length ? "mark given" : "mark" }));
  const words = t("approvals", { n: names.length, quorum }) + (names.length ? `: ${names.join(", ")}` : "");
  return h(
    "p",
    { class: "approvals" },
    h("span", { class: "marks", "aria-hidden": "true" }, marks),
    h("span", {}, visible(words)),
    approved && h("span", { class: "approved" }, icon("done"), h("span", {}, t("you_approved"))),
  );
}

function factsOf({ facts, times }) {
  if (!facts.length && !times.length) return null;
  return h("p", { class: "facts" }, facts.map((fact) => h("span", {}, visible(fact))), times.map(timeOf));
}

/** "Decide by 14:05 (in 12 min)": the part in brackets goes on by itself. */
function timeOf({ words, at }) {
  const left = h("time", { datetime: at, title: fullTime(at), dataset: { left: "" } }, timeLeft(at));
  return h("span", {}, visible(words), " (", left, ")");
}

setInterval(() => {
  for (const left of document.querySelectorAll("time[data-left]")) text(left, timeLeft(left.dateTime));
}, SECOND);

// The card: what will happen, the whole arguments, and a person's decision about it.

import { Act, ApiError } from "./api.js";
import { Arguments } from "./arguments.js";
import { BOXES } from "./boxes.js";
import { button, fill, h, icon, keyButton, visible } from "./dom.js";
import { copyText } from "./markdown.js";
import { Deciders } from "./deciders.js";
import { brief } from "./json.js";
import { changedOf, knownOf } from "./facts.js";
import { isOpen } from "./store.js";
import { look, settledBy } from "./state.js";
import { said, since, t } from "./words.js";

const CONFLICTS = new Set(["already_decided", "version_mismatch", "conflict", "state", "changed_since_asked"]);
let cards = 0;

export class Card {
  #act = new Act();
  #card;
  #onCard;
  #drawn = "";
  #arguments = null;
  #box = null;
  #busy = false;
  #deciders = new Deciders();
  #kept = "";
  #parts;
  #elsewhere;

  /**
   * `onCard(card, seen)` hears of the newer card that an answer brings, and of the one that was acted on; `elsewhere`:
   * shown outside its session; `level` of its heading.
   */
  constructor(card, onCard, { elsewhere = false, level = 3 } = {}) {
    cards += 1;
    this.#elsewhere = elsewhere;
    this.#card = card;
    this.#onCard = onCard;
    const id = `card-${cards}`;
    this.#parts = {
      title: h(`h${level}`, { id, class: "card-title" }),
      facts: h("div", { class: "card-facts" }),
      deciders: this.#deciders.element,
      body: h("div", { class: "card-body" }),
      note: h("div", { class: "card-note", role: "status" }),
      box: h("div", { class: "card-box" }),
      verbs: h("div", { class: "card-verbs" }),
    };
    this.element = h("div", { class: "card", role: "group", tabindex: "0", "aria-labelledby": id, dataset: { call: card.id } }, ...Object.values(this.#parts));
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.update(card);
  }

  /** Show a newer state of the call. What a person has typed stays, whatever happened meanwhile. */
  update(card) {
    const before = this.#card;
    this.#card = card;
    this.#deciders.update(card);
    const drawn = JSON.stringify([card.version, card.state, card.verbs, card.may_decide, card.may_answer, card.changed, card.changes, card.known, card.why]);
    if (drawn === this.#drawn) return;
    const typed = this.#drawn ? this.#typed(before) : "";
    this.#drawn = drawn;
    this.#kept = typed || this.#kept;
    this.#draw();
    if (this.#kept) this.#showKept();
    if (typed) this.#say(overtaken(card), "waiting");
  }

  close() {
    this.#arguments?.close();
  }

  /** Whether something is shown here that folding the card would lose: a conflict's note, or what was typed. */
  get holds() {
    return this.#busy || Boolean(this.#parts.note.firstChild || this.#kept);
  }

  #draw() {
    const { title, facts, body, box, verbs } = this.#parts;
    const card = this.#card;
    const { icon: name, tone, word } = look(card);
    this.element.dataset.tone = tone;
    fill(title, icon(name), h("span", { class: "visually-hidden" }, `${word}: `), h("span", { dir: "auto" }, visible(card.headline || card.title)));
    fill(facts, this.#facts());
    this.#arguments?.close();
    this.#arguments = this.#makeArguments();
    const whole = this.#arguments.element;
    fill(body, !isOpen(card) ? null : card.state === "pending" ? whole : h("details", { open: card.state === "unknown" }, h("summary", {}, t("arguments")), whole));
    fill(box);
    this.#box = null;
    verbs.hidden = false;
    fill(verbs, this.#verbs());
  }

  #facts() {
    const card = this.#card;
    if (!isOpen(card)) return [h("p", { class: "facts" }, visible(foldedLine(card)))];
    return [
      h("p", { class: "facts" }, this.#askedFacts().map((fact) => h("span", {}, visible(fact)))),
      card.state === "unknown" && h("p", { class: "plain" }, t("unknown_explained")),
      card.known && knownOf(card.known),
      card.state === "asking" && h("p", { class: "question" }, visible(card.question?.text ?? "")),
      card.changed && changedOf(card),
      card.hidden_characters && h("p", { class: "warning" }, icon("warning"), h("span", {}, t("hidden_characters"))),
      this.#elsewhere && card.said && h("details", { class: "said" }, h("summary", {}, t("said_before")), h("p", {}, visible(card.said))),
      card.description && h("p", { class: "description" }, visible(card.description)),
    ];
  }

  #askedFacts() {
    const { asked_by: by, session_title: session, why } = this.#card;
    const asked = this.#elsewhere ? t("asked_by_in", { name: by?.name, session: session || t("untitled") }) : t("asked_by", { name: by?.name });
    return [by && asked, said(why)].filter(Boolean);
  }

  #can(verb) {
    return (this.#card.verbs ?? []).includes(verb) && (this.#card.may_decide || (verb === "answer" && this.#card.may_answer));
  }

  #makeArguments() {
    return new Arguments(this.#card, this.#can("edit"), () => this.#refreshVerbs());
  }

  #verbs() {
    const card = this.#card;
    if (!isOpen(card)) return [];
    if (!card.may_decide && !card.may_answer) return [h("p", { class: "plain" }, visible(card.waiting_for || t("waiting_for_someone")))];
    if (card.state === "asking") return this.#questionVerbs();
    if (card.state === "unknown") return this.#unknownVerbs();
    return this.#pendingVerbs();
  }

  #pendingVerbs() {
    const thing = this.#card.title || this.#card.name;
    const changed = this.#arguments?.changed();
    return [
      changed
        ? this.#button(t("approve_edited"), "primary", () => this.#decide("edit", { arguments: this.#arguments.value() }))
        : this.#can("approve") && this.#button(visible(t("approve_thing", { thing })), "primary", () => this.#decide("approve"), "a"),
      this.#can("reask") && this.#button(t("reask"), "primary", () => this.#decide("reask")),
      !changed && this.#card.may_grant && this.#can("approve") && this.#button(t("grant_more"), "", () => this.#open("grant")),
      changed && this.#button(t("discard_changes"), "", () => this.#arguments.reset()),
      this.#can("answer") && this.#button(t("answer_instead"), "", () => this.#open("answer")),
      this.#can("reject") && this.#button(t("reject"), "danger", () => this.#open("reject"), "r"),
    ];
  }

  #questionVerbs() {
    if (!this.#can("answer")) return [h("p", { class: "plain" }, visible(this.#card.waiting_for || t("waiting_for_someone")))];
    const options = this.#card.question?.options ?? [];
    const buttons = options.map((option) => this.#button(visible(brief(option)), "", () => this.#decide("answer", { value: option })));
    this.#open("question");
    this.#parts.box.prepend(h("div", { class: "card-verbs" }, buttons));
    return [];
  }

  /** The three ways out, each with what it means. */
  #unknownVerbs() {
    const way = (verb, control, words) => this.#can(verb) && h("li", {}, control, h("span", {}, words));
    return h(
      "ul",
      { class: "ways" },
      way("answer", this.#button(t("mark_done"), "primary", () => this.#open("done")), t("mark_done_way")),
      way("retry", this.#button(t("run_again"), "", () => this.#open("retry")), t("run_again_way")),
      way("reject", this.#button(t("reject"), "danger", () => this.#open("reject"), "r"), t("give_up_way")),
    );
  }

  #button(label, tone, press, key = "") {
    return keyButton(label, key, { class: `verb ${tone}`, disabled: this.#busy, on: { click: press } });
  }

  #refreshVerbs() {
    if (this.#card.state === "pending") fill(this.#parts.verbs, this.#verbs());
  }

  #open(which) {
    this.#box = BOXES[which]((verb, fields) => this.#decide(verb, fields), () => this.#closeBox());
    fill(this.#parts.box, this.#box.element);
    this.#parts.verbs.hidden = which !== "question"; // one row of buttons at a time
    if (which !== "question") this.#box.field.focus();
  }

  #closeBox() {
    fill(this.#parts.box);
    this.#parts.verbs.hidden = false;
    this.#box = null;
    this.element.focus();
  }

  #key(event) {
    if (event.target !== this.element || event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (!/^[aer]$/i.test(event.key)) return;
    const control = this.element.querySelector(`[aria-keyshortcuts="${event.key.toLowerCase()}"]`);
    if (!control || control.closest("[hidden]")) return;
    event.preventDefault();
    control.click();
  }

  async #decide(verb, fields = {}) {
    if (this.#busy) return;
    if (verb === "edit" && this.#arguments.problem()) return this.#say(this.#arguments.problem(), "failed");
    const seen = this.#card;
    this.#setBusy(true);
    this.#say(t("sending"), "quiet");
    try {
      const answer = await this.#act.send(`calls/${this.#card.id}/decide/`, { verb, version: this.#card.version, ...fields });
      this.#say("", "quiet");
      this.#forget();
      this.#setBusy(false);
      this.#onCard(answer.call, seen);
    } catch (error) {
      this.#setBusy(false);
      this.#refused(error, seen);
    }
  }

  #refused(error, seen) {
    if (!(error instanceof ApiError)) throw error;
    const winner = error.problem.call;
    if (winner && (CONFLICTS.has(error.code) || error.code === "already_approved")) {
      this.#onCard(winner, seen);
      this.#say(error.code === "already_approved" ? visible(error.message) : overtaken(winner), "waiting");
      return;
    }
    const errors = error.problem.errors ?? (error.problem.field ? [{ field: error.problem.field, message: "" }] : []);
    const lines = errors.filter(({ message }) => message && !error.message.includes(message)).map(({ field, message }) => h("li", {}, visible([field, message].filter(Boolean).join(": "))));
    this.#say([h("span", {}, visible(error.message)), lines.length ? h("ul", {}, lines) : null], "failed");
  }

  #setBusy(busy) {
    this.#busy = busy;
    attributeAll(this.element, busy);
  }

  #say(message, tone) {
    this.#parts.note.dataset.tone = tone;
    fill(this.#parts.note, message ? h("div", {}, message) : null);
  }

  /** What was typed on the old state of the card and not sent, as text; "" if nothing. */
  #typed(before) {
    const parts = [];
    if (this.#arguments?.changed()) parts.push(this.#arguments.source());
    if (this.#box?.field?.value) parts.push(this.#box.field.value);
    return this.#busy || before.id !== this.#card.id ? "" : parts.join("\n\n");
  }

  #forget() {
    this.#arguments?.reset();
    this.#box = null;
    this.#kept = "";
    this.#parts.verbs.hidden = false;
    fill(this.#parts.box);
    this.#parts.verbs.hidden = false;
  }

  #showKept() {
    const copy = button(t("copy"), { icon: "copy", class: "quiet", on: { click: () => copyText(this.#kept, copy) } });
    this.#parts.box.append(h("div", { class: "kept" }, h("p", {}, t("kept")), h("pre", { tabindex: "0" }, visible(this.#kept)), copy));
  }
}

/** What happened to a call while a person was at its card. */
const overtaken = (card) => (isOpen(card) ? t("changed_meanwhile") : `${t("someone_faster")} ${settledBy(card) || look(card).word}`);

function attributeAll(element, busy) {
  for (const control of element.querySelectorAll(".card-verbs button, .card-box button")) control.disabled = busy;
  if (busy) element.setAttribute("aria-busy", "true");
  else element.removeAttribute("aria-busy");
}

/** One line about a settled call: who, what, when. */
export function foldedLine(call) {
  const who = settledBy(call);
  const when = call.decided?.at ?? call.finished_at;
  return [who, when && since(when)].filter(Boolean).join(" · ");
}


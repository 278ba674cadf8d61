// One tool call in the thread: a line that opens to everything about it; while it waits, its card.

import { get } from "./api.js";
import { Card, foldedLine } from "./card.js";
import { editedBefore } from "./arguments.js";
import { button, fill, h, icon, keyed, text, visible } from "./dom.js";
import { reading } from "./form.js";
import { isOpen } from "./store.js";
import { look, settledBy } from "./state.js";
import { duration, fullTime, said, t } from "./words.js";

let lines = 0;

export class CallView {
  #call;
  #page;
  #open = false;
  #card = null;
  #whole = null;
  #steps = new Map();
  #parts;

  /** `page` offers putCard(card, seen), needCard(id) and stepsOf(call). */
  constructor(call, page) {
    lines += 1;
    this.#page = page;
    const id = `call-${lines}`;
    this.#parts = {
      state: h("span", { class: "call-state" }),
      title: h("span", { class: "call-title" }),
      short: h("span", { class: "call-short", dir: "auto" }),
      time: h("span", { class: "call-time" }),
    };
    this.line = h(
      "button",
      { type: "button", class: "call-line", "aria-expanded": "false", "aria-controls": id, on: { click: () => this.#toggle() } },
      ...Object.values(this.#parts),
    );
    this.by = h("p", { class: "call-by", hidden: true });
    this.progress = h("div", { class: "call-progress" });
    this.details = h("div", { class: "call-details", id, hidden: true });
    this.slot = h("div", { class: "call-card" });
    this.steps = h("div", { class: "steps", role: "group", hidden: true });
    this.element = h("div", { class: "call", dataset: { call: call.id } }, this.line, this.by, this.progress, this.details, this.slot, this.steps);
  }

  update(call) {
    const steps = this.#page.stepsOf(call);
    if (this.#call !== call || steps.length) this.#drawLine(call, steps);
    if (this.#call !== call) {
      const was = this.#call;
      this.#call = call;
      this.#drawProgress();
      this.#drawCard();
      if (this.#open && was?.version !== call.version) this.#page.needCard(call.id);
      if (this.#open) this.#drawDetails();
    }
    this.steps.hidden = steps.length === 0;
    keyed(this.steps, this.#steps, steps, (step) => step.id, (step) => new CallView(step, this.#page));
  }

  /** Called each second while something runs. */
  tick() {
    if (this.element.dataset.tone === "running" && this.#call.started_at) text(this.#parts.time, duration(this.#call.started_at));
    for (const step of this.#steps.values()) step.tick();
  }

  #drawLine(call, steps) {
    const { icon: name, tone, word } = look(call, steps);
    const { state, title, short, time } = this.#parts;
    this.element.dataset.tone = tone;
    this.element.dataset.state = call.state;
    fill(state, icon(name), h("span", {}, word));
    fill(title, visible(titleOf(call)));
    this.steps.setAttribute("aria-label", t("steps_of", { thing: titleOf(call) }));
    fill(short, visible(shortened(call)));
    time.title = fullTime(call.finished_at ?? call.started_at ?? call.created_at);
    const from = call.started_at ?? null;
    text(time, from && tone !== "waiting" ? duration(from, call.finished_at) : "");
    fill(this.by, visible(saidBy(call)));
  }

  #drawProgress() {
    const { progress, state } = this.#call;
    if (state !== "executing" || !progress) return fill(this.progress);
    const { fraction, text: words } = progress;
    const bar = h("progress", { max: "1", value: fraction ?? null, "aria-label": this.#call.title || this.#call.name });
    return fill(this.progress, bar, h("span", {}, visible(words ?? ""), fraction === null ? "" : ` ${Math.round(fraction * 100)} %`));
  }

  #drawCard() {
    const call = this.#call;
    if (isOpen(call)) {
      if (!call.fresh) this.#page.needCard(call.id);
      else if (this.#card) this.#card.update(call);
      else {
        this.#card = new Card(call, (card, seen) => this.#page.putCard(card, seen));
        fill(this.slot, this.#card.element);
      }
    } else if (this.#card) this.#fold();
    this.line.hidden = Boolean(this.#card);
    this.by.hidden = Boolean(this.#card) || !call.decided;
  }

  /** Decided: back to one line, unless the card still holds something that the person would miss. */
  #fold() {
    this.#card.update(this.#call);
    if (this.#card.holds) {
      if (!this.slot.querySelector(".close-card")) this.slot.append(button(t("close"), { class: "verb close-card", on: { click: () => this.#drop() } }));
      return;
    }
    this.#drop();
  }

  #drop() {
    const focused = this.slot.contains(document.activeElement);
    this.#card?.close();
    this.#card = null;
    fill(this.slot);
    this.line.hidden = false;
    this.by.hidden = !this.#call.decided;
    if (focused) this.line.focus();
  }

  #toggle() {
    this.#open = !this.#open;
    this.line.setAttribute("aria-expanded", String(this.#open));
    this.details.hidden = !this.#open;
    if (!this.#open) return;
    if (!this.#call.fresh) this.#page.needCard(this.#call.id);
    this.#drawDetails();
  }

  /** The result as far as the thread has it; the whole of it is asked for when one wants to see it. */
  #result({ id, result }) {
    if (!result.truncated || this.#whole) return block(this.#whole ?? result.text);
    const press = button(t("result_whole"), { class: "quiet result-whole", on: { click: () => this.#readWhole(id, press) } });
    return [block(`${result.text}…`), h("p", { class: "hint" }, t("result_cut")), press];
  }

  async #readWhole(id, press) {
    press.disabled = true;
    try {
      this.#whole = (await get(`calls/${id}/result/`)).text;
      this.#drawDetails();
      this.details.querySelector("pre:last-of-type")?.focus();
    } catch (error) {
      press.disabled = false;
      press.after(h("p", { class: "error", role: "alert" }, error.message));
    }
  }

  #drawDetails() {
    const call = this.#call;
    const part = (name, ...content) => (content.some(Boolean) ? h("div", { class: "part" }, h("p", { class: "part-name" }, name), ...content) : null);
    fill(
      this.details,
      part(t("arguments"), call.arguments === null ? h("pre", { tabindex: "0" }, visible(call.raw_arguments || t("arguments_unreadable"))) : reading(call.arguments)),
      call.edited && editedBefore(call),
      part(t("result"), call.result && this.#result(call)),
      part(t("error"), call.error && h("p", { class: "error" }, visible(said(call.error.message)))),
      part(t("late_result"), call.late_result && block(JSON.stringify(call.late_result, null, 2))),
      part(t("decision"), decisionOf(call)),
      h("p", { class: "facts" }, timesOf(call).map((fact) => h("span", {}, visible(fact)))),
    );
  }
}

/** What a line is called: a recipe's step by its label, too. */
function titleOf(call) {
  const title = call.title || call.name;
  return call.label && call.label !== call.name ? `${call.label} · ${title}` : title;
}

/** The short arguments on a line: the headline after the title, or the arguments in brief. */
function shortened(call) {
  const title = call.title || call.name;
  const headline = call.headline ?? "";
  return headline.startsWith(title) ? headline.slice(title.length).replace(/^[:\s]+/, "") : headline;
}

const block = (words) => h("pre", { tabindex: "0" }, visible(words));

/** Who decided, and why: what one wants to know of a call without opening it. */
function saidBy(call) {
  const reason = call.decided?.reason;
  return [settledBy(call), reason && `“${reason}”`].filter(Boolean).join(" · ");
}

function decisionOf(call) {
  if (!call.decided) return null;
  return h("p", {}, visible([foldedLine(call), call.decided.reason && `“${call.decided.reason}”`].filter(Boolean).join(" · ")));
}

const timesOf = (call) =>
  [
    said(call.why),
    t("asked_at", { time: fullTime(call.created_at) }),
    call.started_at && t("started_at", { time: fullTime(call.started_at) }),
    call.finished_at && t("finished_at", { time: fullTime(call.finished_at) }),
    call.attempt > 1 && t("attempt", { n: call.attempt }),
  ].filter(Boolean);

/** The calls of one turn; several stand together under their count. */
export class CallGroup {
  #views = new Map();
  #page;
  #head = h("p", { class: "group-head" });
  #list = h("div", { class: "group-list" });
  element = h("div", { class: "call-group" }, this.#head, this.#list);

  constructor(page) {
    this.#page = page;
  }

  update(calls) {
    this.element.hidden = calls.length === 0;
    this.#head.hidden = calls.length < 2;
    text(this.#head, t("calls", { n: calls.length }));
    keyed(this.#list, this.#views, calls, (call) => call.id, (call) => new CallView(call, this.#page));
  }

  tick() {
    for (const view of this.#views.values()) view.tick();
  }
}

// "Waiting": every call that this person may decide, oldest first; each line opens its card in place. Those of which
// nobody knows whether they took effect stand apart, above.

import { get } from "./api.js";
import { Card } from "./card.js";
import { button, fill, h, icon, keyed, text, visible } from "./dom.js";
import { isOpen } from "./store.js";
import { look, settledBy } from "./state.js";
import { fullTime, since, t } from "./words.js";

class Entry {
  #card;
  #view = null;
  #rail;
  #line;
  #slot = h("div", { class: "rail-card", hidden: true });

  constructor(card, rail) {
    this.#rail = rail;
    this.#line = h("button", { type: "button", class: "rail-line", "aria-expanded": "false", on: { click: () => this.toggle() } });
    this.element = h("li", { dataset: { entry: card.id } }, this.#line, this.#slot);
  }

  update(card) {
    if (card === this.#card) return;
    this.#card = card;
    const { icon: name, tone, word } = look(card);
    this.element.dataset.tone = tone;
    fill(
      this.#line,
      icon(name),
      h("span", { class: "rail-words" }, h("span", { class: "rail-headline", dir: "auto" }, visible(card.headline || card.title)), h("span", { class: "rail-facts" }, visible(facts(card, word)))),
    );
    this.#line.title = fullTime(card.created_at);
    this.#view?.update(card);
  }

  toggle(open = !this.#view) {
    if (open === Boolean(this.#view)) return;
    if (open && this.#rail.showElsewhere(this.#card)) return;
    this.#line.setAttribute("aria-expanded", String(open));
    this.#slot.hidden = !open;
    if (open) this.#openCard();
    else this.close();
  }

  #openCard() {
    this.#view = new Card(this.#card, (card, seen) => this.#rail.put(card, seen), { elsewhere: true });
    const whole = button(t("open_session"), { class: "quiet", on: { click: () => this.#rail.openSession(this.#card) } });
    fill(this.#slot, this.#view.element, whole);
  }

  close() {
    this.#view?.close();
    this.#view = null;
    fill(this.#slot);
  }

  get holds() {
    return Boolean(this.#view?.holds);
  }
}

const facts = (card, word) => [card.state === "pending" ? "" : word, card.asked_by?.name, since(card.created_at), card.approved && t("you_approved")].filter(Boolean).join(" · ");

const isLost = (card) => card.state === "unknown";

export class Rail {
  #cards = new Map();
  #entries = new Map();
  #lost = new Map(); // entries of calls of unknown outcome
  #parts;
  #asked = 0;
  #page;
  #done = h("div", { class: "rail-done", role: "status", hidden: true });

  /** `page` offers showCall(card), openSession(card), decided(card) and announce(words). */
  constructor(root, tab, page) {
    const find = (name) => root.querySelector(`[data-part=${name}]`);
    this.#parts = { list: find("waiting-list"), lost: find("unknown-list"), group: find("unknown-group"), empty: find("waiting-empty"), count: tab.querySelector("[data-part=waiting-count]"), head: find("waiting-head-count") };
    this.#page = page;
    this.#parts.group.before(this.#done);
  }

  async refresh() {
    this.#asked += 1;
    const asked = this.#asked;
    let page;
    try {
      page = await get("calls/", { state: "open", scope: "decide" });
    } catch {
      return; // the next notice or reconnect asks again
    }
    if (asked !== this.#asked) return;
    const held = [...this.#cards.values()].filter((card) => this.#entry(card.id)?.holds);
    const fresh = page.results.filter((card) => !this.#cards.has(card.id));
    this.#cards = new Map([...held, ...page.results].map((card) => [card.id, card]));
    if (fresh.length && this.#asked > 1) this.#page.announce(t("announce_waiting", { thing: fresh[0].headline || fresh[0].title }));
    this.#draw(page.count);
  }

  /** A newer state of one card, unless the list was faster. */
  put(card, seen) {
    if (this.#cards.get(card.id) === seen) {
      if (isOpen(card) || this.#entry(card.id)?.holds) this.#cards.set(card.id, card);
      else {
        this.#cards.delete(card.id);
        this.#tell(card);
      }
      this.#draw();
    }
    this.#page.decided(card);
  }

  /** What this person just decided, so that it does not go without a word. */
  #tell(card) {
    const { icon: name, word } = look(card);
    fill(
      this.#done,
      icon(name),
      h("span", {}, visible(`${card.headline || card.title} · ${settledBy(card) || word}`)),
      button(t("open_session"), { class: "quiet", on: { click: () => this.openSession(card) } }),
    );
    this.#done.hidden = false;
  }

  get size() {
    return this.#cards.size;
  }

  #entry(id) {
    return this.#entries.get(id) ?? this.#lost.get(id);
  }

  /** The oldest card that waits. */
  first() {
    return this.#cards.values().next().value;
  }

  open(id) {
    const entry = this.#entry(id);
    entry?.toggle(true);
    entry?.element.querySelector(".card")?.focus();
  }

  showElsewhere(card) {
    return this.#page.showCall(card);
  }

  openSession(card) {
    this.#page.openSession(card);
  }

  #draw(count = this.#cards.size) {
    const cards = [...this.#cards.values()].sort((a, b) => a.created_at.localeCompare(b.created_at));
    const [lost, others] = [cards.filter(isLost), cards.filter((card) => !isLost(card))];
    keyed(this.#parts.lost, this.#lost, lost, (card) => card.id, (card) => new Entry(card, this));
    keyed(this.#parts.list, this.#entries, others, (card) => card.id, (card) => new Entry(card, this));
    this.#parts.group.hidden = lost.length === 0;
    this.#parts.empty.hidden = cards.length > 0;
    for (const place of [this.#parts.count, this.#parts.head]) {
      text(place, count ? String(count) : "");
      place.hidden = !count;
    }
    this.#page.counted(count);
  }
}

// The conversation: its messages, the run's end, and a view that follows only while the person is at the end.

import { button, fill, h, icon, keyed, visible } from "./dom.js";
import { messageView } from "./message.js";
import { money, number, said, t } from "./words.js";

const NEAR_END = 64;
const NEAR_START = 240;
const MARGIN = 16;

export class Thread {
  #scroller;
  #list = h("div", { class: "messages" });
  #older;
  #end = h("div", { class: "run-end" });
  #views = new Map();
  #following = true;
  #loading = false;
  #more;
  #page;

  /** `page` adds to what calls need: loadOlder(), resume(). */
  constructor(scroller, newText, page) {
    this.#scroller = scroller;
    this.#page = page;
    this.#more = newText;
    this.#older = button(t("older"), { class: "quiet older", on: { click: () => this.#loadOlder() } });
    this.element = h("div", { class: "thread" }, this.#older, this.#list, this.#end);
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    newText.addEventListener("click", () => this.toEnd());
    const sizes = new ResizeObserver(() => this.#keepEnd());
    sizes.observe(scroller);
    sizes.observe(this.element);
  }

  draw(store) {
    this.#older.hidden = !store.older;
    const tail = this.#tail();
    keyed(this.#list, this.#views, store.ordered(), (message) => message.id, (message) => messageView(message, this.#page));
    this.#drawEnd(store.session, store.ordered());
    if (this.#following) this.toEnd();
    else if (tail && this.#tail() !== tail) this.#more.hidden = false;
  }

  /** What is at the end, to tell new text from an older page. */
  #tail() {
    const last = this.#list.lastElementChild;
    return last ? `${last.dataset.message} ${last.offsetHeight}` : "";
  }

  tick() {
    for (const view of this.#views.values()) view.tick();
  }

  /** Go to the end and follow from there. */
  toEnd() {
    this.#following = true;
    this.#more.hidden = true;
    this.#scroller.scrollTop = this.#target();
  }

  /** The end; but what waits for a decision is shown from its top. */
  #target() {
    const { scrollHeight, clientHeight } = this.#scroller;
    const end = scrollHeight - clientHeight;
    const card = this.#list.querySelector(".card");
    return card ? Math.min(end, this.#scroller.scrollTop + card.getBoundingClientRect().top - this.#scroller.getBoundingClientRect().top - MARGIN) : end;
  }

  /** Bring a call's card into view and give it the focus: only ever on a person's word. */
  showCall(id) {
    const element = this.#list.querySelector(`[data-call="${CSS.escape(id)}"]`);
    if (!element) return false;
    this.#following = false;
    element.scrollIntoView({ block: "center" });
    (element.querySelector(".card") ?? element.querySelector(".call-line"))?.focus({ preventScroll: true });
    return true;
  }

  #keepEnd() {
    if (this.#following) this.toEnd();
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    const atEnd = scrollHeight - scrollTop - clientHeight < NEAR_END;
    this.#following = atEnd || Math.abs(this.#target() - scrollTop) < NEAR_END;
    if (this.#following) this.#more.hidden = true;
    if (scrollTop < NEAR_START && !this.#older.hidden) this.#loadOlder();
  }

  async #loadOlder() {
    if (this.#loading || this.#older.hidden) return;
    this.#loading = true;
    this.#older.disabled = true;
    const first = this.#list.firstElementChild;
    const before = first?.getBoundingClientRect().top ?? 0;
    try {
      await this.#page.loadOlder();
      if (first) this.#scroller.scrollTop += first.getBoundingClientRect().top - before;
    } finally {
      this.#loading = false;
      this.#older.disabled = false;
    }
  }

  #drawEnd(session, messages) {
    const run = session?.run;
    if (!run || run.state !== "ended") return fill(this.#end);
    const failed = session.status === "error";
    const again = session.can?.resume ? button(failed ? t("retry") : t("go_on"), { icon: "retry", class: "verb", on: { click: () => this.#page.resume() } }) : null;
    const words = run.error?.message || run.halted_text;
    const told = messages.at(-1)?.broken === words; // it stands at the answer that broke off
    const plain = told || (run.halted_reason === "completed" && !run.error);
    return fill(
      this.#end,
      plain || !words ? null : h("p", { class: `halted ${failed ? "failed" : ""}` }, icon(failed ? "failed" : "stop"), h("span", {}, visible(said(words)))),
      again,
      h("p", { class: "usage" }, usageWords(run.usage ?? {})),
    );
  }
}

/** What a run used; a figure that no answer told is called unknown, never 0; one that some told is at least that. */
function usageWords(usage) {
  if ([usage.input_tokens, usage.output_tokens, usage.cost].every((figure) => figure === undefined || figure === null)) return t("usage_unknown");
  const known = (name, form) => {
    if (usage[name] === undefined || usage[name] === null) return t("unknown");
    return usage.partial?.includes(name) ? t("at_least", { figure: form(usage[name]) }) : form(usage[name]);
  };
  const tokens = t("usage_tokens", { input: known("input_tokens", number), output: known("output_tokens", number) });
  return `${tokens} · ${t("usage_cost", { cost: known("cost", money) })}`;
}

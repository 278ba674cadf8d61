// Where a person writes. The draft is kept; Enter sends, Shift+Enter breaks the line, composing never sends.

import { attribute, fill, h, text, visible } from "./dom.js";
import { t } from "./words.js";

const coarse = matchMedia("(pointer: coarse)");

export class Composer {
  #form;
  #field;
  #send;
  #stop;
  #hint;
  #error;
  #key = "";
  #state = { reply: false, cancel: false, running: false, why: "" };
  #busy = false;
  #onSend;

  /** `onSend(text)` resolves once the server has it; `onStop()`. */
  constructor(root, { onSend, onStop }) {
    this.#form = root;
    this.#onSend = onSend;
    const find = (name) => root.querySelector(`[data-part=${name}]`);
    [this.#field, this.#send, this.#stop, this.#hint, this.#error] = ["field", "send", "stop", "hint", "error"].map(find);
    root.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#stop.addEventListener("click", () => onStop());
    this.#field.addEventListener("keydown", (event) => this.#pressed(event));
    this.#field.addEventListener("input", () => this.#typed());
  }

  /** Switch to a conversation's own draft. */
  use(id) {
    this.#key = `allm-draft-${id}`;
    this.#field.value = sessionStorage.getItem(this.#key) ?? "";
    this.problem("");
    this.#typed();
  }

  /** What is possible now: {reply, cancel, running, cancelling, why}. While it runs, Stop stands in Send's place. */
  set(state) {
    this.#state = state;
    this.#stop.hidden = !state.cancel;
    this.#stop.disabled = Boolean(state.cancelling);
    this.#send.hidden = state.running && state.cancel;
    text(this.#hint, state.why);
    this.#refresh();
  }

  /** Put a text in the field, for the person to look at and send. */
  suggest(value) {
    this.#field.value = value;
    this.#typed();
    this.focus();
  }

  focus() {
    this.#field.focus();
  }

  problem(message) {
    fill(this.#error, message ? h("span", {}, visible(message)) : null);
  }

  #pressed(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229 || coarse.matches) return;
    event.preventDefault();
    this.#submit();
  }

  #typed() {
    if (this.#field.value) sessionStorage.setItem(this.#key, this.#field.value);
    else sessionStorage.removeItem(this.#key);
    this.#refresh();
  }

  #refresh() {
    this.#send.disabled = this.#busy || !this.#state.reply || !this.#field.value.trim();
    attribute(this.#form, "aria-busy", this.#busy ? "true" : null);
  }

  async #submit() {
    const value = this.#field.value.trim();
    if (!value || this.#busy || !this.#state.reply) return;
    const key = this.#key;
    this.#busy = true;
    this.problem("");
    this.#refresh();
    try {
      await this.#onSend(value);
      sessionStorage.removeItem(key);
      if (this.#field.value.trim() === value) this.#field.value = "";
    } catch (error) {
      this.problem(error.message);
    } finally {
      this.#busy = false;
      this.#typed();
    }
  }
}

// The menu beside a conversation's title: give it another one, or take the conversation away.

import { post } from "./api.js";
import { text } from "./dom.js";
import { config } from "./words.js";

const part = (element, name) => element.querySelector(`[data-part=${name}]`);

export class Menu {
  #element;
  #session = null;

  /** `renamed(session)` hears of a new title at once; all others hear of it by the news. */
  constructor(element, renamed) {
    this.#element = element;
    this.form = part(element, "rename");
    this.field = this.form.querySelector("input");
    this.error = this.form.querySelector("[role=alert]");
    this.form.addEventListener("submit", (event) => this.#rename(event, renamed));
    element.addEventListener("toggle", () => this.#toggled());
    element.addEventListener("keydown", (event) => event.key === "Escape" && this.#close());
    element.addEventListener("click", (event) => event.target.closest("a") && this.#close());
    document.addEventListener("click", (event) => element.contains(event.target) || this.#close(false));
  }

  /** For this conversation; null: there is none to do anything with. */
  use(session) {
    if (session?.id !== this.#session?.id) this.#close(false);
    this.#session = session;
    this.#element.hidden = !session;
    if (!session) return;
    part(this.#element, "as-markdown").href = `${config.api}sessions/${session.id}/transcript/`;
    part(this.#element, "as-json").href = `${config.api}sessions/${session.id}/export/`;
    this.form.hidden = session.owner.id !== config.user.id;
  }

  #toggled() {
    if (!this.#element.open) return;
    this.field.value = this.#session.title;
    text(this.error, "");
  }

  #close(focus = true) {
    if (!this.#element.open) return;
    this.#element.open = false;
    if (focus) this.#element.querySelector("summary").focus();
  }

  async #rename(event, renamed) {
    event.preventDefault();
    const title = this.field.value.trim();
    if (!title || title === this.#session.title) return this.#close();
    try {
      const { session } = await post(`sessions/${this.#session.id}/rename/`, { title });
      renamed(session);
      this.#close();
    } catch (error) {
      text(this.error, error.message);
    }
    return undefined;
  }
}

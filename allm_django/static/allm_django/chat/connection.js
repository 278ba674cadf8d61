// The thin bar about the connection: shown when it is really gone, with what a person can do.

import { fill, h } from "./dom.js";
import { FINAL } from "./socket.js";
import { t } from "./words.js";

const OFFLINE_AFTER = 1200; // milliseconds: a short break is nobody's concern

export class Connection {
  #bar;
  #words;
  #lost = new Set();
  #ended = new Set();
  #timer = 0;

  constructor(bar) {
    this.#bar = bar;
    this.#words = bar.textContent;
  }

  /** A socket's state: "open", "lost" or a close code that is final. Returns whether it came back after being lost. */
  heard(name, state) {
    if (FINAL.has(state)) this.#end(name, state);
    const back = state === "open" && this.#lost.delete(name);
    if (state === "lost") this.#lost.add(name);
    this.#show();
    return back;
  }

  /** A socket that is no longer wanted. */
  forget(name) {
    this.#lost.delete(name);
    this.#ended.delete(name);
    this.#show();
  }

  #show() {
    clearTimeout(this.#timer);
    if (this.#ended.size) return;
    if (this.#lost.size === 0) this.#bar.hidden = true;
    else this.#timer = setTimeout(() => this.#say(this.#words), OFFLINE_AFTER);
  }

  #say(...words) {
    fill(this.#bar, ...words);
    this.#bar.hidden = false;
  }

  #end(name, code) {
    this.#ended.add(name);
    if (code === 4401) this.#say(t("login_ended"), " ", h("a", { href: location.href }, t("login_again")));
    else this.#say(code === 4404 ? t("no_such_session") : t("refused_origin"));
  }
}

// What screen readers hear: starts, waits and ends, each once; never the tokens.

import { text } from "./dom.js";
import { t } from "./words.js";

const region = document.getElementById("allm-announce");
let timer = 0;

/** Say something politely. */
export function announce(words) {
  text(region, "");
  clearTimeout(timer);
  timer = setTimeout(() => text(region, words), 60);
}

/** Says how a session goes on, once for each change of its status. */
export class Herald {
  #id = "";
  #status = "";

  hear(session) {
    const known = this.#id === session.id;
    const before = this.#status;
    [this.#id, this.#status] = [session.id, session.status];
    if (known && before !== session.status) announce(t(`announce_${session.status}`));
  }
}

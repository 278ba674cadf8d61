// A socket that stays: reconnects with growing pauses and says hello with the page's cursor each time.

import { parse } from "./json.js";

const FIRST = 500;
const LONGEST = 15000;
const QUIET = 45000; // after this long without a frame, ask whether the other end is still there
const PATIENCE = 10000;
export const FINAL = new Set([4401, 4403, 4404]);

export class Socket {
  #url;
  #hello;
  #frame;
  #state;
  #socket = null;
  #pause = FIRST;
  #timer = 0;
  #quiet = 0;
  #closed = false;

  /** `hello()` gives the first frame; `onFrame(frame)`; `onState("open" | "lost" | close code)`. */
  constructor({ path, hello, onFrame, onState }) {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.#url = `${scheme}//${location.host}${path}`;
    [this.#hello, this.#frame, this.#state] = [hello, onFrame, onState];
    window.addEventListener("online", this.#now);
    document.addEventListener("visibilitychange", this.#now);
    this.#connect();
  }

  #now = () => {
    if (this.#closed || document.hidden || this.#socket) return;
    this.#pause = FIRST;
    this.#connect();
  };

  #connect() {
    clearTimeout(this.#timer);
    const socket = new WebSocket(this.#url);
    this.#socket = socket;
    socket.onopen = () => {
      this.#pause = FIRST;
      this.hello();
      this.#state("open");
    };
    socket.onmessage = ({ data }) => {
      this.#listen(QUIET);
      this.#frame(parse(data));
    };
    socket.onclose = ({ code }) => this.#gone(socket, code);
  }

  #listen(ms) {
    clearTimeout(this.#quiet);
    this.#quiet = setTimeout(() => {
      if (ms === PATIENCE) this.#drop();
      else this.hello();
    }, ms);
  }

  #drop() {
    const socket = this.#socket;
    socket?.close();
    this.#gone(socket, 1006);
  }

  #gone(socket, code) {
    if (socket !== this.#socket || this.#closed) return;
    this.#socket = null;
    clearTimeout(this.#quiet);
    if (FINAL.has(code)) {
      this.close();
      this.#state(code);
      return;
    }
    this.#state("lost");
    this.#timer = setTimeout(() => this.#connect(), code === 4429 ? LONGEST : this.#pause * (0.75 + Math.random() / 2));
    this.#pause = Math.min(LONGEST, this.#pause * 2);
  }

  /** Send the cursor (again). Returns whether it could be sent. */
  hello() {
    if (this.#socket?.readyState !== WebSocket.OPEN) return false;
    this.#socket.send(JSON.stringify(this.#hello()));
    this.#listen(PATIENCE);
    return true;
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#quiet);
    window.removeEventListener("online", this.#now);
    document.removeEventListener("visibilitychange", this.#now);
    this.#socket?.close();
  }
}

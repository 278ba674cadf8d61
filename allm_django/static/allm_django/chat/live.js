// One conversation kept alive: its store, its socket, and the questions to the server that keep both right.

import { get, post } from "./api.js";
import { Socket } from "./socket.js";
import { Store } from "./store.js";
import { config } from "./words.js";

const AGAIN_AFTER = 3000;
const CAN_NOTHING = { reply: false, cancel: false, resume: false, supersede: false };

/** Run once a frame; after a slow frame wait in proportion, so that long answers leave time for the person. */
function frames() {
  let cost = 0;
  return (fn) => {
    const run = () => {
      const from = performance.now();
      fn();
      cost = performance.now() - from;
    };
    if (document.hidden) setTimeout(run, 200);
    else if (cost > 12) setTimeout(() => requestAnimationFrame(run), cost * 3);
    else requestAnimationFrame(run);
  };
}

export class Live {
  store = new Store(frames());
  #id;
  #news;
  #socket = null;
  #closed = false;
  #asking = new Set();
  #catching = false;
  #stuckAt = null;
  #status = "";

  /** `news`: {changed(ids), connection(state), inbox()}. */
  constructor(id, news) {
    this.#id = id;
    this.#news = news;
    this.store.listen((ids) => this.#changed(ids));
  }

  /** Load the conversation, then listen. Raises ApiError. */
  async open() {
    await this.#load();
    if (this.#closed) return;
    this.#socket = new Socket({
      path: `${config.ws}sessions/${this.#id}/`,
      hello: () => this.store.cursor(),
      onFrame: (frame) => this.#frame(frame),
      onState: (state) => this.#news.connection(state),
    });
  }

  close() {
    this.#closed = true;
    this.#socket?.close();
  }

  async #load() {
    const snapshot = await get(`sessions/${this.#id}/`);
    if (!this.#closed) this.store.load(snapshot);
  }

  #changed(ids) {
    if (this.#closed) return;
    const { status } = this.store.session;
    if (this.#status && this.#status !== status) this.#askCan();
    this.#status = status;
    this.#news.changed(ids);
  }

  #frame(frame) {
    if (this.#closed) return;
    if (frame.type === "inbox") this.#news.inbox();
    else if (frame.type === "resync") this.#resync();
    else if (frame.type === "ready") this.#catching = false;
    else if (!this.store.apply(frame)) this.#missing();
  }

  /** Something is missing in between: ask from the cursor, once; if that brought nothing, begin anew. */
  #missing() {
    if (this.#catching) return;
    if (this.#stuckAt === this.store.last) {
      this.#resync();
      return;
    }
    [this.#catching, this.#stuckAt] = [true, this.store.last];
    this.#socket.hello();
  }

  async #resync() {
    this.#stuckAt = null;
    try {
      await this.#load();
    } catch {
      return; // the next frame or reconnect tries again
    }
    this.#socket?.hello();
  }

  /** What one may do, by the server's last word and by what the status since then plainly means. */
  get can() {
    const { session } = this.store;
    const can = session.can ?? CAN_NOTHING;
    const mine = config.can.chat && session.owner.id === config.user.id;
    const active = session.status === "running" || session.status.startsWith("awaiting");
    return { ...can, reply: active ? can.reply : mine, supersede: session.status.startsWith("awaiting") && can.supersede, cancel: active && (can.cancel || mine) };
  }

  /** What one may do changes with the status; events are alike for all viewers and do not say it. */
  async #askCan() {
    try {
      const { session } = await get(`sessions/${this.#id}/`);
      this.store.put({ can: session.can });
    } catch {
      // the next change asks again; the server judges each act anyway
    }
  }

  /** Take over what an answer to a command says of the session. */
  heard({ status, run, cancel_requested: cancelling }) {
    this.store.put({ status, run, cancel_requested: cancelling });
  }

  /** cancel or resume. Raises ApiError. */
  async command(verb) {
    this.heard((await post(`sessions/${this.#id}/${verb}/`)).session);
  }

  async loadOlder() {
    const [first] = this.store.ordered();
    if (first) this.store.prepend(await get(`sessions/${this.#id}/messages/`, { before: first.position, limit: 50 }));
  }

  /** A card that came with an answer to an act on `seen`; when events were faster than the answer, it is asked for anew. */
  putCard(card, seen) {
    if (this.store.calls.get(card.id) === seen) this.store.putCard(card, Infinity);
    else this.needCard(card.id);
  }

  /** Ask for a whole card, as events carry only what every viewer may see. */
  async needCard(id) {
    if (this.#closed || this.#asking.has(id)) return;
    this.#asking.add(id);
    const asked = this.store.last;
    try {
      const card = await get(`calls/${id}/`);
      this.#asking.delete(id);
      if (!this.store.putCard(card, asked)) this.needCard(id);
    } catch {
      setTimeout(() => {
        this.#asking.delete(id);
        if (!this.store.calls.get(id)?.fresh) this.needCard(id);
      }, AGAIN_AFTER);
    }
  }
}

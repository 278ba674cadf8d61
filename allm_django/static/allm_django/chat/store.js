// One session as this page knows it: a snapshot, then events and text folded into it. Knows no DOM.

const PHASE = ["version", "state", "escalated"]; // what a viewer may do hangs on these
const OPEN = new Set(["pending", "asking", "unknown"]);

/** Unicode code points: the unit of the server's text offsets. */
export const length = (text) => {
  let n = 0;
  for (const _ of text) n += 1;
  return n;
};
const after = (text, points) => Array.from(text).slice(points).join("");

export const isOpen = (call) => OPEN.has(call.state);

export class Store {
  session = null;
  messages = new Map();
  calls = new Map();
  older = false;
  last = 0;
  #lengths = new Map();
  #touched = new Map();
  #listeners = new Set();
  #changed = new Set();
  #schedule;
  #index = null;

  /** `schedule(fn)` runs fn soon, once: the page gives its frame. */
  constructor(schedule = (fn) => fn()) {
    this.#schedule = schedule;
  }

  /** Call `listener(changed ids)` after changes; "session" stands for the session, "all" for everything. */
  listen(listener) {
    this.#listeners.add(listener);
  }

  #mark(id) {
    this.#index = null;
    if (this.#changed.size === 0) this.#schedule(() => this.#tell());
    this.#changed.add(id);
  }

  #tell() {
    const changed = this.#changed;
    this.#changed = new Set();
    for (const listener of this.#listeners) listener(changed);
  }

  /** Begin anew from GET sessions/<id>/. */
  load(snapshot) {
    this.session = snapshot.session;
    this.last = snapshot.event;
    this.older = snapshot.older;
    this.messages.clear();
    this.calls.clear();
    this.#lengths.clear();
    this.#touched.clear();
    this.#take(snapshot);
    this.#mark("all");
  }

  /** An older page in front of what is there. */
  prepend(page) {
    this.older = page.older;
    this.#take(page);
    this.#mark("all");
  }

  #take({ messages, calls }) {
    for (const message of messages) this.#putMessage(message);
    for (const call of calls) this.calls.set(call.id, { ...call, fresh: true });
  }

  /** Fold one frame. Returns false when something is missing in between: then the cursor has to be sent again. */
  apply(frame) {
    if (frame.type === "event") return this.#event(frame);
    if (frame.type === "text") return this.#text(frame);
    if (frame.type === "progress") this.#progress(frame);
    return true;
  }

  #event(frame) {
    if (frame.n <= this.last) return true;
    if (frame.n > this.last + 1) return false;
    this.last = frame.n;
    if (frame.session) this.put({ ...frame.session });
    for (const message of frame.messages ?? []) this.#putMessage(message);
    for (const call of frame.calls ?? []) this.#putCall(call);
    return true;
  }

  /** Merge fields into the session. */
  put(session) {
    this.session = { ...this.session, ...session };
    this.#mark("session");
  }

  #putMessage(message) {
    const known = this.messages.get(message.id);
    const points = length(message.text);
    const shorter = message.streaming && known && points < this.#lengths.get(message.id);
    this.messages.set(message.id, shorter ? { ...message, text: known.text } : message);
    if (!shorter) this.#lengths.set(message.id, points);
    this.#mark(message.id);
  }

  #putCall(call) {
    const known = this.calls.get(call.id);
    const moved = !known || PHASE.some((name) => String(known[name]) !== String(call[name])) || known.approvals?.length !== call.approvals?.length;
    const clear = known?.fresh && !moved ? { arguments: known.arguments } : {};
    this.calls.set(call.id, { ...known, ...call, ...clear, fresh: !moved && known.fresh, verbs: moved ? [] : known.verbs });
    this.#touched.set(call.id, this.last);
    this.#mark(call.id);
  }

  /** A whole card, asked for when `last` was `asked`. Returns false when an event has overtaken it. */
  putCard(card, asked) {
    if ((this.#touched.get(card.id) ?? 0) > asked) return false;
    this.calls.set(card.id, { ...card, fresh: true });
    this.#mark(card.id);
    return true;
  }

  #text({ message: id, offset, text }) {
    const message = this.messages.get(id);
    if (!message) return false;
    if (!message.streaming) return true;
    const have = this.#lengths.get(id);
    if (offset > have) return false;
    const more = offset < have ? after(text, have - offset) : text;
    if (more) {
      this.messages.set(id, { ...message, text: message.text + more });
      this.#lengths.set(id, have + length(more));
      this.#mark(id);
    }
    return true;
  }

  #progress({ call: id, fraction, text }) {
    const call = this.calls.get(id);
    if (!call || call.state !== "executing") return;
    this.calls.set(id, { ...call, progress: { fraction, text } });
    this.#mark(id);
  }

  /** Where this page stands: the frame that asks the server for the rest. */
  cursor() {
    const streaming = this.ordered().findLast((message) => message.streaming);
    return {
      type: "hello",
      event: this.last,
      message: streaming?.id ?? null,
      offset: streaming ? this.#lengths.get(streaming.id) : 0,
    };
  }

  /** The messages, oldest first. */
  ordered() {
    return [...this.messages.values()].sort((a, b) => a.position - b.position);
  }

  /** The calls of a message (without the steps of recipes), in their order. */
  callsOf(message) {
    return this.#grouped().get(message.id) ?? [];
  }

  /** The steps of a recipe's call. */
  stepsOf(call) {
    return this.#grouped().get(call.id) ?? [];
  }

  #grouped() {
    this.#index ??= groupBy(this.#byPosition(), owner);
    return this.#index;
  }

  #byPosition() {
    return [...this.calls.values()].sort((a, b) => a.position - b.position);
  }
}

const owner = (call) => call.parent ?? call.message;

function groupBy(items, keyOf) {
  const groups = new Map();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
}

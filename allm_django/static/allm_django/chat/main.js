// The page: joins the store, the sockets and the parts, and is the only module that knows them all.

import "./safe.js";
import { Act, ApiError, get, post } from "./api.js";
import { announce, Herald } from "./announce.js";
import { Card } from "./card.js";
import { Composer } from "./composer.js";
import { button, fill, h, text, visible } from "./dom.js";
import { listenForKeys } from "./keys.js";
import { Panel } from "./panels.js";
import { Rail } from "./rail.js";
import { Sidebar } from "./sidebar.js";
import { FINAL, Socket } from "./socket.js";
import { Start } from "./start.js";
import { isOpen, Store } from "./store.js";
import { sessionLook } from "./state.js";
import { Thread } from "./thread.js";
import { config, t } from "./words.js";

const part = (name) => document.querySelector(`[data-part=${name}]`);
const OFFLINE_AFTER = 1200;
const AGAIN_AFTER = 3000;
const CAN_NOTHING = { reply: false, cancel: false, resume: false };

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

class Page {
  #store = null;
  #socket = null;
  #inbox;
  #lost = new Set();
  #offline = 0;
  #herald = new Herald();
  #act = new Act();
  #asking = new Set();
  #behind = null;
  #asked = null;
  #status = "";
  #parts;
  #count = 0;

  constructor() {
    const backdrop = part("backdrop");
    this.drawer = new Panel("sidebar", part("sidebar"), document.querySelectorAll("[data-toggle=sidebar]"), backdrop);
    this.start = new Start((example) => this.composer.suggest(example));
    this.composer = new Composer(part("composer"), { onSend: (value) => this.#send(value), onStop: () => this.#stop() });
    this.thread = new Thread(part("scroller"), part("new-text"), this);
    this.sidebar = new Sidebar(part("sidebar"), (id) => this.go(id));
    if (part("rail")) {
      this.waiting = new Panel("rail", part("rail"), document.querySelectorAll("[data-toggle=rail]"), backdrop);
      this.rail = new Rail(part("rail"), part("waiting-tab"), this);
    }
    for (const link of document.querySelectorAll("[data-act=new]")) link.addEventListener("click", (event) => this.#newSession(event));
    listenForKeys({ stop: () => this.#stop(), next: () => this.#nextCard(), compose: () => this.composer.focus() });
    window.addEventListener("popstate", () => this.show(sessionInPath()));
    setInterval(() => this.thread.tick(), 1000);
  }

  begin() {
    this.#inbox = new Socket({
      path: `${config.ws}inbox/`,
      hello: () => ({ type: "hello", event: 0, message: null, offset: 0 }),
      onFrame: (frame) => frame.type === "inbox" && this.#somethingWaits(),
      onState: (state) => this.#connection("inbox", state),
    });
    this.show(config.session, config.card);
    this.sidebar.refresh();
    this.rail?.refresh();
  }

  #somethingWaits() {
    this.rail?.refresh();
    this.sidebar.refresh();
  }

  /** Open a conversation (null: a new one) and put it into the address. */
  go(id, card = null) {
    const path = id ? `${config.page}${id}/` : config.page;
    if (location.pathname !== path) history.pushState(null, "", path);
    this.drawer.set(false);
    return this.show(id, card);
  }

  async show(id, card = null) {
    this.#leave();
    this.composer.use(id ?? "new");
    this.sidebar.select(id);
    if (!id) return this.#showStart(card);
    const store = new Store(frames());
    this.#store = store;
    store.listen((changed) => this.#draw(changed));
    fill(part("content"), h("p", { class: "loading", role: "status" }, t("loading")));
    if (!(await this.#snapshot(store, true)) || store !== this.#store) return undefined;
    fill(part("content"), this.thread.element);
    this.thread.toEnd();
    this.#socket = new Socket({
      path: `${config.ws}sessions/${id}/`,
      hello: () => store.cursor(),
      onFrame: (frame) => this.#frame(store, frame),
      onState: (state) => this.#connection("session", state),
    });
    if (card) requestAnimationFrame(() => requestAnimationFrame(() => this.thread.showCall(card)));
    return undefined;
  }

  #leave() {
    this.#socket?.close();
    this.#socket = null;
    this.#store = null;
    this.#status = "";
    this.#behind = this.#asked = null;
    this.#lost.delete("session");
    part("new-text").hidden = true;
  }

  async #showStart(cardId) {
    this.#title("", null);
    this.composer.set({ reply: config.can.chat, cancel: false, running: false, why: config.can.chat ? "" : t("may_not_chat") });
    fill(part("content"), cardId ? await this.#single(cardId) : this.start.element);
    if (!cardId) await this.start.load();
  }

  /** A card by itself, as a link in a message to an approver opens it. */
  async #single(id) {
    try {
      const card = await get(`calls/${id}/`);
      const onCard = (newer) => {
        view.update(newer);
        this.rail?.refresh();
      };
      const view = new Card(card, onCard, { elsewhere: true, level: 2 });
      return h("div", { class: "single" }, view.element, button(t("open_session"), { class: "quiet", on: { click: () => this.openSession(card) } }));
    } catch (error) {
      return this.#failure(error, () => this.show(null, id));
    }
  }

  #failure(error, again) {
    const words = error.status === 404 ? t("no_such_session") : error.message;
    const retry = error.status === 404 ? null : button(t("retry"), { class: "verb", on: { click: again } });
    return h("div", { class: "failure", role: "alert" }, h("p", {}, visible(words)), retry);
  }

  async #snapshot(store, first = false) {
    try {
      const snapshot = await get(`sessions/${first ? sessionInPath() ?? config.session : store.session.id}/`);
      if (first || store === this.#store) store.load(snapshot);
      return true;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (first && store === this.#store) fill(part("content"), this.#failure(error, () => this.show(sessionInPath())));
      return false;
    }
  }

  async #frame(store, frame) {
    if (store !== this.#store) return;
    if (frame.type === "inbox") return this.#somethingWaits();
    if (frame.type === "resync") return this.#resync(store);
    if (frame.type === "ready") this.#behind = null;
    else if (!store.apply(frame)) return this.#missing(store);
    return undefined;
  }

  /** Something is missing in between: ask from the cursor, once; if that brought nothing, begin anew. */
  #missing(store) {
    if (this.#behind === "asked") return undefined;
    if (this.#asked === store.last) return this.#resync(store);
    [this.#behind, this.#asked] = ["asked", store.last];
    return this.#socket?.hello();
  }

  async #resync(store) {
    this.#asked = null;
    if (await this.#snapshot(store)) this.#socket?.hello();
  }

  #connection(name, state) {
    if (FINAL.has(state)) return this.#ended(state);
    if (state === "open") {
      if (this.#lost.delete(name) && name === "inbox") this.#somethingWaits();
    } else this.#lost.add(name);
    clearTimeout(this.#offline);
    if (this.#lost.size === 0) part("offline").hidden = true;
    else this.#offline = setTimeout(() => (part("offline").hidden = false), OFFLINE_AFTER);
    return undefined;
  }

  #ended(code) {
    const bar = part("offline");
    bar.hidden = false;
    if (code === 4401) fill(bar, t("login_ended"), " ", h("a", { href: location.href }, t("login_again")));
    else text(bar, code === 4404 ? t("no_such_session") : t("refused_origin"));
  }

  #draw(changed) {
    const store = this.#store;
    if (!store?.session) return;
    if (changed.has("session") || changed.has("all")) this.#drawSession(store.session);
    this.thread.draw(store);
  }

  #drawSession(session) {
    this.#title(session.title || t("untitled"), session);
    this.sidebar.put(session);
    this.#herald.hear(session);
    if (this.#status && this.#status !== session.status) this.#askCan();
    this.#status = session.status;
    const can = possible(session);
    const running = session.status === "running";
    this.composer.set({ ...can, running, cancelling: session.cancel_requested, why: whyNot(session, can) });
  }

  /** What one may do changes with the status; events are alike for all viewers and do not say it. */
  async #askCan() {
    const store = this.#store;
    try {
      const { session } = await get(`sessions/${store.session.id}/`);
      if (store === this.#store) store.put({ can: session.can });
    } catch {
      // the next change asks again; the server judges each act anyway
    }
  }

  #title(title, session) {
    const { tone, word } = session ? sessionLook(session) : { tone: "quiet", word: "" };
    fill(part("title"), visible(title || t("new_chat")));
    const chip = part("status");
    chip.dataset.tone = tone;
    text(chip, session && session.status !== "idle" ? word : "");
    text(part("notice"), session?.engine.notice ?? "");
    this.#name = title;
    this.counted(this.#count);
  }

  #name = "";

  /** The number of calls that wait, as the rail counts them: also in the window's title. */
  counted(count) {
    this.#count = count;
    document.title = `${count ? `(${count}) ` : ""}${this.#name || t("new_chat")} · ${config.title}`;
  }

  announce(words) {
    announce(words);
  }

  async #send(value) {
    const store = this.#store;
    if (!store) {
      const { session } = await this.#act.send("sessions/", { text: value, ...(this.start.engine ? { engine: this.start.engine } : {}) });
      await this.go(session.id);
      this.sidebar.refresh();
      return;
    }
    const { session } = await this.#act.send(`sessions/${store.session.id}/messages/`, { text: value });
    store.put({ status: session.status, run: session.run });
    this.thread.toEnd();
  }

  async #command(verb) {
    const store = this.#store;
    if (!store?.session) return;
    try {
      const { session } = await post(`sessions/${store.session.id}/${verb}/`);
      store.put({ status: session.status, run: session.run, cancel_requested: session.cancel_requested });
    } catch (error) {
      this.composer.problem(error.message);
    }
  }

  #stop() {
    const { session } = this.#store ?? {};
    if (session && possible(session).cancel) this.#command("cancel");
  }

  resume() {
    this.#command("resume");
  }

  async loadOlder() {
    const store = this.#store;
    const first = store?.ordered()[0];
    if (!first) return;
    store.prepend(await get(`sessions/${store.session.id}/messages/`, { before: first.position, limit: 50 }));
    this.thread.draw(store);
  }

  callsOf(message) {
    return this.#store?.callsOf(message) ?? [];
  }

  stepsOf(call) {
    return this.#store?.stepsOf(call) ?? [];
  }

  /** A card from an answer of the server: newer than what is shown. */
  putCard(card) {
    this.#store?.putCard(card, Infinity);
    this.rail?.refresh();
  }

  /** Ask for a whole card, as events carry only what every viewer may see. */
  async needCard(id) {
    const store = this.#store;
    if (!store || this.#asking.has(id)) return;
    this.#asking.add(id);
    const asked = store.last;
    try {
      const card = await get(`calls/${id}/`);
      this.#asking.delete(id);
      if (store === this.#store && !store.putCard(card, asked)) this.needCard(id);
    } catch {
      setTimeout(() => {
        this.#asking.delete(id);
        if (store === this.#store && !store.calls.get(id)?.fresh) this.needCard(id);
      }, AGAIN_AFTER);
    }
  }

  /** From the rail: a call of the open conversation is shown there. */
  showCall(card) {
    if (card.session !== this.#store?.session?.id || !this.#store.calls.has(card.id)) return false;
    this.waiting.set(false);
    return this.thread.showCall(card.id);
  }

  openSession(card) {
    this.waiting?.set(false);
    this.go(card.session, card.id);
  }

  decided(card) {
    if (card.session === this.#store?.session?.id) this.#store.putCard(card, Infinity);
    this.rail?.refresh();
  }

  #nextCard() {
    const own = [...(this.#store?.calls.values() ?? [])].find((call) => isOpen(call));
    const first = this.rail?.first();
    if (own) this.thread.showCall(own.id);
    else if (first) this.rail.open(first.id);
  }

  #newSession(event) {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    this.go(null);
    this.composer.focus();
  }
}

/** What one may do, by the server's last word and by what the status since then plainly means. */
function possible(session) {
  const can = session.can ?? CAN_NOTHING;
  const mine = config.can.chat && session.owner.id === config.user.id;
  const active = session.status === "running" || session.status.startsWith("awaiting");
  return { ...can, reply: active ? can.reply : mine, cancel: active && (can.cancel || mine) };
}

function whyNot(session, can) {
  if (can.reply || session.status === "running") return "";
  if (session.owner.id !== config.user.id) return t("not_yours");
  return session.status === "awaiting_tools" ? t("reply_blocked") : "";
}

function sessionInPath() {
  const rest = location.pathname.startsWith(config.page) ? location.pathname.slice(config.page.length) : "";
  return rest.replace(/\/$/, "") || null;
}

new Page().begin();

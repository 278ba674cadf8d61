// The page: joins its parts, and is the only module that knows them all.

import "./safe.js";
import { Act, ApiError, get } from "./api.js";
import { announce, Herald } from "./announce.js";
import { ask } from "./ask.js";
import { Card } from "./card.js";
import { Composer } from "./composer.js";
import { Connection } from "./connection.js";
import { button, fill, h, text, visible } from "./dom.js";
import { listenForKeys } from "./keys.js";
import { Live } from "./live.js";
import { Menu } from "./menu.js";
import { Panel } from "./panels.js";
import { Rail } from "./rail.js";
import { Sidebar } from "./sidebar.js";
import { Socket } from "./socket.js";
import { Start } from "./start.js";
import { isOpen } from "./store.js";
import { sessionLook } from "./state.js";
import { Thread } from "./thread.js";
import { config, t } from "./words.js";

const part = (name) => document.querySelector(`[data-part=${name}]`);
const LIST_PAUSE = 1500; // milliseconds between two looks at the lists, however much happens

class Page {
  #live = null;
  #herald = new Herald();
  #act = new Act();
  #connection = new Connection(part("offline"));
  #name = "";
  #count = 0;
  #lists = 0;

  constructor() {
    const backdrop = part("backdrop");
    this.drawer = new Panel("sidebar", part("sidebar"), document.querySelectorAll("[data-toggle=sidebar]"), backdrop);
    this.menu = new Menu(part("menu"), (session) => this.#renamed(session));
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
    new Socket({
      path: `${config.ws}inbox/`,
      hello: () => ({ type: "hello", event: 0, message: null, offset: 0 }),
      onFrame: (frame) => frame.type === "inbox" && this.#listsChanged(),
      onState: (state) => this.#connection.heard("inbox", state) && this.#listsChanged(),
    });
    this.show(config.session, config.card);
    this.#refreshLists();
  }

  #refreshLists() {
    this.rail?.refresh();
    this.sidebar.refresh();
  }

  /** Look at the lists again: at once, and then not again for a while. */
  #listsChanged() {
    if (this.#lists === 2) return;
    if (this.#lists === 1) {
      this.#lists = 2;
      return;
    }
    this.#lists = 1;
    this.#refreshLists();
    setTimeout(() => {
      const again = this.#lists === 2;
      this.#lists = 0;
      if (again) this.#listsChanged();
    }, LIST_PAUSE);
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
    const live = new Live(id, {
      changed: (ids) => this.#draw(ids),
      connection: (state) => this.#connection.heard("session", state),
      inbox: () => this.#listsChanged(),
    });
    this.#live = live;
    fill(part("content"), h("p", { class: "loading", role: "status" }, t("loading")));
    try {
      await live.open();
    } catch (error) {
      if (live !== this.#live) return undefined;
      fill(part("content"), this.#failure(error, () => this.show(id, card)));
      if (error.status === 404) {
        this.#title(t("not_found"), null);
        this.composer.set({ reply: false, cancel: false, running: false, why: "" });
      }
      return undefined;
    }
    if (live !== this.#live) return undefined;
    fill(part("content"), this.thread.element);
    this.thread.toEnd();
    if (card) requestAnimationFrame(() => requestAnimationFrame(() => this.thread.showCall(card)));
    return undefined;
  }

  #leave() {
    this.#live?.close();
    this.#live = null;
    this.#connection.forget("session");
    part("new-text").hidden = true;
  }

  async #showStart(cardId) {
    this.#title(cardId ? t("decision") : "", null);
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
    if (!(error instanceof ApiError)) throw error;
    const words = error.status === 404 ? t("no_such_session") : error.message;
    const retry = error.status === 404 ? null : button(t("retry"), { class: "verb", on: { click: again } });
    return h("div", { class: "failure", role: "alert" }, h("p", {}, visible(words)), retry);
  }

  #draw(ids) {
    const { store } = this.#live;
    if (ids.has("session") || ids.has("all")) this.#drawSession(store.session);
    this.thread.draw(store);
  }

  #drawSession(session) {
    this.#title(session.title || t("untitled"), session);
    this.sidebar.put(session);
    this.#herald.hear(session);
    const { can } = this.#live;
    this.composer.set({ ...can, running: session.status === "running", cancelling: session.cancel_requested, why: whyNot(session, can) });
  }

  #title(name, session) {
    const { tone, word } = session ? sessionLook(session) : { tone: "quiet", word: "" };
    fill(part("title"), visible(name || t("new_chat")));
    part("status").dataset.tone = tone;
    text(part("status"), session && session.status !== "idle" ? word : "");
    text(part("notice"), session?.engine.notice ?? "");
    this.menu.use(session);
    this.#name = name;
    this.counted(this.#count);
  }

  #renamed(session) {
    if (this.#live?.store.session.id === session.id) this.#live.store.put({ title: session.title });
    this.#listsChanged();
  }

  /** The number of calls that wait, as the rail counts them: also in the window's title. */
  counted(count) {
    this.#count = count;
    document.title = `${count ? `(${count}) ` : ""}${this.#name || t("new_chat")} · ${config.title}`;
  }

  announce(words) {
    announce(words);
  }

  async #send(value) {
    const live = this.#live;
    if (!live) {
      const { session } = await this.#act.send("sessions/", { text: value, ...(this.start.engine ? { engine: this.start.engine } : {}) });
      await this.go(session.id);
      this.#listsChanged();
      return;
    }
    const { session } = await this.#act.send(`sessions/${live.store.session.id}/messages/`, { text: value });
    live.heard(session);
    this.thread.toEnd();
  }

  async #command(verb) {
    try {
      await this.#live.command(verb);
    } catch (error) {
      this.composer.problem(error.message);
    }
  }

  /** Stop; what waits for a decision would be closed by that, so ask first. */
  async #stop() {
    const live = this.#live;
    if (!live?.store.session || !live.can.cancel) return;
    const open = [...live.store.calls.values()].filter((call) => isOpen(call) && call.state !== "unknown").length;
    if (open && !(await ask(open === 1 ? t("stop_closes_one") : t("stop_closes", { n: open }), t("stop_anyway")))) return;
    if (live === this.#live) this.#command("cancel");
  }

  resume() {
    this.#command("resume");
  }

  async loadOlder() {
    await this.#live?.loadOlder();
    if (this.#live) this.thread.draw(this.#live.store);
  }

  callsOf(message) {
    return this.#live?.store.callsOf(message) ?? [];
  }

  stepsOf(call) {
    return this.#live?.store.stepsOf(call) ?? [];
  }

  needCard(id) {
    this.#live?.needCard(id);
  }

  /** A person has acted on a card in the thread; `seen` is what it showed then. */
  putCard(card, seen) {
    this.#live?.putCard(card, seen);
    this.#listsChanged();
  }

  /** A person has acted on a card in the rail. */
  decided(card) {
    if (this.#live?.store.calls.has(card.id)) this.#live.needCard(card.id);
    this.#listsChanged();
  }

  /** From the rail: a call of the open conversation is shown there. */
  showCall(card) {
    if (!this.#live?.store.calls.has(card.id)) return false;
    this.waiting.set(false);
    return this.thread.showCall(card.id);
  }

  openSession(card) {
    this.waiting?.set(false);
    this.go(card.session, card.id);
  }

  #nextCard() {
    const own = [...(this.#live?.store.calls.values() ?? [])].find((call) => isOpen(call));
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

function whyNot(session, can) {
  if (can.supersede) return t("reply_supersedes");
  if (can.reply || session.status === "running") return "";
  if (session.owner.id !== config.user.id) return t("not_yours");
  return session.status === "awaiting_tools" ? t("reply_blocked") : "";
}

function sessionInPath() {
  const rest = location.pathname.startsWith(config.page) ? location.pathname.slice(config.page.length) : "";
  return rest.replace(/\/$/, "") || null;
}

new Page().begin();

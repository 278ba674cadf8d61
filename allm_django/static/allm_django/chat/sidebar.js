// The list of conversations: grouped by day, searchable, with a badge on those that wait.

import { get } from "./api.js";
import { attribute, fill, h, text, visible } from "./dom.js";
import { sessionLook } from "./state.js";
import { config, day, fullTime, t } from "./words.js";

const TYPING = 250;

export class Sidebar {
  #list;
  #more;
  #search;
  #scope;
  #status;
  #sessions = [];
  #next = null;
  #current = null;
  #timer = 0;
  #asked = 0;
  #open;

  /** `onOpen(id)` when a person chooses a conversation. */
  constructor(root, onOpen) {
    const find = (name) => root.querySelector(`[data-part=${name}]`);
    [this.#list, this.#more, this.#search, this.#scope, this.#status] = ["sessions", "more", "search", "scope", "sessions-status"].map(find);
    this.#open = onOpen;
    this.#search.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.refresh(), TYPING);
    });
    this.#scope?.addEventListener("change", () => this.refresh());
    this.#more.addEventListener("click", () => this.#load(this.#next));
  }

  /** Ask for the first page again. */
  refresh() {
    return this.#load(null);
  }

  async #load(before) {
    this.#asked += 1;
    const asked = this.#asked;
    try {
      const page = await get("sessions/", { q: this.#search.value.trim(), before, scope: this.#scope?.value ?? "mine" });
      if (asked !== this.#asked) return;
      this.#sessions = before ? [...this.#sessions, ...page.results] : page.results;
      this.#next = page.next;
      this.#draw();
    } catch (error) {
      if (asked === this.#asked) text(this.#status, error.message);
    }
  }

  /** Take over what the open conversation knows of itself. */
  put(session) {
    const index = this.#sessions.findIndex(({ id }) => id === session.id);
    if (index < 0) return;
    this.#sessions[index] = { ...this.#sessions[index], ...session };
    this.#draw();
  }

  select(id) {
    this.#current = id;
    this.#draw();
  }

  #draw() {
    this.#more.hidden = !this.#next;
    text(this.#status, this.#sessions.length ? "" : this.#search.value.trim() ? t("no_matches") : t("no_sessions"));
    const groups = new Map();
    for (const session of this.#sessions) {
      const name = day(session.updated_at);
      groups.set(name, [...(groups.get(name) ?? []), session]);
    }
    const focused = document.activeElement?.dataset?.session;
    fill(this.#list, [...groups].map(([name, sessions]) => this.#group(name, sessions)));
    if (focused) this.#list.querySelector(`[data-session="${CSS.escape(focused)}"]`)?.focus();
  }

  #group(name, sessions) {
    return h("section", { class: "day" }, h("h2", {}, name), h("ul", {}, sessions.map((session) => h("li", {}, this.#link(session)))));
  }

  #link(session) {
    const { tone, word } = sessionLook(session);
    const link = h("a", { href: `${config.page}${session.id}/`, class: "session-link", title: fullTime(session.updated_at), dataset: { session: session.id, tone } });
    attribute(link, "aria-current", session.id === this.#current ? "page" : null);
    link.append(h("span", { class: "session-title", dir: "auto" }, ...visible(session.title || t("untitled"))));
    if (session.waiting) link.append(h("span", { class: "badge" }, String(session.waiting), h("span", { class: "visually-hidden" }, ` ${t("waiting")}`)));
    else if (session.status === "running" || session.status === "error") link.append(h("span", { class: "session-state" }, word));
    link.addEventListener("click", (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button) return;
      event.preventDefault();
      this.#open(session.id);
    });
    return link;
  }
}

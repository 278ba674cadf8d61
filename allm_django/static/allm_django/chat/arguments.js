// A call's arguments on its card: form or raw JSON, one draft behind both, with what was changed marked.

import { button, fill, h, keyButton, visible } from "./dom.js";
import { buildForm, optionalButtons, reading } from "./form.js";
import { brief, changes, parse, pretty, same } from "./json.js";
import { t } from "./words.js";

let fields = 0;

export class Arguments {
  #asked;
  #draft;
  #schema;
  #editable;
  #onChange;
  #form = null;
  #raw = null;
  #invalid = "";
  #closed = false;
  #typing = false; // in a field of the form, which tells of it only when it is left
  #wasChanged = false;
  #views = h("div", { class: "views", role: "group", "aria-label": t("view_as") });
  #body = h("div", { class: "arguments-body" });
  #diff = h("div", { class: "diff" });
  element = h("div", { class: "arguments" }, this.#views, this.#body, this.#diff);

  constructor(card, editable, onChange) {
    this.#asked = card.arguments ?? {};
    this.#draft = structuredCopy(this.#asked);
    this.#schema = card.schema ?? {};
    this.#editable = editable;
    this.#onChange = onChange;
    this.#body.addEventListener("input", () => this.#types(Boolean(this.#form)));
    this.#body.addEventListener("focusout", () => this.#types(false));
    if (card.arguments === null) this.#unreadable(card);
    else this.#show("form");
    if (card.edited) this.element.append(editedBefore(card));
  }

  #unreadable(card) {
    fill(this.#body, h("p", { class: "hint" }, t("arguments_unreadable")), h("pre", { tabindex: "0" }, visible(card.raw_arguments)));
  }

  /** The arguments as they stand now. */
  value() {
    return this.#draft;
  }

  source() {
    return this.#raw && this.#invalid ? this.#raw.value : pretty(this.#draft);
  }

  changed() {
    return this.#typing || Boolean(this.#invalid) || !same(this.#asked, this.#draft);
  }

  /** Why the draft can't be sent, or "". */
  problem() {
    return this.#invalid || (this.#form?.errors().length ? t("form_invalid") : "");
  }

  reset() {
    this.#draft = structuredCopy(this.#asked);
    this.#invalid = "";
    this.#show(this.#raw ? "raw" : "form");
    this.#changedNow();
  }

  focus() {
    this.#body.querySelector("input:not([type=hidden]), textarea, select, button")?.focus();
  }

  close() {
    this.#closed = true;
    this.#form?.close();
    this.#form = null;
  }

  #show(view) {
    this.#form?.close();
    this.#form = null;
    this.#raw = null;
    const tab = (name, label) => button(label, { class: "view", "aria-pressed": String(name === view), on: { click: () => this.#switch(name) } });
    const edit = this.#editable ? keyButton(t("edit_arguments"), "e", { class: "quiet", on: { click: () => this.focus() } }) : null;
    const tabs = h("div", { class: "tabs" }, tab("form", this.#editable ? t("view_form") : t("view_reading")), tab("raw", t("view_json")));
    fill(this.#views, tabs, edit);
    if (view === "raw") this.#showRaw();
    else if (this.#editable) this.#showForm();
    else fill(this.#body, reading(this.#draft));
    this.#mark();
  }

  #switch(view) {
    if (this.#invalid) return;
    this.#show(view);
    this.#views.querySelector("[aria-pressed=true]").focus();
  }

  async #showForm() {
    const box = h("div", { class: "form" });
    fill(this.#body, box);
    const form = await buildForm(box, this.#schema, this.#draft, () => this.#edited());
    if (this.#closed || this.#body.firstElementChild !== box) return form?.close();
    if (!form) {
      this.#show("raw");
      this.#body.prepend(h("p", { class: "hint" }, t("form_not_exact")));
      return undefined;
    }
    this.#form = form;
    const optional = optionalButtons(this.#schema, this.#draft, (name, value) => this.#add(name, value));
    if (optional) this.#body.append(optional);
    this.#mark();
    return undefined;
  }

  #add(name, value) {
    this.#draft = { ...this.#draft, [name]: value };
    this.#show("form");
    this.#changedNow();
  }

  #showRaw() {
    fields += 1;
    const id = `json-${fields}`;
    const source = pretty(this.#draft);
    if (!this.#editable) return fill(this.#body, h("pre", { tabindex: "0" }, visible(source)));
    const rows = Math.min(24, source.split("\n").length + 1);
    const error = h("p", { class: "error", id: `${id}-error` });
    this.#raw = h("textarea", { id, class: "raw", rows, spellcheck: "false", dir: "ltr", "aria-describedby": error.id });
    this.#raw.value = source;
    this.#raw.addEventListener("input", () => this.#typed(error));
    return fill(this.#body, h("label", { for: id, class: "visually-hidden" }, t("arguments_json")), this.#raw, error);
  }

  #typed(error) {
    this.#invalid = "";
    try {
      const value = parse(this.#raw.value);
      if (value === null || typeof value !== "object" || Array.isArray(value)) this.#invalid = t("json_not_object");
      else this.#draft = value;
    } catch (problem) {
      this.#invalid = t("json_wrong", { problem: problem.message });
    }
    error.textContent = this.#invalid;
    this.#mark();
    this.#changedNow();
  }

  #types(typing) {
    this.#typing = typing;
    this.#changedNow();
  }

  #edited() {
    if (!this.#form) return;
    this.#draft = this.#form.value();
    this.#mark();
    this.#changedNow();
  }

  #changedNow() {
    const changed = this.changed();
    if (changed !== this.#wasChanged) {
      this.#wasChanged = changed;
      this.#onChange();
    }
  }

  #mark() {
    const all = changes(this.#asked, this.#draft);
    const rest = this.#form ? this.#form.mark(all) : all;
    fill(this.#diff, rest.length ? changeList(t("your_changes"), rest) : null);
  }
}

const structuredCopy = (value) => parse(JSON.stringify(value));

function changeList(title, list) {
  const value = (each) => (each === undefined ? t("nothing") : visible(brief(each)));
  return h(
    "div",
    { class: "changes" },
    h("p", {}, title),
    h("ul", {}, list.map(({ path, before, after }) => h("li", {}, h("code", {}, visible(path.join("."))), " ", h("del", {}, value(before)), " → ", h("ins", {}, value(after))))),
  );
}

/** What a person changed in a call before, against what the model asked for. */
export function editedBefore(call) {
  return changeList(t("edited_before"), changes(call.asked_arguments ?? {}, call.arguments ?? {}));
}

// A call's arguments as a form typed by the tool's schema (Jedison), shown only when it can show them exactly.

import { button, h, hasHidden, visible } from "./dom.js";
import { brief, holdsRaw, pretty, same } from "./json.js";
import { t } from "./words.js";

// What of a schema reaches Jedison. Left out on purpose: everything named x-… (it could hide a field or add a button),
// default and const (they would change what is shown), pattern and format (the server judges those).
const KEPT = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems"];
const MAX_DEPTH = 12;
const LONG = 60;

// Jedison writes titles with innerHTML and fills in {{templates}}: both are taken away here, once for every text.
const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;", "{": "&#123;", "}": "&#125;" };
const escaped = (value) => visible(value).map((node) => node.textContent).join("").replace(/[&<>"'{}]/g, (c) => ENTITIES[c]);

const kind = (value) => {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value;
};
const fits = (type, value) => type === kind(value) || (type === "number" && kind(value) === "integer");

function local(root, schema, depth = 0) {
  if (typeof schema !== "object" || schema === null) return {};
  if (typeof schema.$ref !== "string" || depth > MAX_DEPTH) return schema;
  const keys = schema.$ref.startsWith("#/") ? schema.$ref.slice(2).split("/") : [];
  const target = keys.reduce((node, key) => node?.[key.replace(/~1/g, "/").replace(/~0/g, "~")], root);
  return keys.length ? { ...local(root, target, depth + 1), ...schema, $ref: undefined } : {};
}

/** The one branch of a schema that describes this value; of nothing, the first. */
function branch(root, schema, value) {
  const whole = local(root, schema);
  const branches = whole.anyOf ?? whole.oneOf;
  if (!Array.isArray(branches)) return whole;
  const choices = branches.map((each) => local(root, each));
  const chosen = choices.find((each) => [].concat(each.type ?? []).some((type) => fits(type, value)));
  return { ...whole, ...(chosen ?? {}) };
}

function typeOf(schema, value) {
  const types = [].concat(schema.type ?? []);
  if (value === undefined) return types.find((type) => type !== "null") ?? "string";
  return types.find((type) => fits(type, value)) ?? kind(value);
}

/** The part of `schema` that is needed to show `value`, with every text escaped. */
export function presentable(root, schema, value, title = "", depth = 0) {
  const source = branch(root, schema, value);
  const type = typeOf(source, value);
  const out = { type, title: escaped(typeof source.title === "string" && source.title ? source.title : title) };
  if (typeof source.description === "string") out.description = escaped(source.description);
  for (const key of KEPT) if (typeof source[key] === "number") out[key] = source[key];
  if (Array.isArray(source.enum) && source.enum.some((each) => same(each, value))) choices(out, source.enum);
  else if (type === "string" && (String(value ?? "").length > LONG || /\n/.test(value ?? ""))) out["x-format"] = "textarea";
  if (depth < MAX_DEPTH && type === "object") objectParts(out, root, source, value ?? {}, depth);
  if (depth < MAX_DEPTH && type === "array") out.items = item(root, source.items, value ?? [], out.title, depth + 1);
  return out;
}

/** All items share one form: that of the first, or of a blank one. A number after the title tells them apart. */
function item(root, schema, values, title, depth) {
  const first = values.length ? values[0] : blank(root, schema, true, depth);
  return { ...presentable(root, schema, first, "", depth), title: `${title} {{ i1 }}` };
}

function choices(out, values) {
  out.enum = values;
  out["x-enumTitles"] = values.map((each) => escaped(brief(each)));
}

function objectParts(out, root, source, value, depth) {
  const known = source.properties ?? {};
  const keys = [...Object.keys(known).filter((key) => Object.hasOwn(value, key)), ...Object.keys(value).filter((key) => !Object.hasOwn(known, key))];
  const extra = typeof source.additionalProperties === "object" ? source.additionalProperties : {};
  out.properties = Object.fromEntries(keys.map((key) => [key, presentable(root, known[key] ?? extra, value[key], key, depth + 1)]));
  out.required = (source.required ?? []).filter((key) => keys.includes(key));
  out["x-objectAdd"] = false;
}

const OPTIONS = {
  purifyHtml: false, // titles come escaped; data are never taken for HTML
  purifyData: false, // what is shown is what runs: no value is rewritten
  parseMarkdown: false,
  enforceRequired: false,
  enforceAdditionalProperties: false,
  enforceEnum: false,
  enforceMinItems: false,
  enforceMaxItems: false,
  arrayDeleteConfirm: false,
  arrayMove: false,
  btnIcons: false,
  showErrors: "change",
};

/** The library, fetched when the first form is needed; null if it can't be had now (then raw JSON is the way). */
async function jedison() {
  try {
    await import("../vendor/jedison/jedison.js");
    return globalThis.Jedison;
  } catch {
    return null;
  }
}

// Jedison makes paths, ids and labels of keys: those with other characters are for raw JSON.
const PLAIN_KEY = /^[\p{L}\p{N} _.:@$-]{1,80}$/u;
const plainKeys = (value) =>
  typeof value !== "object" || value === null || (Array.isArray(value) ? value.every(plainKeys) : Object.entries(value).every(([key, each]) => PLAIN_KEY.test(key) && plainKeys(each)));

let forms = 0;

/**
 * Build the form of `value` into `container`. Returns null when the form could not show the value exactly (then
 * raw JSON is the way), else {value(), errors(), mark(changes), close()}. `onChange` is called after each edit.
 * `unfinished`: the value need not fit yet, as where a person fills in an empty form.
 */
export async function buildForm(container, schema, value, onChange, { unfinished = false } = {}) {
  if (holdsRaw(value) || !plainKeys(value)) return null;
  const Jedison = await jedison();
  if (!Jedison) return null;
  forms += 1;
  const id = `form-${forms}`;
  let form;
  try {
    form = new Jedison.Create({
      ...OPTIONS,
      container,
      id,
      theme: new Jedison.Theme(),
      schema: presentable(schema, schema, value),
      data: structuredClone(value),
      hiddenInputAttributes: { id: `${id}-value`, name: `${id}-value` },
    });
  } catch {
    container.replaceChildren();
    return null;
  }
  if (!same(form.getValue(), value) || (form.getErrors().length && !unfinished)) {
    form.destroy();
    return null;
  }
  const marks = [];
  let open = true;
  form.on("change", () => open && onChange());
  finish(container);
  return {
    value: () => form.getValue(),
    errors: () => form.getErrors(),
    mark: (changes) => mark(form, marks, changes),
    close() {
      open = false;
      // A field that has the focus would report a last change while the form is taken apart: let it go first.
      if (container.contains(document.activeElement)) document.activeElement.blur();
      form.destroy();
    },
  };
}

const place = (form, path) => form.getInstance(["#", ...path].join("/"))?.ui?.control?.container;

/** Mark what was changed, the old value struck beside the new. Returns the changes that have no place in the form. */
function mark(form, marks, changes) {
  for (const undo of marks.splice(0)) undo();
  return changes.filter(({ path, before }) => {
    const field = place(form, path);
    if (!field || path.length === 0) return true;
    const old = h("p", { class: "was" }, `${t("was")} `, h("del", {}, before === undefined ? t("nothing") : visible(brief(before))));
    field.classList.add("changed");
    field.append(old);
    marks.push(() => {
      field.classList.remove("changed");
      old.remove();
    });
    return false;
  });
}

/** Long texts get room; and as inputs can't show invisible characters, a line below the field does. */
function finish(container) {
  for (const input of container.querySelectorAll("input, textarea")) {
    if (input.nodeName === "TEXTAREA") input.rows = Math.min(14, Math.max(2, input.value.split("\n").length + Math.floor(input.value.length / 80)));
    if (input.type !== "hidden" && hasHidden(input.value)) {
      input.closest("[data-path]")?.append(h("p", { class: "seen" }, `${t("hidden_in_field")} `, visible(input.value)));
    }
  }
}

/** A value to begin with, of a schema's own kind: nothing typed yet. `all`: with the optional fields of objects. */
export function blank(root, schema, all = false, depth = 0) {
  const source = branch(root, schema, undefined);
  if (Array.isArray(source.enum) && source.enum.length) {
    return structuredClone(source.enum.some((each) => same(each, source.default)) ? source.default : source.enum[0]);
  }
  const type = typeOf(source, undefined);
  if (source.default !== undefined && fits(type, source.default)) return structuredClone(source.default);
  if (type === "integer" || type === "number") return Math.max(0, source.minimum ?? 0);
  if (type !== "object" || depth > MAX_DEPTH) return structuredClone(EMPTY[type] ?? null);
  const known = source.properties ?? {};
  const names = all ? Object.keys(known) : (source.required ?? []).filter((name) => Object.hasOwn(known, name));
  return Object.fromEntries(names.map((name) => [name, blank(root, known[name], all, depth + 1)]));
}

const EMPTY = { string: "", integer: 0, number: 0, boolean: false, array: [], object: {}, null: null };

/** Buttons for the optional arguments that the model left out; `add(name, value)` puts one in. */
export function optionalButtons(schema, value, add) {
  const missing = Object.keys(schema?.properties ?? {}).filter((name) => !Object.hasOwn(value, name));
  if (missing.length === 0) return null;
  return h(
    "p",
    { class: "optional" },
    missing.map((name) => button(visible(name), { icon: "plus", class: "quiet", on: { click: () => add(name, blank(schema, schema.properties[name])) } })),
  );
}

/** Arguments for reading: names and values, nested as they are, nothing cut. */
export function reading(value) {
  if (value === null || typeof value !== "object" || JSON.isRawJSON?.(value)) {
    return h("span", { class: "value" }, visible(brief(value)));
  }
  const entries = Object.entries(value);
  if (entries.length === 0) return h("span", { class: "value" }, pretty(value));
  return h(
    "dl",
    { class: "reading" },
    entries.map(([name, each]) => h("div", {}, h("dt", {}, visible(name)), h("dd", {}, reading(each)))),
  );
}

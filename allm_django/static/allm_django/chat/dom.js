// Elements without HTML strings: whatever comes from a model, a tool or a person enters the page as a text node.

const SVG = "http://www.w3.org/2000/svg";
const FORBIDDEN = /^(on|style$|srcdoc$)/i;

/** One element. `props`: class, on: {event: listener}, dataset, and plain attributes (true = bare, false/null = left out). */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "on") for (const [type, listener] of Object.entries(value)) element.addEventListener(type, listener);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name === "class") element.className = value;
    else attribute(element, name, value);
  }
  add(element, children);
  return element;
}

/** Set, or with false/null remove, one attribute. */
export function attribute(element, name, value) {
  if (FORBIDDEN.test(name)) throw new Error(`The attribute ${name} is not set from here.`);
  if (value === false || value === null || value === undefined) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value === true ? "" : value)) element.setAttribute(name, value === true ? "" : value);
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replace what is in an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Set an element's text only when it differs, so that nothing is announced or repainted twice. */
export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

/** A button that never submits a form by itself. */
export function button(label, { icon: name, ...props } = {}) {
  return h("button", { type: "button", ...props }, name ? icon(name) : null, label ? h("span", {}, label) : null);
}

/** A button that a key of its card presses too; the key stands on it. */
export function keyButton(label, key, props) {
  const control = button(label, { ...props, "aria-keyshortcuts": key || null });
  if (key) control.append(h("kbd", { "aria-hidden": "true" }, key));
  return control;
}

/** A button that shows only an icon; its label is for screen readers and the tool tip. */
export function iconButton(name, label, props = {}) {
  return h("button", { type: "button", class: "icon-button", "aria-label": label, title: label, ...props }, icon(name));
}

const PATHS = {
  plus: "M12 5v14M5 12h14",
  search: "M11 4a7 7 0 1 0 0 14a7 7 0 0 0 0-14M20 20l-4-4",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  send: "M12 19V5M6 11l6-6l6 6",
  stop: "M7 7h10v10H7z",
  clock: "M12 4a8 8 0 1 0 0 16a8 8 0 0 0 0-16M12 8v4l3 2",
  run: "M12 4a8 8 0 1 1-8 8",
  done: "M5 12.5l4.5 4.5L19 7.5",
  failed: "M12 4a8 8 0 1 0 0 16a8 8 0 0 0 0-16M12 8v5M12 16v.01",
  rejected: "M12 4a8 8 0 1 0 0 16a8 8 0 0 0 0-16M6.5 6.5l11 11",
  unknown: "M12 4a8 8 0 1 0 0 16a8 8 0 0 0 0-16M9.8 9.7a2.3 2.3 0 1 1 3.3 2.2c-.7.4-1.1.8-1.1 1.6M12 16.3v.01",
  question: "M5 5h14v10h-8l-4 4v-4H5z",
  answered: "M4 20l4-1L19 8l-3-3L5 16zM14 7l3 3",
  steps: "M6 5v14M6 9h6M6 17h6M14 7h5v4h-5zM14 15h5v4h-5z",
  copy: "M9 9h10v10H9zM5 15V5h10",
  down: "M12 5v14M6 13l6 6l6-6",
  chevron: "M9 6l6 6l-6 6",
  retry: "M5 12a7 7 0 1 0 2-4.9M5 4v4h4",
  tool: "M14 6a4 4 0 0 0-5 5L4 16l4 4l5-5a4 4 0 0 0 5-5l-2.5 2.5l-2.5-.5l-.5-2.5z",
  warning: "M12 4l9 16H3zM12 10v4M12 17v.01",
};

/** A small line icon, hidden from screen readers: a word always stands beside it. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 24 24", class: `icon icon-${name}`, "aria-hidden": "true" })) {
    svg.setAttribute(key, value);
  }
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/**
 * Keep the children of `parent` in step with `items`: one view a key, made once, updated in place, moved only
 * when its place changed. A view is {element, update(item)}. Returns the views in order.
 */
export function keyed(parent, views, items, keyOf, make) {
  const seen = new Set();
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    seen.add(key);
    if (!views.has(key)) views.set(key, make(item));
    const view = views.get(key);
    if (view.element === place) place = place.nextElementSibling;
    else parent.insertBefore(view.element, place);
    view.update(item);
  }
  for (const [key, view] of views) {
    if (seen.has(key)) continue;
    view.close?.();
    view.element.remove();
    views.delete(key);
  }
}

// Controls (but for tab and line breaks), soft hyphen, joiners, bidi marks and overrides, tags, other format characters.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Co}\u115F\u1160\u3164\uFFA0\u2028\u2029]/u;
const HIDDEN_ALL = new RegExp(HIDDEN, "gu");
const PLAIN = /[\t\n\r]/;

/** Whether a text holds characters that a reader can't see. */
export function hasHidden(value) {
  return [...value.matchAll(HIDDEN_ALL)].some(([character]) => !PLAIN.test(character));
}

/** A text as nodes in which every invisible character stands as a small label with its number (U+202E). */
export function visible(value) {
  const nodes = [];
  let plain = "";
  for (const character of String(value)) {
    if (!HIDDEN.test(character) || PLAIN.test(character)) plain += character;
    else {
      if (plain) nodes.push(document.createTextNode(plain));
      plain = "";
      const number = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
      nodes.push(h("span", { class: "hidden-character" }, `U+${number}`));
    }
  }
  if (plain) nodes.push(document.createTextNode(plain));
  return nodes;
}

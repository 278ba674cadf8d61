// Markdown from a model, made safe: HTML is text, images are off, links only http(s) and mailto; then DOMPurify (safe.js).

import MarkdownIt from "../vendor/markdown-it/markdown-it.js";
import { button, h, icon } from "./dom.js";
import { safeFragment } from "./safe.js";
import { t } from "./words.js";

const markdown = new MarkdownIt({ html: false, linkify: true, breaks: false });
markdown.disable("image");
markdown.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
markdown.validateLink = (url) => /^(https?:\/\/|mailto:)/i.test(url.trim());

/** Markdown as a safe fragment. */
export const render = (source) => dress(safeFragment(markdown.render(source)));

function dress(fragment) {
  for (const pre of fragment.querySelectorAll("pre")) {
    const box = h("div", { class: "code" });
    const copy = button(t("copy"), { icon: "copy", class: "quiet copy-code", on: { click: () => copyText(pre.textContent, copy) } });
    pre.replaceWith(box);
    pre.tabIndex = 0;
    box.append(copy, pre);
  }
  for (const table of fragment.querySelectorAll("table")) {
    const box = h("div", { class: "table", tabindex: "0", role: "group", "aria-label": t("table") });
    table.replaceWith(box);
    box.append(table);
  }
  const headings = [...fragment.querySelectorAll("h1, h2, h3, h4, h5, h6")];
  const levels = [...new Set(headings.map(({ nodeName }) => nodeName))].sort();
  for (const heading of headings) {
    const level = Math.min(6, levels.indexOf(heading.nodeName) + 3); // below the message's own heading, none left out
    heading.replaceWith(h("div", { class: `heading heading-${heading.nodeName[1]}`, role: "heading", "aria-level": level }, ...heading.childNodes));
  }
  return fragment;
}

/** Copy, and say so on the button. */
export async function copyText(value, control) {
  const label = control.querySelector("span") ?? control;
  const before = label.textContent;
  try {
    await navigator.clipboard.writeText(value);
    label.textContent = t("copied");
  } catch {
    label.textContent = t("copy_failed");
  }
  setTimeout(() => (label.textContent = before), 1600);
}

const highlighter = () => import("../vendor/highlightjs/highlight.js").then((module) => module.default, () => null);

/** Colour the code blocks of an element that will not change any more. */
export async function highlight(element) {
  const blocks = [...element.querySelectorAll("pre > code[class^=language-]:not(.hljs)")];
  if (blocks.length === 0) return;
  const hljs = await highlighter();
  for (const code of blocks) {
    const language = code.className.slice("language-".length);
    if (!hljs?.getLanguage(language) || code.textContent.length > 50000) continue;
    code.replaceChildren(safeFragment(hljs.highlight(code.textContent, { language, ignoreIllegals: true }).value));
    code.classList.add("hljs");
  }
}

/** Where the last top-level block begins that may still change, looking only at whole lines. */
function openBlock(source) {
  const whole = source.slice(0, source.lastIndexOf("\n") + 1);
  const blocks = markdown.parse(whole, {}).filter((token) => token.level === 0 && token.map && token.nesting >= 0);
  if (blocks.length < 2) return 0;
  const line = blocks.at(-1).map[0];
  let index = 0;
  for (let n = 0; n < line; n += 1) index = whole.indexOf("\n", index) + 1;
  return index;
}

/** Markdown that grows: blocks that are complete stay as they are, only the open tail is rendered again. */
export class Growing {
  #done = h("div", { class: "markdown" });
  #tail = h("div", { class: "markdown tail" });
  #source = "";
  #closed = 0;
  #caret = h("span", { class: "caret", "aria-hidden": "true" });
  element = h("div", { class: "growing" }, this.#done, this.#tail);

  /** Show `source`; `complete` renders it whole once more, as references may come late. */
  update(source, complete) {
    if (complete) return this.#finish(source);
    if (source === this.#source) return undefined;
    if (!source.startsWith(this.#source)) this.#reset();
    this.#source = source;
    const rest = source.slice(this.#closed);
    const open = openBlock(rest);
    if (open > 0) {
      this.#done.append(render(rest.slice(0, open)));
      this.#closed += open;
      highlight(this.#done);
    }
    this.#tail.replaceChildren(render(rest.slice(open)));
    (lastBlock(this.#tail) ?? this.#tail).append(this.#caret);
    return undefined;
  }

  #reset() {
    this.#closed = 0;
    this.#done.replaceChildren();
  }

  #finish(source) {
    const whole = h("div", { class: "markdown" }, render(source));
    this.element.replaceChildren(whole);
    return highlight(whole);
  }
}

function lastBlock(element) {
  let last = element.lastElementChild;
  while (last && /^(UL|OL|LI|BLOCKQUOTE|DIV|PRE)$/.test(last.nodeName) && last.lastElementChild) last = last.lastElementChild;
  return last?.nodeName === "TABLE" ? last.parentElement : last;
}

export const copyButton = (source) => {
  const control = h("button", { type: "button", class: "quiet copy-message" }, icon("copy"), h("span", {}, t("copy")));
  control.addEventListener("click", () => copyText(source(), control));
  return control;
};

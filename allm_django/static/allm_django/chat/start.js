// The empty page: what this assistant can do and a few things to try.

import { get } from "./api.js";
import { button, fill, h, icon, visible } from "./dom.js";
import { config, t } from "./words.js";

const MOST = 6;

export class Start {
  element = h("div", { class: "start" });
  #engines = [];
  #chosen = null;
  #suggest;

  /** `suggest(text)` puts an example into the composer. */
  constructor(suggest) {
    this.#suggest = suggest;
  }

  /** The chosen engine's name, or null while there is none. */
  get engine() {
    return this.#chosen?.name ?? null;
  }

  async load() {
    try {
      const { results } = await get("engines/");
      this.#engines = results;
      this.#chosen = results.find(({ name }) => name === this.engine) ?? results.find(({ ready }) => ready) ?? results[0] ?? null;
      this.#draw();
    } catch (error) {
      fill(this.element, h("p", { class: "error" }, visible(error.message)), button(t("retry"), { class: "verb", on: { click: () => this.load() } }));
    }
  }

  #draw() {
    const engine = this.#chosen;
    if (!engine) return fill(this.element, noEngine());
    return fill(
      this.element,
      this.#engines.length > 1 ? this.#choice() : null,
      h("h2", {}, visible(engine.title || engine.name)),
      engine.ready ? null : h("p", { class: "notice" }, icon("warning"), h("span", {}, t("no_key"))),
      engine.notice ? h("p", { class: "notice" }, icon("warning"), h("span", {}, visible(engine.notice))) : null,
      engine.description ? h("p", { class: "lead" }, visible(engine.description)) : null,
      toolList(engine.tools ?? []),
      this.#examples(engine.examples ?? []),
    );
  }

  #choice() {
    const choose = h(
      "select",
      { id: "engine", on: { change: (event) => this.#choose(event.target.value) } },
      this.#engines.map(({ name, title, ready }) => h("option", { value: name, selected: name === this.engine }, visible(ready ? title || name : t("engine_without_key", { engine: title || name })))),
    );
    return h("p", { class: "choice" }, h("label", { for: "engine" }, t("engine")), choose);
  }

  #choose(name) {
    this.#chosen = this.#engines.find((engine) => engine.name === name);
    this.#draw();
    this.element.querySelector("select")?.focus();
  }

  #examples(examples) {
    if (examples.length === 0) return null;
    const fills = (example) => button(visible(example), { class: "example", dir: "auto", on: { click: () => this.#suggest(example) } });
    return h("section", {}, h("h3", {}, t("try")), h("div", { class: "examples" }, examples.slice(0, MOST).map(fills)));
  }
}

/** Nothing to talk to: who may set an assistant up is shown where. */
function noEngine() {
  if (!config.engines) return h("p", { class: "plain" }, t("no_engines"));
  return h("p", { class: "plain" }, t("no_engines_yet"), " ", h("a", { href: config.engines }, t("set_up_engine")));
}

function toolList(tools) {
  if (tools.length === 0) return null;
  const line = ({ title, name, manual }) => h("li", {}, icon("tool"), h("span", {}, visible(title || name)), manual ? h("span", { class: "asks" }, t("asks_first")) : null);
  return h("section", {}, h("h3", {}, t("can_do")), h("ul", { class: "tools" }, tools.map(line)));
}

// A form for a tool's arguments, by the same builder as the cards: in the preview of a schema, and to try a tool.

import { h } from "../chat/dom.js";
import { blank, buildForm, optionalButtons } from "../chat/form.js";

export class ArgumentForm {
  #box;
  #onChange;
  #form = null;
  #turn = 0;

  constructor(box, onChange = () => {}) {
    this.#box = box;
    this.#onChange = onChange;
    // Jedison's fields have names: they are not to be sent with the page's own form, nor may Enter send it.
    box.addEventListener("keydown", (event) => event.key === "Enter" && event.target.nodeName === "INPUT" && event.preventDefault());
    box.addEventListener("formdata", (event) => event.stopPropagation());
  }

  /** Show `value`. Returns whether a form can show it exactly; else the box is left empty. */
  async show(schema, value) {
    this.#turn += 1;
    const turn = this.#turn;
    const box = h("div", { class: "form" });
    const form = await buildForm(box, schema, value, () => this.#onChange(form.value()), { unfinished: true });
    if (turn !== this.#turn) {
      form?.close();
      return true;
    }
    this.close();
    this.#form = form;
    if (!form) return false;
    for (const field of box.querySelectorAll("[name]")) field.setAttribute("form", "allm-nowhere");
    this.#box.replaceChildren(box);
    const add = (name, first) => {
      const grown = { ...this.#form.value(), [name]: first };
      this.#onChange(grown);
      this.show(schema, grown);
    };
    const optional = optionalButtons(schema, value, add);
    if (optional) this.#box.append(optional);
    return true;
  }

  close() {
    this.#form?.close();
    this.#form = null;
    this.#box.replaceChildren();
  }
}

export { blank };

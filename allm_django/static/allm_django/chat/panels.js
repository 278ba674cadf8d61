// The sidebar as a drawer (narrow pages) and the rail behind a tab (middling ones): opened and closed by a person only.

/** A panel that `toggle` buttons open; Escape and the backdrop close it, and the focus returns. */
export class Panel {
  #panel;
  #toggles;
  #backdrop;
  #name;
  #from = null;

  constructor(name, panel, toggles, backdrop) {
    [this.#name, this.#panel, this.#toggles, this.#backdrop] = [name, panel, toggles, backdrop];
    for (const toggle of toggles) toggle.addEventListener("click", () => this.set(!this.open, toggle));
    panel.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.open && !event.defaultPrevented) this.set(false);
    });
    backdrop.addEventListener("click", () => this.set(false));
  }

  get open() {
    return document.body.classList.contains(`show-${this.#name}`);
  }

  set(open, from = null) {
    if (open === this.open) return;
    document.body.classList.toggle(`show-${this.#name}`, open);
    for (const toggle of this.#toggles) if (toggle.hasAttribute("aria-expanded")) toggle.setAttribute("aria-expanded", String(open));
    this.#backdrop.hidden = ![...document.body.classList].some((name) => name.startsWith("show-"));
    if (open) {
      this.#from = from;
      this.#panel.querySelector("button, a, input")?.focus();
    } else {
      this.#from?.focus();
      this.#from = null;
    }
  }
}

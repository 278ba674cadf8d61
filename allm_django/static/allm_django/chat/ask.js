// A question before something that can't be taken back.

import { button, h } from "./dom.js";
import { t } from "./words.js";

let questions = 0;

/** Ask; resolves to whether the person pressed the button `yes`. Escape means no. */
export function ask(words, yes) {
  questions += 1;
  const id = `question-${questions}`;
  return new Promise((resolve) => {
    const end = (answer) => dialog.close(answer);
    const dialog = h(
      "dialog",
      { class: "ask", "aria-labelledby": id, on: { close: () => done() } },
      h("p", { id }, words),
      h("div", { class: "card-verbs" }, button(yes, { class: "verb danger-primary", on: { click: () => end("yes") } }), button(t("go_back"), { class: "verb", autofocus: true, on: { click: () => end("") } })),
    );
    const done = () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    };
    document.body.append(dialog);
    dialog.showModal();
  });
}

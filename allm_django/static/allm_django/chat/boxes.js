// The fields that open on a card: a reason, a result by hand, an answer to a question.

import { button, h } from "./dom.js";
import { grantBox } from "./grant.js";
import { parse } from "./json.js";
import { t } from "./words.js";

let boxes = 0;

/** A text field with a label, a hint and buttons: {element, field}. */
function box(label, hint, buttons, cancel) {
  boxes += 1;
  const id = `box-${boxes}`;
  const field = h("textarea", { id, rows: 2, dir: "auto", "aria-describedby": hint ? `${id}-hint` : null });
  const cancelButton = cancel ? button(t("cancel"), { class: "verb", on: { click: cancel } }) : null;
  const element = h(
    "div",
    { class: "box", on: { keydown: (event) => event.key === "Escape" && cancel?.() } },
    h("label", { for: id }, label),
    hint ? h("p", { class: "hint", id: `${id}-hint` }, hint) : null,
    field,
    h("div", { class: "card-verbs" }, buttons(field), cancelButton),
  );
  return { element, field };
}

const act = (label, tone, press) => button(label, { class: `verb ${tone}`, on: { click: press } });

const reasonBox = (decide, cancel) =>
  box(t("reason"), t("reason_hint"), (field) => act(t("reject_now"), "danger-primary", () => decide("reject", { reason: field.value.trim() })), cancel);

const retryBox = (decide, cancel) =>
  box(t("reason"), t("retry_hint"), (field) => act(t("retry_now"), "primary", () => decide("retry", { reason: field.value.trim() })), cancel);

const answerBox = (decide, cancel) => box(t("answer_label"), t("answer_hint"), (field) => answerButtons(field, decide, t("answer_now")), cancel);

const doneBox = (decide, cancel) => box(t("done_label"), t("done_hint"), (field) => answerButtons(field, decide, t("done_now")), cancel);

const questionBox = (decide) =>
  box(t("own_answer"), "", (field) => act(t("answer_now"), "primary", () => field.value.trim() && decide("answer", { value: field.value.trim() })), null);

/** Send as text; or as JSON when what stands there is an object, a list, a number or the like. */
function answerButtons(field, decide, label) {
  const asJson = act(t("answer_as_json"), "", () => decide("answer", { value: parse(field.value) }));
  asJson.hidden = true;
  field.addEventListener("input", () => {
    try {
      asJson.hidden = typeof parse(field.value) === "string";
    } catch {
      asJson.hidden = true;
    }
  });
  return [act(label, "primary", () => decide("answer", { value: field.value })), asJson];
}

/** Each is called with decide(verb, fields) and cancel(), and gives {element, field}. */
export const BOXES = { reject: reasonBox, retry: retryBox, answer: answerBox, done: doneBox, question: questionBox, grant: grantBox };

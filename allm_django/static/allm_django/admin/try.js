// "Try it": the form of the schema and the JSON behind it, kept in step; the JSON is what is sent.

import { text } from "../chat/dom.js";
import { parse, pretty } from "../chat/json.js";
import { t } from "../chat/words.js";
import { ArgumentForm, blank } from "./argument-form.js";

const schema = JSON.parse(document.getElementById("allm-schema").textContent);
const source = document.querySelector("#id_arguments");
const json = document.querySelector("[data-allm-json]");
const note = document.querySelector("[data-allm-note]");
const form = new ArgumentForm(document.querySelector("[data-allm-form]"), (value) => {
  source.value = pretty(value);
});

/** The object in the text, or null with words that say what is wrong. */
function read() {
  try {
    const value = parse(source.value.trim() || "{}");
    if (value !== null && typeof value === "object" && !Array.isArray(value)) return value;
    text(note, t("json_not_object"));
  } catch (problem) {
    text(note, t("json_wrong", { problem: problem.message }));
  }
  return null;
}

async function draw(value) {
  const fields = Object.keys(schema.properties ?? {}).length + Object.keys(value).length;
  const shown = fields > 0 && (await form.show(schema, value));
  if (!shown) form.close();
  text(note, shown ? "" : t(fields ? "form_not_exact" : "preview_empty"));
  return shown;
}

let timer = 0;
source.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const value = read();
    if (value) draw(value);
  }, 300);
});

const given = read();
if (given) {
  const first = Object.keys(given).length ? given : blank(schema, schema);
  source.value = pretty(first);
  draw(first).then((shown) => {
    if (shown && !document.querySelector(".errorlist")) json.removeAttribute("open");
  });
}

// The tool's form: beside the schema stands the form that it makes, and what is wrong with it.

import { h, text } from "../chat/dom.js";
import { parse } from "../chat/json.js";
import { config, t } from "../chat/words.js";
import { ArgumentForm, blank } from "./argument-form.js";

const WAIT = 300; // milliseconds after the last key

const source = document.querySelector("#id_schema");
if (source) start();

function start() {
  const status = h("p", { class: "allm-schema-status", role: "status" });
  const box = h("div", { class: "allm-preview-form" });
  const note = h("p", { class: "help" });
  const title = h("h3", { id: "allm-preview-title" }, t("preview"));
  const preview = h("section", { class: "allm-preview", "aria-labelledby": title.id }, title, status, box, note);
  source.closest(".form-row").append(preview);
  source.closest(".form-row").classList.add("allm-schema-row");
  const form = new ArgumentForm(box);
  let timer = 0;
  let turn = 0;

  const say = (words, tone, place = []) => {
    status.dataset.tone = tone;
    const where = place.length ? `${t("schema_place", { place: `/${place.join("/")}` })} ` : "";
    text(status, where + words);
    if (place.length) status.append(" ", h("button", { type: "button", class: "allm-link", on: { click: () => select(place) } }, t("show_place")));
  };

  const check = async () => {
    turn += 1;
    const mine = turn;
    let schema;
    try {
      schema = parse(source.value);
    } catch (problem) {
      return say(t("json_wrong", { problem: problem.message }), "bad"); // the form stays as it was last right
    }
    const answer = await ask(source.value);
    if (mine !== turn) return undefined;
    if (!answer) return say(t("not_checked"), "none");
    if (answer.problem) return say(answer.problem, "bad", answer.place);
    say(t("schema_good"), "good");
    return draw(schema);
  };

  const draw = async (schema) => {
    const value = blank(schema, schema, true);
    const shown = Object.keys(value).length > 0 && (await form.show(schema, value));
    if (!shown) form.close();
    text(note, shown ? "" : t(Object.keys(schema?.properties ?? {}).length ? "preview_none" : "preview_empty"));
  };

  source.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(check, WAIT);
  });
  check();
}

/** What the server says of the schema; null if it can't be asked now. */
async function ask(schema) {
  const body = new FormData();
  body.set("schema", schema);
  body.set("csrfmiddlewaretoken", document.querySelector("[name=csrfmiddlewaretoken]").value);
  try {
    const response = await fetch(config.check, { method: "POST", body, credentials: "same-origin" });
    return response.ok ? await response.json() : null;
  } catch {
    return null;
  }
}

/** Select a place of the schema in its text: its names are looked for one after the other. */
function select(place) {
  let [from, to] = [0, 0];
  for (const name of place) {
    const key = JSON.stringify(name);
    const at = source.value.indexOf(key, to);
    if (at < 0) continue; // the number of an item
    [from, to] = [at, at + key.length];
  }
  source.focus();
  source.setSelectionRange(from, to);
}

// Shows a text input with commas as tags. Without this file the input works by itself.
"use strict";

function namesIn(input) {
  return input.value.split(",").map((name) => name.trim()).filter(Boolean);
}

function enhance(input) {
  const list = document.createElement("div");
  list.className = "allm-tags";
  const entry = document.createElement("input");
  entry.type = "text";
  entry.className = input.className;
  entry.id = input.id + "_entry";
  entry.setAttribute("aria-describedby", input.getAttribute("aria-describedby") || "");
  entry.spellcheck = false;

  const write = (names) => {
    input.value = [...new Set(names)].join(", ");
    draw();
  };
  const take = () => {
    const typed = entry.value.split(",").map((name) => name.trim()).filter(Boolean);
    entry.value = "";
    if (typed.length) write([...namesIn(input), ...typed]);
  };
  const draw = () => {
    list.replaceChildren(...namesIn(input).map((name) => {
      const tag = document.createElement("span");
      tag.className = "allm-tag";
      tag.textContent = name;
      const remove = document.createElement("button");
      remove.type = "button";
      remove.textContent = "×";
      remove.setAttribute("aria-label", window.interpolate(window.gettext("Remove %s"), [name]));
      remove.addEventListener("click", () => {
        write(namesIn(input).filter((other) => other !== name));
        entry.focus();
      });
      tag.append(remove);
      return tag;
    }));
  };

  entry.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "," || (event.key === "Enter" && entry.value.trim())) {
      event.preventDefault();
      take();
    } else if (event.key === "Backspace" && !entry.value) {
      write(namesIn(input).slice(0, -1));
    }
  });
  entry.addEventListener("blur", take);
  entry.form?.addEventListener("submit", take);
  input.form?.addEventListener("submit", take);
  input.type = "hidden";
  input.after(list, entry);
  document.querySelector(`label[for="${CSS.escape(input.id)}"]`)?.setAttribute("for", entry.id);
  draw();
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("input[data-allm-tags]").forEach(enhance);
});

// Light, dark or as the system says: the same attribute and the same memory as Django's admin, so both agree.
"use strict";
{
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => {
    const mode = localStorage.getItem("theme");
    return mode === "light" || mode === "dark" ? mode : "auto";
  };
  root.dataset.theme = stored();

  const cycle = () => {
    const order = dark.matches ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
    const mode = order[(order.indexOf(stored()) + 1) % 3];
    localStorage.setItem("theme", mode);
    root.dataset.theme = mode;
  };
  document.addEventListener("DOMContentLoaded", () => {
    for (const control of document.querySelectorAll("[data-act=theme]")) control.addEventListener("click", cycle);
  });
}

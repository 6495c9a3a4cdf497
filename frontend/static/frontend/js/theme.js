// Runs before the first paint, so that the page never flashes in another theme. Loaded without `defer` on
// purpose.
(() => {
  "use strict";
  const KEY = "allotment-theme";
  const CHOICES = ["auto", "light", "dark"];
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");

  function stored() {
    try {
      const value = localStorage.getItem(KEY);
      return CHOICES.includes(value) ? value : "auto";
    } catch {
      return "auto"; // storage may be blocked; the choice then applies to this page only
    }
  }

  let choice = stored();

  function apply() {
    if (choice === "auto") delete root.dataset.theme;
    else root.dataset.theme = choice;
    for (const button of document.querySelectorAll("[data-theme-switch]")) {
      const label = button.getAttribute(`data-label-${choice}`);
      button.dataset.choice = choice;
      button.title = label;
      button.setAttribute("aria-label", label);
    }
    document.dispatchEvent(new CustomEvent("allotment:theme"));
  }

  function next() {
    choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
    try {
      localStorage.setItem(KEY, choice);
    } catch {
      // see stored()
    }
    apply();
  }

  root.dataset.scripts = "";
  apply();
  document.addEventListener("DOMContentLoaded", apply);
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-theme-switch]")) next();
  });
  system.addEventListener("change", () => document.dispatchEvent(new CustomEvent("allotment:theme")));
  addEventListener("storage", (event) => {
    if (event.key === KEY) {
      choice = stored();
      apply();
    }
  });
})();

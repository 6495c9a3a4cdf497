// Clicks on buttons, and changes of fields, before the page's scripts have run are kept and repeated once the
// scripts have run. Links, forms and menus work without scripts meanwhile. Loaded without `defer` on purpose.
(() => {
  "use strict";
  const kept = new Map(); // element -> the kinds of its events, in order
  const KINDS = ["click", "input", "change"];
  // The theme switch works immediately.
  const LATER = 'button[type="button"]:not([data-theme-switch])';

  function keep(event) {
    const { type, target } = event;
    const element = type === "click" ? target.closest(LATER) : target;
    if (!element) return;
    // Some scripts may have run already: only the repeated event may act. The browser's default action is
    // kept.
    event.stopImmediatePropagation();
    kept.set(element, (kept.get(element) ?? new Set()).add(type));
    if (type === "click") element.setAttribute("aria-busy", "true");
  }

  // Repeated clicks on an element are carried out once.
  function carryOut() {
    for (const kind of KINDS) document.removeEventListener(kind, keep, true);
    for (const [element, kinds] of kept) {
      element.removeAttribute("aria-busy");
      if (!element.isConnected) continue;
      for (const kind of kinds) {
        if (kind === "click") element.click();
        else element.dispatchEvent(new Event(kind, { bubbles: true }));
      }
    }
  }

  for (const kind of KINDS) document.addEventListener(kind, keep, true);
  // Deferred scripts have run by then, and after the event itself htmx has processed the page as well. Until
  // then events are kept, so that each is carried out once.
  document.addEventListener("DOMContentLoaded", () => setTimeout(carryOut));
})();

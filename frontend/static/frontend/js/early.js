// Clicks on buttons, and changes of fields, that come before the scripts of the page have run: they are kept,
// and carried out when the scripts have run. Links, forms and menus work without scripts meanwhile.
// Loaded without `defer` on purpose.
(() => {
  "use strict";
  const kept = new Map(); // element -> the kinds of its events, in order
  const KINDS = ["click", "input", "change"];
  // The theme is switched at once.
  const LATER = 'button[type="button"]:not([data-theme-switch])';

  function keep(event) {
    const { type, target } = event;
    const element = type === "click" ? target.closest(LATER) : target;
    if (!element) return;
    // Some scripts may have run already: only what is carried out later acts. The browser's own answer stays.
    event.stopImmediatePropagation();
    kept.set(element, (kept.get(element) ?? new Set()).add(type));
    if (type === "click") element.setAttribute("aria-busy", "true");
  }

  // Whoever clicks twice because nothing happens wants it once.
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
  // Deferred scripts have run by then, and after the event itself htmx has read the page as well. Until then
  // events are kept: one that comes in between is carried out once as well.
  document.addEventListener("DOMContentLoaded", () => setTimeout(carryOut));
})();

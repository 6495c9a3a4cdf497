// Changes a part of the page into another one and touches only what differs, so that scroll positions, focus,
// open details, selections and drawn charts survive a refresh.
//
// Children are matched by id (or data-chart) first and by position and tag second. Elements marked
// data-morph="keep" stay unchanged once they exist.
(() => {
  "use strict";

  const keyOf = (node) => (node.nodeType === 1 ? node.id || node.dataset.chart || "" : "");
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

  // State that the reader changed is not overwritten by the server's.
  function isReaders(element, name) {
    if (name === "open") return element.nodeName === "DETAILS" || element.nodeName === "DIALOG";
    if (name === "value" || name === "checked") return element === document.activeElement;
    if (name === "aria-expanded") return "fold" in element.dataset;
    return name === "data-drawn" || name === "data-unfolded" || (name === "title" && element.nodeName === "TIME");
  }

  function attributes(from, to) {
    for (const { name, value } of [...to.attributes]) {
      if (!isReaders(from, name) && from.getAttribute(name) !== value) from.setAttribute(name, value);
    }
    for (const { name } of [...from.attributes]) {
      if (!to.hasAttribute(name) && !isReaders(from, name)) from.removeAttribute(name);
    }
  }

  function node(from, to) {
    if (from.nodeType !== 1) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    if (from.dataset.morph === "keep" || from.isEqualNode(to)) return;
    if (from === document.activeElement && from.matches("input, textarea, select")) return;
    attributes(from, to);
    children(from, to);
  }

  function children(from, to) {
    const keyed = new Map([...from.children].filter(keyOf).map((child) => [keyOf(child), child]));
    const wanted = new Set([...to.children].map(keyOf).filter(Boolean));
    let place = from.firstChild;
    for (const next of [...to.childNodes]) {
      const same = keyed.get(keyOf(next));
      if (keyOf(next) && same && alike(same, next)) {
        if (same !== place) from.insertBefore(same, place);
        else place = place.nextSibling;
        node(same, next);
        continue;
      }
      // A keyed element that is needed further down must not be overwritten by its neighbour.
      while (place && keyOf(place) && !wanted.has(keyOf(place))) {
        const gone = place;
        place = place.nextSibling;
        gone.remove();
      }
      if (place && !keyOf(place) && alike(place, next)) {
        const current = place;
        place = place.nextSibling;
        node(current, next);
      } else {
        from.insertBefore(document.importNode(next, true), place);
      }
    }
    while (place) {
      const gone = place;
      place = place.nextSibling;
      gone.remove();
    }
  }

  // Gives `target` the content of `html` (a string or a fragment).
  function morph(target, html) {
    const holder = document.createElement("template");
    if (typeof html === "string") holder.innerHTML = html;
    else holder.content.append(html);
    children(target, holder.content);
    target.dispatchEvent(new CustomEvent("allotment:morphed", { bubbles: true }));
  }

  window.allotment.morph = morph;
  // hx-swap="morph" does the same for requests that htmx makes itself.
  window.htmx.defineExtension("morph", {
    isInlineSwap: () => false,
    handleSwap: (style, target, fragment) => {
      if (style !== "morph") return false;
      morph(target, fragment);
      return [target];
    },
  });
})();

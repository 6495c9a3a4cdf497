// The texts that scripts show are in the page, translated by the server.
window.allotment = window.allotment || {};
(() => {
  "use strict";
  const units = document.getElementById("unit-words");
  const holder = document.querySelector("[data-words]");

  window.allotment.unitWords = units ? JSON.parse(units.textContent) : null;
  window.allotment.word = (name, values = {}) =>
    Object.entries(values).reduce(
      (text, [key, value]) => text.replace(`%(${key})s`, value),
      (holder && holder.dataset[name]) || "",
    );
  window.allotment.clock = (date) =>
    date.toLocaleTimeString(document.documentElement.lang, { hour12: false });
})();

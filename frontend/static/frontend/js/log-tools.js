// Search and line wrapping in a job's log, and an address with its filters and search.
(() => {
  "use strict";
  const WRAP = "allotment-log-wrap";
  const log = () => document.querySelector("[data-log]");

  // --- search ---------------------------------------------------------------------------------
  function mark(cell, wanted) {
    const text = cell.textContent;
    if (cell.children.length) cell.textContent = text;
    const places = [];
    for (let at = wanted ? text.toLowerCase().indexOf(wanted) : -1; at >= 0; at = text.toLowerCase().indexOf(wanted, at + wanted.length)) places.push(at);
    if (!places.length) return false;
    const pieces = [];
    let begin = 0;
    for (const at of places) {
      const found = document.createElement("mark");
      found.textContent = text.slice(at, at + wanted.length);
      pieces.push(text.slice(begin, at), found);
      begin = at + wanted.length;
    }
    cell.replaceChildren(...pieces, text.slice(begin));
    return true;
  }

  function find(lines) {
    const field = document.querySelector("[data-log-find]");
    if (!field || !log()) return;
    const wanted = field.value.toLowerCase();
    for (const line of lines) line.hidden = !mark(line.lastElementChild, wanted) && Boolean(wanted);
    const shown = log().querySelectorAll("li:not([hidden])").length;
    const said = wanted ? window.allotment.word("logFound", { count: shown, total: log().children.length }) : "";
    const line = document.querySelector("[data-log-found]");
    if (line.textContent !== said) line.textContent = said;
  }

  // --- wrapping -------------------------------------------------------------------------------
  function wrap() {
    const box = document.querySelector("[data-log-wrap]");
    log()?.classList.toggle("unwrapped", !box.checked);
  }

  // --- the address ----------------------------------------------------------------------------
  function keepAddress() {
    const query = new URLSearchParams(location.search);
    const form = document.querySelector("[data-log-form]");
    for (const name of ["task", "attempt", "since"]) query.delete(name);
    for (const [name, value] of new FormData(form)) if (value) query.set(name, value);
    query.delete("find");
    const wanted = document.querySelector("[data-log-find]").value;
    if (wanted) query.set("find", wanted);
    history.replaceState(history.state, "", `?${query}`);
  }

  document.addEventListener("input", ({ target }) => {
    if (!target.matches("[data-log-find]")) return;
    find(log().children);
    keepAddress();
  });
  document.addEventListener("change", ({ target }) => {
    if (!target.matches("[data-log-wrap]")) return;
    localStorage.setItem(WRAP, target.checked ? "" : "off");
    wrap();
  });
  document.addEventListener("allotment:logged", ({ detail }) => find(detail));
  document.addEventListener("htmx:afterSwap", ({ target }) => {
    if (target.id !== "job-log" || !log()) return;
    document.querySelector("[data-log-wrap]").checked = localStorage.getItem(WRAP) !== "off";
    wrap();
    find(log().children);
    keepAddress();
  });
})();

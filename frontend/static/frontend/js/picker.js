// Pickers of users and groups: while the user types, the field's list is filled with matching names.
(() => {
  "use strict";
  const WAIT_MS = 150;
  const latest = new WeakMap();

  async function fill(field) {
    const kind = field.dataset.kindFrom ? field.form.elements[field.dataset.kindFrom].value : field.dataset.people;
    const asked = Symbol("asked");
    latest.set(field, asked);
    const query = new URLSearchParams({ q: field.value.trim(), kind });
    const answer = await fetch(`${field.dataset.peopleUrl}?${query}`, { headers: { Accept: "application/json" } });
    if (!answer.ok || latest.get(field) !== asked) return;
    const list = document.getElementById(field.getAttribute("list"));
    const { items } = await answer.json();
    list.replaceChildren(
      ...items.map(({ value, note }) => Object.assign(document.createElement("option"), { value, label: note ? `${value} · ${note}` : value })),
    );
  }

  const timers = new WeakMap();
  const start = (event) => {
    const field = event.target;
    if (!field.matches?.("[data-people]")) return;
    clearTimeout(timers.get(field));
    // A name that was selected from the list is complete.
    if (event.inputType === "insertReplacementText") return;
    timers.set(field, setTimeout(() => fill(field).catch(() => {}), event.type === "input" ? WAIT_MS : 0));
  };
  document.addEventListener("input", start);
  document.addEventListener("focusin", start);
})();

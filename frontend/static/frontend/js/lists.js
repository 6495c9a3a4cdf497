// Lists: the fields of the filter builder, selected rows, menus and dialogs of rows, and the panel with
// details. All of this also works without scripts: by links, and by forms.
(() => {
  "use strict";

  // --- filter builder -------------------------------------------------------------------------
  // Shows the operators and values of the chosen field; times are entered in the reader's zone.
  function suit(form) {
    const fields = JSON.parse(form.querySelector("script[type='application/json']").textContent);
    const { field, operator } = form.elements;
    const known = fields[field.value];
    operator.replaceChildren(...known.operators.map(([value, label]) => new Option(label, value)));
    const kind = field.selectedOptions[0].dataset.kind;
    const current = form.elements.value;
    const wanted = document.createElement(known.choices.length ? "select" : "input");
    wanted.name = "value";
    wanted.required = true;
    if (known.choices.length) wanted.replaceChildren(...known.choices.map(([value, label]) => new Option(label, value)));
    else {
      wanted.type = { time: "datetime-local", number: "number" }[kind] || "text";
      wanted.maxLength = 200;
      wanted.autocomplete = "off";
      if (known.suggestions) wanted.setAttribute("list", known.suggestions);
      if (kind === "list") wanted.dataset.several = "";
    }
    current.replaceWith(wanted);
  }

  for (const form of document.querySelectorAll("[data-filter-form]")) {
    suit(form);
    form.elements.field.addEventListener("change", () => suit(form));
    form.addEventListener("formdata", ({ formData }) => {
      if (form.elements.value.type !== "datetime-local") return;
      const moment = new Date(formData.get("value"));
      if (!Number.isNaN(moment.getTime())) formData.set("value", `${moment.toISOString().slice(0, 19)}Z`);
    });
  }
  for (const time of document.querySelectorAll("time[data-moment]")) {
    const moment = new Date(time.dateTime);
    if (!Number.isNaN(moment.getTime())) time.textContent = moment.toLocaleString(document.documentElement.lang);
  }

  // --- selected rows --------------------------------------------------------------------------
  const boxes = (bar) => [...document.querySelectorAll(`input[name="item"][form="${bar.id}"]`)];

  function count(bar) {
    const all = boxes(bar);
    const chosen = all.filter((box) => box.checked).length;
    bar.hidden = chosen === 0;
    bar.querySelector("[data-batch-count]").textContent = bar.dataset.batch.replace("%(count)s", chosen);
    bar.querySelector("[data-batch-clear]").hidden = false;
    const whole = document.querySelector(`[data-select-all][form="${bar.id}"]`);
    if (!whole) return;
    whole.hidden = false;
    whole.checked = chosen > 0 && chosen === all.length;
    whole.indeterminate = chosen > 0 && chosen < all.length;
  }

  const countAll = () => document.querySelectorAll("[data-batch]").forEach(count);

  document.addEventListener("change", (event) => {
    const box = event.target;
    if (box.matches("[data-select-all]")) {
      for (const one of boxes(box.form)) one.checked = box.checked;
    } else if (box.name !== "item") return;
    countAll();
  });
  document.addEventListener("click", (event) => {
    const clear = event.target.closest("[data-batch-clear]");
    if (!clear) return;
    for (const box of boxes(clear.form)) box.checked = false;
    countAll();
    document.querySelector(`[data-select-all][form="${clear.form.id}"]`)?.focus();
  });
  document.addEventListener("allotment:morphed", countAll);
  addEventListener("pageshow", countAll); // the browser may restore the boxes when the user goes back
  countAll();

  // --- menus of rows --------------------------------------------------------------------------
  // A menu is placed above the page, because the scrolling table in its card would cut it off.
  function place(menu) {
    const panel = menu.querySelector(".menu-panel");
    const { top, bottom, right } = menu.querySelector("summary").getBoundingClientRect();
    const below = innerHeight - bottom > panel.offsetHeight + 12;
    panel.style.top = `${below ? bottom + 4 : Math.max(8, top - panel.offsetHeight - 4)}px`;
    panel.style.left = `${Math.max(8, right - panel.offsetWidth)}px`;
  }

  document.addEventListener(
    "toggle",
    ({ target }) => target.matches?.(".row-menu") && target.open && place(target),
    true,
  );
  document.querySelectorAll(".row-menu[open]").forEach(place); // opened before this script ran
  const closeRowMenus = () => {
    for (const menu of document.querySelectorAll(".row-menu[open]")) menu.open = false;
  };
  addEventListener("scroll", closeRowMenus, { passive: true });
  addEventListener("resize", closeRowMenus);

  // --- forms of rows --------------------------------------------------------------------------
  // The form of one row is fetched on request: a page with one form for each row would be slow.
  function showForm(dialog) {
    dialog.open = false;
    dialog.addEventListener("close", () => {
      history.replaceState(null, "", dialog.querySelector("[data-list-dialog-close]").href);
      dialog.remove();
    });
    dialog.showModal();
  }

  async function openForm(link) {
    closeRowMenus();
    const answer = await fetch(link.href, { headers: { "HX-Request": "true" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const dialog = page.querySelector("[data-list-dialog]");
    if (!answer.ok || !dialog) return location.assign(link.href);
    document.querySelector("main").prepend(dialog);
    showForm(dialog);
    return undefined;
  }

  document.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    const opening = event.target.closest("[data-list-form]");
    const closing = event.target.closest("[data-list-dialog-close]");
    if (!opening && !closing) return;
    event.preventDefault();
    if (closing) closing.closest("dialog").close();
    else openForm(opening).catch(() => location.assign(opening.href));
  });
  document.querySelectorAll("[data-list-dialog]").forEach(showForm);

  // --- dialogs of rows ------------------------------------------------------------------------
  // Dialogs are fetched on request, like forms. If the row has changed meanwhile, the page is reloaded.
  async function openDialog(button) {
    const { dialogOpen: id, row } = button.dataset;
    const address = new URL(location.href);
    address.searchParams.set("part", "dialogs");
    address.searchParams.set("row", row);
    const answer = await fetch(address, { headers: { "HX-Request": "true" } });
    const fetched = new DOMParser().parseFromString(await answer.text(), "text/html");
    const dialog = fetched.getElementById(id);
    if (!answer.ok || !dialog) return location.reload();
    if (document.getElementById(id)) return undefined; // the button was pressed twice
    // Rows are not refreshed while a dialog within them is open, so that the focus can return.
    (button.closest("[data-live]") || document.body).append(dialog);
    dialog.addEventListener("close", () => {
      dialog.remove();
      (button.closest("details:not([open])")?.querySelector("summary") || button).focus();
    });
    dialog.showModal();
    return undefined;
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-dialog-open][data-row]");
    if (button) openDialog(button).catch(() => window.allotment.toast(window.allotment.word("offline"), "failed"));
  });

  // --- details of a row -----------------------------------------------------------------------
  // The rows are fetched again with the panel in them; the address names the row.
  async function follow(link) {
    const region = document.querySelector("[data-list-live]");
    const address = new URL(link.href);
    const part = new URL(link.href);
    part.searchParams.set("part", "rows");
    const answer = await fetch(part, { headers: { "HX-Request": "true" } });
    if (!answer.ok || answer.redirected) return location.assign(address);
    window.allotment.morph(region.querySelector("[data-live-body]"), await answer.text());
    region.querySelector("[data-live]").dataset.live = part.pathname + part.search;
    history.replaceState(null, "", address);
    return undefined;
  }

  let opener = "";
  const panel = () => document.querySelector("[data-list-panel]");

  async function open(link) {
    opener = link.dataset.listDetails;
    closeRowMenus();
    await follow(link);
    document.getElementById("list-panel-title")?.focus();
  }

  async function close() {
    await follow(panel().querySelector("[data-list-close]"));
    document.querySelector(`[data-list-details="${opener}"]`)?.closest(".row-menu")?.querySelector("summary").focus();
  }

  document.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    const details = event.target.closest("[data-list-details]");
    const away = event.target.closest("[data-list-close]");
    if (!details && !away) return;
    event.preventDefault();
    (details ? open(details) : close()).catch(() => location.assign((details || away).href));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && panel()?.contains(document.activeElement)) close();
  });
})();

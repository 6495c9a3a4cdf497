// Small behaviours of the frame: search shortcut, drawer, menus, dialogs, toasts.
(() => {
  "use strict";
  const root = document.documentElement;

  // --- search ---------------------------------------------------------------------------------
  const typing = (node) => node.closest && node.closest("input, textarea, select, [contenteditable]");

  document.addEventListener("keydown", (event) => {
    const field = document.querySelector("[data-find]");
    const slash = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !typing(event.target);
    const command = event.key.toLowerCase() === "k" && (event.metaKey || event.ctrlKey);
    if (field && (slash || command)) {
      event.preventDefault();
      field.focus();
      field.select();
    }
    if (event.key === "Escape") {
      if (event.target === field) field.blur();
      drawer(false);
      closeMenus(null);
    }
  });

  // --- drawer ---------------------------------------------------------------------------------
  function drawer(open) {
    if ((root.dataset.drawer === "open") === open) return;
    if (open) root.dataset.drawer = "open";
    else delete root.dataset.drawer;
    const button = document.querySelector(".drawer-button");
    button.setAttribute("aria-expanded", String(open));
    const first = document.querySelector("#side a, #side summary");
    (open && first ? first : button).focus();
  }

  // --- menus ----------------------------------------------------------------------------------
  function closeMenus(except) {
    for (const menu of document.querySelectorAll("details[data-menu][open]")) {
      if (menu === except) continue;
      if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
      menu.open = false;
    }
  }

  // --- toasts ---------------------------------------------------------------------------------
  function toast(text, tone = "info") {
    const template =
      document.querySelector(`[data-toast-template="${tone}"]`) || document.querySelector("[data-toast-template]");
    const copy = template.content.cloneNode(true);
    const box = copy.querySelector("[data-toast]");
    box.classList.add(tone);
    copy.querySelector("[data-toast-text]").textContent = text;
    document.querySelector("[data-toasts]").append(copy);
    fade(box);
  }

  // Messages of success disappear after a while; failures stay until they are closed.
  function fade(box) {
    if (!box.classList.contains("failed")) setTimeout(() => box.remove(), 8000);
  }

  window.allotment.toast = toast;
  document.querySelectorAll("[data-toasts] [data-toast]").forEach(fade);
  // Sent by the server as HX-Trigger: {"allotment:toast": {"text": …, "tone": …}}
  document.addEventListener("allotment:toast", (event) => toast(event.detail.text, event.detail.tone));
  document.addEventListener("htmx:sendError", () => toast(window.allotment.word("offline"), "failed"));
  document.addEventListener("htmx:responseError", (event) =>
    toast(window.allotment.word("refused", { code: event.detail.xhr.status }), "failed"),
  );

  // If a row of tabs is wider than the screen, the current tab is scrolled into view.
  document.querySelector("nav.tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

  // --- clicks ---------------------------------------------------------------------------------
  document.addEventListener("click", (event) => {
    const target = event.target;
    closeMenus(target.closest("details[data-menu]"));
    if (target.closest("[data-drawer-toggle]")) drawer(root.dataset.drawer !== "open");
    if (target.closest("[data-toast-close]")) target.closest("[data-toast]").remove();
    const opener = target.closest("[data-dialog-open]");
    if (opener) document.getElementById(opener.dataset.dialogOpen)?.showModal();
    if (target.closest("[data-dialog-close]") || target.nodeName === "DIALOG") target.closest("dialog").close();
  });

  // --- forms ----------------------------------------------------------------------------------
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-autosubmit]")) event.target.form.requestSubmit();
  });
  // Suggests the next one of several values that are separated by commas, because browsers compare
  // suggestions with the whole text.
  function suggest({ target }) {
    if (!target.matches("[data-several]") || !target.list) return;
    const known = target.list;
    known.values ??= [...known.options].map((option) => option.value);
    const [, before, begun] = target.value.match(/^(.*,\s*)?(.*)$/su);
    const named = new Set(target.value.split(",").map((value) => value.trim()));
    const next = known.values.filter((value) => !named.has(value) || value === begun);
    known.replaceChildren(...next.map((value) => new Option("", (before || "") + value)));
  }

  for (const kind of ["focusin", "input"]) document.addEventListener(kind, suggest);
  document.addEventListener("input", (event) => {
    const form = event.target.form;
    if (form && event.target.closest("[data-live]")) form.dataset.dirty = "";
  });
})();

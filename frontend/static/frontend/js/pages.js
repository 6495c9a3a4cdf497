// Small behaviours of pages: copying a text, adding a line to a field, form fields that apply only to a certain
// choice, and sections that fold on narrow screens.
(() => {
  "use strict";

  // data-copy names the element whose text is copied; data-copied is the label of the button afterwards.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      window.allotment.toast(button.dataset.copied, "running");
    } catch {
      // Without permission to write to the clipboard the text is selected, so that it can be copied by
      // keyboard.
      getSelection().selectAllChildren(source);
    }
  });

  // data-add-line is a line that is added to the text field named by data-into, unless the field has it.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-add-line]");
    const field = button?.closest("form")?.elements[button.dataset.into];
    if (!field) return;
    const lines = field.value.split("\n").filter((line) => line.trim());
    if (!lines.includes(button.dataset.addLine)) lines.push(button.dataset.addLine);
    field.value = lines.join("\n");
    for (const kind of ["input", "change"]) field.dispatchEvent(new Event(kind, { bubbles: true }));
    field.focus();
  });

  // data-emptied-by names a field: content that was read for its value is removed when the value changes, and
  // a response for the old value is ignored.
  document.addEventListener("change", (event) => {
    if (!event.target.form || !event.target.name) return;
    for (const element of event.target.form.querySelectorAll(`[data-emptied-by="${event.target.name}"]`)) {
      element.replaceChildren();
      document.querySelectorAll(`[hx-target="#${element.id}"]`).forEach((button) => window.htmx.trigger(button, "htmx:abort"));
    }
  });

  // data-refusal is the answer to a form as it was sent: once its input changes, it no longer applies.
  document.addEventListener("input", (event) => {
    for (const banner of event.target.form?.querySelectorAll("[data-refusal]") ?? []) banner.hidden = true;
  });

  // data-when names a field; the element is shown while the field's value starts with data-when-starts, or is
  // not data-when-not. Without scripts all elements are shown.
  function suit(form) {
    for (const element of form.querySelectorAll("[data-when]")) {
      const value = form.elements[element.dataset.when]?.value ?? "";
      const { whenStarts: starts, whenNot: not } = element.dataset;
      element.hidden = starts ? !value.startsWith(starts) : value === not;
    }
  }

  document.querySelectorAll("form").forEach(suit);
  document.addEventListener("change", (event) => event.target.form && suit(event.target.form));

  // On narrow screens sections with data-folds show their heading until they are opened, by their button, by a
  // link to something in them, or because a field in them is not valid. A wide screen shows them in full.
  function unfold(section, open = true) {
    section.toggleAttribute("data-unfolded", open);
    section.querySelector("[data-fold]").setAttribute("aria-expanded", String(open));
  }

  document.addEventListener("click", (event) => {
    const section = event.target.closest("[data-fold]")?.closest("[data-folds]");
    if (section) unfold(section, !section.hasAttribute("data-unfolded"));
  });
  document.addEventListener(
    "invalid",
    (event) => {
      const section = event.target.closest("[data-folds]");
      if (section) unfold(section);
    },
    true,
  );

  function openTarget() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const section = target?.closest("[data-folds]");
    if (!section) return;
    unfold(section);
    target.scrollIntoView();
  }

  // The server shows fewer rows on narrow screens.
  const narrow = matchMedia("(max-width: 640px)");
  const noteWidth = () => {
    document.cookie = `narrow=1; path=/; samesite=lax; max-age=${narrow.matches ? 31536000 : 0}`;
  };
  narrow.addEventListener("change", noteWidth);
  noteWidth();

  addEventListener("hashchange", openTarget);
  openTarget();
})();

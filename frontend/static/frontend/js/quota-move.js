// Moves quota between siblings of the quota tree: by drag and drop, or from the button of a row.
(() => {
  "use strict";
  const batch = window.allotment.quotaBatch;
  const dialog = document.getElementById("move-dialog");
  if (!batch || !dialog) return;

  const { tree, words, rowOf, cellOf, current, shown, parse, say, change } = batch;
  const key = tree.dataset.focus;
  const from = document.getElementById("move-from");
  const to = document.getElementById("move-to");
  const amount = document.getElementById("move-amount");
  const left = dialog.querySelector("[data-move-left]");
  const wrong = dialog.querySelector("[data-move-error]");
  let dragged = null;

  const siblings = (row) =>
    [...tree.querySelectorAll(`tr[data-editable][data-parent="${row.dataset.parent}"]`)].filter(
      (other) => cellOf(other, key) && current(cellOf(other, key)) !== null,
    );

  function option(row) {
    const element = document.createElement("option");
    element.value = row.dataset.node;
    element.textContent = row.dataset.name;
    return element;
  }

  function describe() {
    const cell = cellOf(rowOf(from.value), key);
    wrong.hidden = true;
    left.textContent = cell
      ? say(words.has, { name: rowOf(from.value).dataset.name, amount: shown(current(cell), Number(cell.dataset.unit)) })
      : "";
  }

  function offer(row, target = null) {
    const rows = siblings(row);
    from.replaceChildren(...rows.map(option));
    to.replaceChildren(...rows.map(option));
    from.value = row.dataset.node;
    const other = target || rows.find((one) => one !== row);
    to.value = other ? other.dataset.node : "";
    amount.value = "";
    describe();
    dialog.showModal();
    amount.focus();
  }

  function move() {
    const giver = cellOf(rowOf(from.value), key);
    const taker = cellOf(rowOf(to.value), key);
    const unit = Number(giver?.dataset.unit);
    const read = parse(amount.value, unit);
    const has = giver ? current(giver) : 0;
    if (!taker || giver === taker || read.wrong || read.raw === null || read.raw <= 0 || read.raw > has) {
      wrong.textContent = say(words.most, { amount: shown(has, unit) });
      wrong.hidden = false;
      amount.focus();
      return;
    }
    change(giver, shown(has - read.raw, unit));
    change(taker, shown(current(taker) + read.raw, unit));
    dialog.close();
  }

  from.addEventListener("change", describe);
  dialog.querySelector("[data-move-apply]").addEventListener("click", move);
  amount.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    move();
  });
  tree.addEventListener("click", (event) => {
    const button = event.target.closest("[data-move]");
    if (button) offer(button.closest("tr"));
  });

  // --- drag -----------------------------------------------------------------------------------
  const accepts = (row) =>
    row && dragged && row !== dragged && "editable" in row.dataset && row.dataset.parent === dragged.dataset.parent;

  tree.addEventListener("dragstart", (event) => {
    const grip = event.target.closest?.("[data-grip]");
    if (!grip) return;
    dragged = grip.closest("tr");
    dragged.classList.add("dragged");
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", dragged.dataset.name);
  });
  tree.addEventListener("dragover", (event) => {
    const row = event.target.closest("tr");
    tree.querySelector("tr.drop")?.classList.remove("drop");
    if (!accepts(row)) return;
    event.preventDefault();
    row.classList.add("drop");
  });
  tree.addEventListener("drop", (event) => {
    const row = event.target.closest("tr");
    if (!accepts(row)) return;
    event.preventDefault();
    offer(dragged, row);
  });
  tree.addEventListener("dragend", () => {
    tree.querySelector("tr.drop")?.classList.remove("drop");
    dragged?.classList.remove("dragged");
    dragged = null;
  });
})();

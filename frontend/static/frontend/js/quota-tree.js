// Opens and closes the rows of the quota tree in place; children are fetched when a row is first opened.
(() => {
  "use strict";
  const tree = document.querySelector("[data-quota-tree]");
  if (!tree) return;

  const rowsOf = (node) => tree.querySelectorAll(`tr[data-parent="${node}"]`);
  const toggleOf = (row) => row.querySelector("[data-tree-toggle]");

  async function fetchRows(node, offset) {
    const address = `${tree.dataset.rowsUrl}${node}?${tree.dataset.query}&offset=${offset}`;
    const answer = await fetch(address, { signal: AbortSignal.timeout(20000) });
    if (answer.redirected) location.reload(); // the session has ended
    if (!answer.ok) throw new Error(String(answer.status));
    const holder = document.createElement("template");
    holder.innerHTML = `<table><tbody>${await answer.text()}</tbody></table>`;
    return holder.content.querySelector("tbody").children;
  }

  // All rows below a closed node are hidden, even those below nodes that were open.
  function show(row, shown) {
    const open = shown && toggleOf(row)?.getAttribute("aria-expanded") === "true";
    for (const child of rowsOf(row.dataset.node)) {
      child.hidden = !open;
      if (child.dataset.node) show(child, open);
    }
  }

  async function toggle(row) {
    const button = toggleOf(row);
    const open = button.getAttribute("aria-expanded") !== "true";
    if (open && !("loaded" in row.dataset)) {
      button.setAttribute("aria-busy", "true");
      try {
        row.after(...(await fetchRows(row.dataset.node, 0)));
        row.dataset.loaded = "";
      } catch {
        return window.allotment.toast(window.allotment.word("offline"), "failed");
      } finally {
        button.removeAttribute("aria-busy");
      }
      tree.dispatchEvent(new CustomEvent("allotment:rows"));
    }
    button.setAttribute("aria-expanded", String(open));
    show(row, !row.hidden);
    return undefined;
  }

  async function more(row, button) {
    button.disabled = true;
    try {
      row.replaceWith(...(await fetchRows(row.dataset.more, button.dataset.treeMore)));
      tree.dispatchEvent(new CustomEvent("allotment:rows"));
    } catch {
      button.disabled = false;
      window.allotment.toast(window.allotment.word("offline"), "failed");
    }
  }

  tree.addEventListener("click", (event) => {
    const button = event.target.closest("[data-tree-toggle]");
    if (button) {
      event.preventDefault();
      toggle(button.closest("tr"));
    }
    const left = event.target.closest("[data-tree-more]");
    if (left) more(left.closest("tr"), left);
  });
  // A link that acts as a button also reacts to the space bar.
  tree.addEventListener("keydown", (event) => {
    if (event.key !== " " || !event.target.matches("[data-tree-toggle]")) return;
    event.preventDefault();
    toggle(event.target.closest("tr"));
  });
})();

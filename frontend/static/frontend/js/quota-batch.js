// Edits the quota tree: cells become inputs, sums follow the input, the server previews the whole batch, and
// it is saved as a whole. A move of quota is a change of two cells.
(() => {
  "use strict";
  const tree = document.querySelector("[data-quota-tree]");
  const form = document.getElementById("tree-batch");
  if (!tree || !form) return;

  const GPUS = "gpus";
  const words = document.querySelector("[data-tree-words]").dataset;
  const unlimitedWord = tree.dataset.unlimited;
  const unlimitedWords = new Set(["unlimited", "∞", "不限"]);
  const ratio = JSON.parse(tree.dataset.ratio || "{}"); // the amounts per unit of compute, by key
  const edits = new Map(); // "node.key" -> {node, key, raw, text, wrong}; raw null is unlimited
  let timer = null;
  let asked = 0;

  const say = (sentence, values) =>
    Object.entries(values).reduce((text, [name, value]) => text.replace(`%(${name})s`, value), sentence);
  const rowOf = (node) => document.getElementById(`node-${node}`);
  const cellOf = (row, key) => row?.querySelector(`[data-cell="${key}"]`);
  const idOf = (node, key) => `${node}.${key}`;
  const rawOf = (cell) => (cell.dataset.raw === "" ? null : Number(cell.dataset.raw));
  const shown = (raw, unit) =>
    raw === null ? unlimitedWord : String(Math.round((raw / unit) * 1000) / 1000);

  function parse(text, unit) {
    const word = text.trim().toLowerCase();
    if (unlimitedWords.has(word)) return { raw: null };
    const found = /^(\d{1,12}(?:\.\d{1,6})?)(m|mi|gi|ti)?$/.exec(word);
    if (!found) return { wrong: true };
    const factors = { m: 1 / 1000, mi: 1 / 1024, gi: 1, ti: 1024 };
    return { raw: Math.ceil(Number(found[1]) * (found[2] ? factors[found[2]] : 1) * unit - 1e-6) };
  }

  // --- cells ----------------------------------------------------------------------------------
  function set(cell, text) {
    const row = cell.closest("tr");
    const { cell: key, unit } = cell.dataset;
    const id = idOf(row.dataset.node, key);
    const read = parse(text, Number(unit));
    if (!read.wrong && read.raw === rawOf(cell)) edits.delete(id);
    else edits.set(id, { node: row.dataset.node, key, text: text.trim(), ...read });
    draw(cell);
  }

  function draw(cell) {
    cell.dataset.text ??= cell.textContent;
    const edit = edits.get(idOf(cell.closest("tr").dataset.node, cell.dataset.cell));
    cell.classList.toggle("changed", Boolean(edit) && !edit.wrong);
    cell.classList.toggle("wrong", Boolean(edit?.wrong));
    const before = cell.dataset.exact;
    const now = edit ? (edit.wrong ? edit.text : shown(edit.raw, Number(cell.dataset.unit))) : "";
    cell.textContent = edit ? now : cell.dataset.text;
    cell.title = edit ? `${before} → ${now}` : "";
    cell.setAttribute("aria-label", `${cell.dataset.about}: ${edit ? `${before} → ${now}` : before}`);
  }

  const current = (cell) => {
    const edit = edits.get(idOf(cell.closest("tr").dataset.node, cell.dataset.cell));
    return edit && !edit.wrong ? edit.raw : rawOf(cell);
  };

  // CPU and memory follow GPUs in the ratio of the pool; both can still be edited.
  function followGpus(row, before, after) {
    if (before === null || after === null) return;
    for (const [key, per] of Object.entries(ratio)) {
      const cell = cellOf(row, key);
      const now = cell ? current(cell) : null;
      if (now === null || !per) continue;
      const parent = rowOf(row.dataset.parent);
      const above = parent && JSON.parse(parent.dataset.own)[key];
      const unit = Number(cell.dataset.unit);
      if (now === 0 && above === null) set(cell, unlimitedWord);
      else set(cell, shown(Math.max(0, now + Math.floor(per * (after - before))), unit));
    }
  }

  function change(cell, text) {
    const before = current(cell);
    set(cell, text);
    const edit = edits.get(idOf(cell.closest("tr").dataset.node, cell.dataset.cell));
    if (cell.dataset.cell === GPUS && !edit?.wrong) followGpus(cell.closest("tr"), before, current(cell));
    refresh();
  }

  function open(cell) {
    const input = document.createElement("input");
    input.className = "cell-input";
    input.inputMode = "decimal";
    input.autocomplete = "off";
    input.setAttribute("aria-label", cell.dataset.about);
    const edit = edits.get(idOf(cell.closest("tr").dataset.node, cell.dataset.cell));
    input.value = edit ? (edit.wrong ? edit.text : shown(edit.raw, Number(cell.dataset.unit))) : cell.dataset.exact;
    let closed = false;
    const close = (keep, focus) => {
      if (closed) return;
      closed = true;
      if (keep && input.value.trim() !== "") change(cell, input.value);
      cell.hidden = false;
      input.remove();
      if (focus) cell.focus();
    };
    input.addEventListener("input", () => sums(cell, input.value));
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault();
      event.stopPropagation();
      close(event.key === "Enter", true);
      sums();
    });
    input.addEventListener("blur", () => {
      close(true, false);
      sums();
    });
    cell.hidden = true;
    cell.after(input);
    input.focus();
    input.select();
  }

  // --- sums: what each parent keeps if the batch is saved -------------------------------------
  // The only queue of a workspace that has all of its quota follows it, unless it is edited itself.
  function follows(row, key, all) {
    if (!(row.dataset.follows || "").split(" ").includes(key)) return false;
    return ![...all.values()].some((edit) => edit.key === key && rowOf(edit.node).dataset.parent === row.dataset.node);
  }

  function sums(typedCell = null, typedText = "") {
    const kept = new Map(); // "node.key" -> {row, key, own}
    const all = new Map(edits);
    const keep = (row, key, delta) => {
      if (!row) return;
      const own = JSON.parse(row.dataset.own)[key];
      if (own === null || own === undefined || follows(row, key, all)) return;
      const id = idOf(row.dataset.node, key);
      const found = kept.get(id) || { row, key, own };
      found.own += delta;
      kept.set(id, found);
    };
    if (typedCell) {
      const { node } = typedCell.closest("tr").dataset;
      const key = typedCell.dataset.cell;
      all.set(idOf(node, key), { node, key, ...parse(typedText, Number(typedCell.dataset.unit)) });
    }
    for (const edit of all.values()) {
      const row = rowOf(edit.node);
      const was = rawOf(cellOf(row, edit.key));
      if (edit.wrong || edit.raw === null || was === null) continue;
      keep(row, edit.key, edit.raw - was);
      keep(rowOf(row.dataset.parent), edit.key, was - edit.raw);
    }
    for (const cell of tree.querySelectorAll("[data-left]")) {
      const found = kept.get(idOf(cell.closest("tr").dataset.node, cell.dataset.left));
      cell.dataset.text ??= cell.textContent;
      cell.textContent = found ? shown(found.own, Number(cell.dataset.unit)) : cell.dataset.text;
      cell.classList.toggle("over", Boolean(found) && found.own < 0);
    }
    const over = [...kept.values()].filter((one) => one.own < 0);
    form.querySelector("[data-sums]").hidden = !over.length;
    form.querySelector("[data-sum-lines]").replaceChildren(
      ...over.map((one) => line(say(words.over, { name: one.row.dataset.name, over: amount(one) }))),
    );
  }

  function amount({ row, key, own }) {
    const head = [...tree.querySelectorAll(`[data-cell="${key}"]`)][0] || cellOf(row, key);
    return `${head.dataset.word} ${shown(-own, Number(head.dataset.unit))}`;
  }

  function line(text) {
    const element = document.createElement("span");
    element.textContent = text;
    return element;
  }

  // --- the batch beside the table -------------------------------------------------------------
  function listEdits() {
    form.querySelector("[data-edits]").replaceChildren(
      ...[...edits.values()].map((edit) => {
        const cell = cellOf(rowOf(edit.node), edit.key);
        const item = document.createElement("li");
        const now = edit.wrong ? `${edit.text} (${words.invalid})` : shown(edit.raw, Number(cell.dataset.unit));
        item.append(line(`${cell.dataset.about}: ${cell.dataset.exact} → ${now}`));
        const undo = document.createElement("button");
        undo.type = "button";
        undo.className = "button small";
        undo.textContent = words.undo;
        undo.addEventListener("click", () => {
          edits.delete(idOf(edit.node, edit.key));
          draw(cell);
          refresh();
        });
        item.append(undo);
        return item;
      }),
    );
  }

  function body() {
    const data = new FormData(form);
    for (const edit of edits.values()) {
      data.set(`edit.${edit.node}.${edit.key}`, edit.raw === null ? "unlimited" : edit.text);
      data.set(`version.${edit.node}`, rowOf(edit.node).dataset.version);
    }
    return data;
  }

  function refresh() {
    form.hidden = !edits.size;
    form.querySelector("[data-refused]").replaceChildren();
    listEdits();
    sums();
    clearTimeout(timer);
    asked += 1;
    if (!edits.size) return;
    const effect = document.getElementById("quota-effect");
    effect.replaceChildren(line(words.wait));
    timer = setTimeout(preview, 600);
  }

  async function preview() {
    const turn = asked;
    const effect = document.getElementById("quota-effect");
    try {
      const answer = await fetch(tree.dataset.checkUrl, { method: "POST", body: body(), signal: AbortSignal.timeout(30000) });
      if (!answer.ok) throw new Error(String(answer.status));
      const html = await answer.text();
      if (turn !== asked) return;
      window.allotment.morph(effect, html);
      window.htmx.process(effect);
    } catch (error) {
      if (turn === asked) effect.replaceChildren(line(window.allotment.word("refused", { code: error.message })));
    }
  }

  async function save(event) {
    event.preventDefault();
    const button = form.querySelector(".button.primary");
    button.disabled = true;
    try {
      const answer = await fetch(tree.dataset.saveUrl, { method: "POST", body: body(), redirect: "manual" });
      if (answer.type === "opaqueredirect") {
        edits.clear();
        location.reload();
        return;
      }
      if (answer.status >= 500 || answer.status === 403 || answer.status === 404) throw new Error(String(answer.status));
      form.querySelector("[data-refused]").innerHTML = await answer.text();
      for (const name of (form.querySelector("[data-cells]")?.dataset.cells || "").split(" ").filter(Boolean)) {
        const [, node, ...key] = name.split(".");
        cellOf(rowOf(node), key.join("."))?.classList.add("wrong");
      }
    } catch (error) {
      const code = /^\d+$/.test(error.message);
      window.allotment.toast(window.allotment.word(code ? "refused" : "offline", { code: error.message }), "failed");
    }
    button.disabled = false;
  }

  form.addEventListener("submit", save);
  form.addEventListener("change", (event) => event.target.name === "shrink" && refresh());
  form.querySelector("[data-discard]").addEventListener("click", () => {
    const cells = [...edits.values()].map((edit) => cellOf(rowOf(edit.node), edit.key));
    edits.clear();
    cells.forEach(draw);
    refresh();
  });
  addEventListener("beforeunload", (event) => edits.size && event.preventDefault());
  tree.addEventListener("click", (event) => {
    const cell = event.target.closest("button.cell");
    if (cell) open(cell);
  });

  window.allotment.quotaBatch = { tree, words, rowOf, cellOf, current, shown, parse, say, change };
})();

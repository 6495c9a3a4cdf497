// Shows the numbers of a chart as a table, built when the reader opens it.
(() => {
  "use strict";

  const format = (number, unit) =>
    number === null || number === undefined
      ? null
      : `${new Intl.NumberFormat("en", { maximumSignificantDigits: 4 }).format(number)} ${unit}`.trim();

  function cell(row, kind, text, css) {
    const element = document.createElement(kind);
    element.textContent = text;
    if (css) element.className = css;
    if (kind === "th") element.scope = "col";
    row.append(element);
  }

  function columns(figure) {
    return figure.data
      .filter((trace) => !(trace.meta && trace.meta.helper) && trace.hoverinfo !== "skip")
      .map((trace) => {
        const values = trace.meta && trace.meta.values === "customdata" ? trace.customdata : trace.y;
        return { name: trace.name, values: new Map(trace.x.map((x, i) => [x, values[i]])) };
      })
      .filter((column, i, all) => all.findIndex((other) => other.name === column.name) === i);
  }

  function causeAt(figure, time) {
    const gap = (figure.layout.meta.gaps || []).find(([start, end]) => start <= time && time <= end);
    return gap ? gap[2] : "";
  }

  // Figures other than lines over time contain their table: a head, and rows whose first cell is a name.
  function givenTable({ head, rows }) {
    const table = document.createElement("table");
    const names = table.createTHead().insertRow();
    head.forEach((name, place) => cell(names, "th", name, place ? "num" : ""));
    const body = table.createTBody();
    for (const values of rows) {
      const row = body.insertRow();
      values.forEach((value, place) => cell(row, "td", window.allotment.resolveFigure(value), place ? "num" : ""));
    }
    return table;
  }

  // The newest values are first, because readers look for these.
  window.allotment.chartTable = (figure) => {
    if (figure.layout.meta.table) return givenTable(figure.layout.meta.table);
    const parts = columns(figure);
    const unit = figure.layout.meta.unit;
    const none = window.allotment.word("noData");
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    cell(head, "th", window.allotment.word("time"));
    parts.forEach((part) => cell(head, "th", part.name, "num"));
    const body = table.createTBody();
    const times = [...new Set(parts.flatMap((part) => [...part.values.keys()]))].sort().reverse();
    for (const time of times) {
      const row = body.insertRow();
      cell(row, "td", time.length === 10 ? time : window.allotment.localTime(time)); // a date is the same in every time zone
      for (const part of parts) {
        const text = format(part.values.get(time), unit);
        const cause = text === null ? causeAt(figure, time) : "";
        cell(row, "td", text ?? (cause ? `${none}: ${cause}` : "–"), text === null ? "num faint" : "num");
      }
    }
    return table;
  };
})();

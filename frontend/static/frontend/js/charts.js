// Draws the figures of the page that are near the screen, refreshes them, redraws them in the current theme,
// and links their time axes: hovering or zooming one chart does the same in the others.
(() => {
  "use strict";
  const NEAR = "100px";
  const charts = new Map(); // element -> {plot, raw, text, timer, begun}
  const coarse = matchMedia("(pointer: coarse)").matches;
  let linking = false;

  const CONFIG = { displayModeBar: false, responsive: true, showTips: false, doubleClick: "reset" };
  const chinese = document.documentElement.lang.startsWith("zh");
  if (chinese) {
    const months = [...Array(12).keys()].map((i) => `${i + 1}月`);
    const days = ["日", "一", "二", "三", "四", "五", "六"];
    Plotly.register({
      moduleType: "locale",
      name: "zh-Hans",
      dictionary: {},
      format: {
        days: days.map((d) => `星期${d}`), shortDays: days.map((d) => `周${d}`), months, shortMonths: months,
        periods: ["上午", "下午"], dateTime: "%Y-%m-%d %H:%M:%S", date: "%Y-%m-%d", time: "%H:%M:%S",
        decimal: ".", thousands: ",", grouping: [3], currency: ["¥", ""],
      },
    });
    CONFIG.locale = "zh-Hans";
  }

  const onTime = (chart) => chart.plot.layout?.xaxis?.type === "date";
  const others = (chart) =>
    [...charts.values()].filter((c) => c !== chart && c.drawn && c.element.isConnected && onTime(c));

  async function draw(chart) {
    // `meta` is removed, because plotly would copy and compare the whole table of numbers.
    const { meta, ...shown } = chart.raw.layout;
    const figure = window.allotment.resolveFigure({ data: chart.raw.data, layout: shown });
    // On a touch screen dragging scrolls the page, not the axis.
    const layout = { ...figure.layout, autosize: true, dragmode: coarse ? false : "zoom" };
    await Plotly.react(chart.plot, figure.data, layout, CONFIG);
    if (!chart.drawn) {
      chart.drawn = true;
      chart.element.dataset.drawn = "";
      chart.element.querySelector("[data-chart-png]").disabled = false;
      if (onTime(chart)) link(chart);
    }
    note(chart);
    const table = chart.element.querySelector(".chart-table");
    if (table.open) fillTable(chart);
  }

  // The reason for missing data is written below the chart.
  function note(chart) {
    const lines = (chart.raw.layout.meta.gaps || []).map(
      ([start, end, cause]) => `${window.allotment.writeStretch(start, end)} ${window.allotment.word("noData")}: ${cause}`,
    );
    chart.element.querySelector(".chart-notes").textContent = lines.slice(0, 3).join("; ");
  }

  function fillTable(chart) {
    const rows = chart.element.querySelector(".chart-table .rows");
    const top = rows.scrollTop;
    rows.replaceChildren(window.allotment.chartTable(chart.raw));
    rows.scrollTop = top;
  }

  // --- one time axis --------------------------------------------------------------------------
  function together(chart, act) {
    if (linking) return;
    linking = true;
    try {
      others(chart).forEach((other) => act(other.plot));
    } finally {
      linking = false;
    }
  }

  function link(chart) {
    chart.plot.on("plotly_hover", (event) => {
      // plotly reads dates as UTC and returns milliseconds
      const moment = event.points.length ? Date.parse(`${String(event.points[0].x).replace(" ", "T")}Z`) : NaN;
      if (!Number.isNaN(moment)) together(chart, (plot) => Plotly.Fx.hover(plot, { xval: moment }, "xy", true));
    });
    chart.plot.on("plotly_unhover", () => together(chart, (plot) => Plotly.Fx.unhover(plot)));
    chart.plot.on("plotly_relayout", (event) => {
      const moved = Object.keys(event).some((key) => key.startsWith("xaxis."));
      if (!moved) return;
      together(chart, (plot) => follow(plot, chart.plot));
      // A reset restores the range of the figure.
      const { range } = chart.plot.layout.xaxis;
      const whole = window.allotment.resolveFigure(chart.raw.layout.xaxis.range || null);
      const zoomed = range && String(range) !== String(whole) ? range : null;
      document.dispatchEvent(new CustomEvent("allotment:zoomed", { detail: { range: zoomed } }));
    });
  }

  // plotly reports a redraw as a move of the axis; an axis with the same range is not redrawn, because two
  // charts would otherwise move each other forever.
  function follow(plot, leader) {
    const wanted = leader.layout.xaxis;
    const own = plot.layout.xaxis;
    if (wanted.autorange && own.autorange) return;
    if (!wanted.autorange && String(own.range) === String(wanted.range)) return;
    Plotly.relayout(plot, wanted.autorange ? { "xaxis.autorange": true } : { "xaxis.range": [...wanted.range] });
  }

  // --- where figures come from ----------------------------------------------------------------
  function readInline(chart) {
    const script = chart.element.querySelector(':scope > script[type="application/json"]');
    if (!script || script.textContent === chart.text) return;
    chart.text = script.textContent;
    chart.raw = JSON.parse(chart.text);
    draw(chart);
  }

  function offerNumbers(chart, address) {
    const link = chart.element.querySelector("[data-chart-csv]");
    link.hidden = !address;
    if (address) link.href = address;
  }

  function saveImage(chart) {
    const { chart: key, chartTitle } = chart.element.dataset;
    window.allotment.saveChart(chart.raw, chart.plot, key, chartTitle);
  }

  async function fetchFigure(chart) {
    if (!chart.element.isConnected) return charts.delete(chart.element);
    const wait = chart.element.querySelector(".chart-wait");
    try {
      if (!document.hidden || !chart.raw) {
        const answer = await fetch(chart.element.dataset.chartUrl, { signal: AbortSignal.timeout(20000) });
        if (!answer.ok) throw new Error(String(answer.status));
        const { figure, summary, csv } = await answer.json();
        chart.raw = figure;
        offerNumbers(chart, csv);
        chart.plot.setAttribute("aria-label", summary);
        await draw(chart);
      }
    } catch {
      wait.textContent = window.allotment.word("chartProblem");
      wait.classList.add("chart-problem");
    }
    const every = Number(chart.element.dataset.chartEvery || (chart.raw ? 0 : 10));
    if (every) chart.timer = setTimeout(() => fetchFigure(chart), every * 1000);
  }

  // Charts below the screen, or in closed details, are fetched and drawn when they come near.
  const near = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach(({ target }) => begin(charts.get(target))),
    { rootMargin: NEAR },
  );

  function begin(chart) {
    near.unobserve(chart.element);
    if (chart.begun) return;
    chart.begun = true;
    if (chart.element.dataset.chartUrl) fetchFigure(chart);
    readInline(chart);
  }

  function find() {
    for (const element of document.querySelectorAll("[data-chart]")) {
      let chart = charts.get(element);
      if (!chart) {
        chart = { element, plot: element.querySelector(".chart-plot"), drawn: false, begun: false };
        charts.set(element, chart);
        element.querySelector(".chart-table").addEventListener("toggle", () => chart.raw && fillTable(chart));
        element.querySelector("[data-chart-png]").addEventListener("click", () => saveImage(charts.get(element)));
        near.observe(element);
      }
      if (chart.begun) readInline(chart);
    }
  }

  find();
  document.addEventListener("allotment:morphed", find);
  document.addEventListener("htmx:load", find);
  // Printing shows the whole page, so all its charts are drawn.
  addEventListener("beforeprint", () => charts.forEach((chart) => chart.element.checkVisibility() && begin(chart)));
  // After an outage or sleep, missed refreshes are made up for.
  document.addEventListener("allotment:back", () => {
    for (const chart of charts.values()) {
      if (!chart.timer) continue;
      clearTimeout(chart.timer);
      chart.timer = null;
      fetchFigure(chart);
    }
  });
  document.addEventListener("allotment:theme", () => {
    window.allotment.forgetColours();
    for (const chart of charts.values()) if (chart.drawn) draw(chart);
  });
})();

// Updates <time data-relative> with the words and rules of the server's formats.py, and shows clock times
// (<time data-clock>) and the full time on hover in the reader's zone.
(() => {
  "use strict";
  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const words = window.allotment.unitWords;

  function relative(seconds) {
    const size = Math.abs(seconds);
    if (size < 5) return words.now;
    const [unit, name] = UNITS.find(([length]) => Math.round(size) >= length);
    const span = words[name].replace("%(n)s", Math.floor(Math.round(size) / unit));
    return words[seconds > 0 ? "ago" : "in"].replace("%(span)s", span);
  }

  const pad = (n) => String(n).padStart(2, "0");

  function clock(date, seconds, always) {
    const today = !always && date.toDateString() === new Date().toDateString();
    const day = today ? "" : `${pad(date.getMonth() + 1)}-${pad(date.getDate())} `;
    return `${day}${pad(date.getHours())}:${pad(date.getMinutes())}${seconds ? `:${pad(date.getSeconds())}` : ""}`;
  }

  function absolute(date) {
    const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
    const zone = date.toLocaleTimeString("en", { timeZoneName: "short" }).split(" ").pop();
    return `${day} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())} ${zone}`;
  }

  function refresh() {
    if (!words || document.hidden) return;
    for (const node of document.querySelectorAll("time[data-relative], time[data-clock]")) {
      const date = new Date(node.dateTime);
      if (Number.isNaN(date.getTime())) continue;
      const text = node.dataset.clock
        ? clock(date, node.dataset.clock.startsWith("s"), node.dataset.clock.endsWith("d"))
        : relative((Date.now() - date.getTime()) / 1000);
      if (node.textContent !== text) node.textContent = text;
      node.title = absolute(date);
    }
  }

  refresh();
  setInterval(refresh, 5000);
  document.addEventListener("visibilitychange", refresh);
  document.addEventListener("allotment:morphed", refresh);
  document.addEventListener("htmx:load", refresh);  // a fetched fragment has times written by the server
})();

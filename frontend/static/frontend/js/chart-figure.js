// Converts a figure from the server into one that plotly can draw: CSS variables become colours of the
// current theme, UTC times become the reader's local times.
(() => {
  "use strict";
  const UTC = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
  const TOKEN = /^var\((--[\w-]+)\)$/;
  let probe = null;
  let colours = new Map();

  function colour(name) {
    if (!colours.has(name)) {
      if (!probe) {
        probe = document.createElement("span");
        probe.hidden = true;
        document.body.append(probe);
      }
      // light-dark() is resolved only in a property that takes a colour
      probe.style.color = "";
      probe.style.color = `var(${name})`;
      colours.set(name, getComputedStyle(probe).color);
    }
    return colours.get(name);
  }

  const pad = (n) => String(n).padStart(2, "0");
  function localTime(text) {
    const d = new Date(text);
    return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
  }

  // Dates are written unless the whole period is today.
  function writeStretch(start, end) {
    const today = localTime(Date.now()).slice(0, 10);
    const [from, to] = [localTime(start).slice(0, 16), localTime(end).slice(0, 16)];
    const day = from.slice(0, 10);
    if (to.slice(0, 10) !== day) return `${from} – ${to}`;
    const first = day === today ? from.slice(11) : from;
    return from === to ? first : `${first}–${to.slice(11)}`;
  }

  function value(item) {
    if (typeof item === "string") {
      if (UTC.test(item)) return localTime(item);
      const token = TOKEN.exec(item);
      if (!token) return item;
      if (token[1] === "--sans") return getComputedStyle(document.body).fontFamily;
      return colour(token[1]);
    }
    if (Array.isArray(item)) return item.map(value);
    if (item && typeof item === "object") {
      return Object.fromEntries(Object.entries(item).map(([key, inner]) => [key, value(inner)]));
    }
    return item;
  }

  window.allotment.resolveFigure = value;
  window.allotment.localTime = localTime;
  window.allotment.writeStretch = writeStretch;
  window.allotment.forgetColours = () => {
    colours = new Map();
  };
})();

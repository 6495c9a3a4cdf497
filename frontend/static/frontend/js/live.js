// Live regions: fetch a fragment every so many seconds and morph it in. Polling rests while the tab
// is hidden, while a dialog or a menu of a row in the region is open, and slows down while requests fail; the region then
// says since when its numbers are old instead of pretending that they are fresh.
(() => {
  "use strict";
  const STOP = 286; // the status by which htmx's own polling is ended as well
  const SLOWEST_MS = 60000;
  const regions = new Map();

  function say(region, state) {
    const line = region.element.querySelector("[data-live-state]");
    const stale = state === "stale";
    if (stale) line.textContent = window.allotment.word("stale", { time: window.allotment.clock(region.fresh) });
    if (line.hidden === stale) line.hidden = !stale;
    for (const mark of document.querySelectorAll(`[data-live-mark="${region.element.id}"]`)) {
      mark.classList.toggle("stale", stale);
      mark.classList.toggle("paused", state === "stopped");
    }
  }

  const busy = (region) => Boolean(region.element.querySelector("dialog[open], form[data-dirty], .row-menu[open]"));

  async function refresh(region) {
    const answer = await fetch(region.element.dataset.live, {
      headers: { "HX-Request": "true", "HX-Target": region.element.id },
      signal: AbortSignal.timeout(20000),
    });
    if (answer.redirected) return location.reload(); // the session has ended
    if (!answer.ok) throw new Error(String(answer.status));
    const html = await answer.text();
    if (html !== region.last) {
      region.last = html;
      const body = region.element.querySelector("[data-live-body]");
      window.allotment.morph(body, html);
      window.htmx.process(body);
    }
    region.stopped = answer.status === STOP;
  }

  async function tick(region) {
    if (!region.element.isConnected) return regions.delete(region.element);
    if (!document.hidden && !busy(region)) {
      try {
        await refresh(region);
        region.failures = 0;
        region.fresh = new Date();
        say(region, region.stopped ? "stopped" : "live");
      } catch {
        region.failures += 1;
        say(region, "stale");
      }
    }
    if (!region.stopped) plan(region);
  }

  function plan(region) {
    const every = Number(region.element.dataset.liveEvery) * 1000;
    clearTimeout(region.timer);
    region.timer = setTimeout(() => tick(region), Math.min(every * 2 ** Math.min(region.failures, 5), Math.max(every, SLOWEST_MS)));
  }

  function find() {
    for (const element of document.querySelectorAll("[data-live]")) {
      if (regions.has(element) || element.dataset.liveEvery === "0") continue; // the reader refreshes it
      const region = { element, failures: 0, fresh: new Date(), last: null, stopped: false };
      regions.set(element, region);
      plan(region);
    }
  }

  find();
  document.addEventListener("htmx:load", find);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) for (const region of regions.values()) if (!region.stopped) tick(region);
  });
})();

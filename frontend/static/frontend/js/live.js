// Live regions: fragments of the page that are fetched again and morphed in, whenever the server reports a
// change and at a fixed interval. Nothing is fetched while the tab is hidden, or while a dialog or a menu of
// a row in the region is open. A region that could not be refreshed shows since when its numbers are
// outdated, in place of "live".
//
// One stream of events reports changes, and its heartbeat shows that the connection is alive. It is closed
// while the tab is hidden. After it is lost, a new one is tried every second, and all regions are fetched at
// once when it opens: after an outage of the server or network as well as after sleep. A polled region is
// fetched at its interval only; a page with polled regions only opens no stream.
(() => {
  "use strict";
  const STOP = 286; // the status with which the server also ends htmx's polling
  const SLOWEST_MS = 60000;
  const SILENT_MS = 9000; // the server sends a heartbeat every 3 s
  const ASLEEP_MS = 5000; // a timer of one second that is this late means that the machine slept
  const DOUBT_MS = 4000; // time for a response after the stream is lost, before the page is marked as outdated
  const TRIES = 3; // streams that open at the same time: an old try may still succeed, a new one may be faster
  const SOONEST_MS = 1200;
  const SHARE = 20; // the pause before a refresh, as a multiple of the last response time
  const regions = new Map();

  function say(region, state) {
    const line = region.element.querySelector("[data-live-state]"); // none in the bar, which has no room for it
    const stale = state === "stale";
    const time = window.allotment.clock(region.fresh);
    if (line && stale) line.textContent = window.allotment.word("stale", { time });
    if (line && line.hidden === stale) line.hidden = !stale;
    for (const mark of document.querySelectorAll(`[data-live-mark="${region.element.id}"]`)) {
      mark.dataset.liveWord ??= mark.textContent;
      const word = stale ? window.allotment.word("staleMark", { time }) : mark.dataset.liveWord;
      if (mark.textContent !== word) mark.textContent = word;
      mark.classList.toggle("stale", stale);
      mark.classList.toggle("paused", state === "stopped");
    }
  }

  const busy = (region) => Boolean(region.element.querySelector("dialog[open], form[data-dirty], .row-menu[open]"));

  async function refresh(region, patience) {
    region.call?.abort();
    const call = new AbortController();
    region.call = call;
    const answer = await fetch(region.element.dataset.live, {
      headers: { "HX-Request": "true", "HX-Target": region.element.id },
      signal: AbortSignal.any([call.signal, AbortSignal.timeout(patience)]),
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

  async function tick(region, patience = 20000) {
    if (!region.element.isConnected) return regions.delete(region.element);
    clearTimeout(region.timer);
    clearTimeout(region.soon);
    region.soon = null;
    if (busy(region)) {
      if (stream.lost) say(region, "stale");
    } else if (!document.hidden) {
      const began = Date.now();
      try {
        await refresh(region, patience);
        region.failures = 0;
        region.fresh = new Date(began);
        region.took = Date.now() - began;
        say(region, region.stopped ? "stopped" : "live");
      } catch (problem) {
        if (problem.name === "AbortError") return; // another refresh began
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

  const isPolled = (region) => "livePolled" in region.element.dataset;

  // After a change a region is fetched at once, or after the pause since its last refresh. A region with a
  // kind reacts to changes of that kind only.
  function notice(region, kinds) {
    const own = region.element.dataset.liveKind;
    if (own && !kinds.includes(own)) return;
    if (region.stopped || region.soon || "liveCalm" in region.element.dataset || isPolled(region)) return;
    const rest = Math.max(SOONEST_MS, Math.min(SHARE * region.took, 10000));
    region.soon = setTimeout(() => tick(region), Math.max(0, region.fresh.getTime() + rest - Date.now()));
  }

  function find() {
    for (const element of document.querySelectorAll("[data-live]")) {
      if (regions.has(element) || element.dataset.liveEvery === "0") continue; // the reader refreshes it manually
      const region = { element, failures: 0, fresh: new Date(), took: 0, last: null, stopped: false, soon: null };
      regions.set(element, region);
      plan(region);
    }
  }

  const fetchAll = (patience) => {
    for (const region of regions.values()) if (!region.stopped) tick(region, patience);
  };

  // --- the stream -----------------------------------------------------------------------------
  const stream = { open: null, opening: [], heard: 0, lost: false };

  function close() {
    for (const source of [stream.open, ...stream.opening]) source?.close();
    stream.open = null;
    stream.opening = [];
  }

  function lose() {
    close();
    if (stream.lost) return;
    stream.lost = true;
    fetchAll(DOUBT_MS);
  }

  function opened(source) {
    stream.opening = stream.opening.filter((other) => other !== source);
    for (const other of stream.opening) other.close();
    stream.opening = [];
    stream.open = source;
    stream.heard = Date.now();
    if (!stream.lost) return;
    stream.lost = false;
    fetchAll();
    document.dispatchEvent(new CustomEvent("allotment:back"));
  }

  function attempt() {
    const source = new EventSource(document.body.dataset.liveStream);
    stream.opening.push(source);
    if (stream.opening.length > TRIES) stream.opening.shift().close();
    source.addEventListener("open", () => opened(source));
    source.addEventListener("error", () => {
      source.close();
      stream.opening = stream.opening.filter((other) => other !== source);
      if (stream.open === source || !stream.open) lose();
    });
    source.addEventListener("beat", () => { stream.heard = Date.now(); });
    source.addEventListener("changed", ({ data }) => {
      stream.heard = Date.now();
      const { kinds } = JSON.parse(data);
      for (const region of regions.values()) notice(region, kinds);
    });
    source.addEventListener("end", () => {
      source.close();
      if (stream.open === source) stream.open = null;
    });
  }

  let watched = Date.now();
  function watch() {
    const now = Date.now();
    const slept = now - watched > ASLEEP_MS && !document.hidden;
    watched = now;
    if (document.hidden || ![...regions.values()].some((region) => !region.stopped && !isPolled(region))) return close();
    if (slept || (stream.open && now - stream.heard > SILENT_MS)) lose();
    if (!stream.open) attempt();
    return undefined;
  }

  find();
  document.addEventListener("htmx:load", find);
  if (document.body.dataset.liveStream) {
    setTimeout(watch, 300);
    setInterval(watch, 1000);
    addEventListener("offline", lose);
    addEventListener("online", watch);
    addEventListener("pageshow", ({ persisted }) => persisted && lose());
    addEventListener("pagehide", close);
  }
  document.addEventListener("visibilitychange", () => {
    watched = Date.now();
    if (document.hidden) return close();
    fetchAll();
    watch();
    document.dispatchEvent(new CustomEvent("allotment:back"));
    return undefined;
  });
})();

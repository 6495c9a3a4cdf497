// Follows the log of a job's tasks: lines of the API's stream are appended to the shown ones.
//
// The stream continues after the last time of each task that is shown. After a lost connection it is
// requested from the earliest of these times, and lines that a task has sent already are skipped. Within one
// stream no line is repeated: lines of the same microsecond are different lines.
(() => {
  "use strict";
  const LINES_MAX = 2000;
  const SILENT_MS = 40000; // the server sends a comment every 15 s
  const SLOWEST_MS = 30000;
  let following = null;

  // --- what is shown --------------------------------------------------------------------------
  const logNow = () => document.querySelector("[data-log]");

  function say(text, tone) {
    const line = document.querySelector("[data-log-state]");
    if (!line) return;
    line.textContent = text;
    line.className = `log-state ${tone}`;
  }

  // Times are converted to the reader's zone once: there are too many to update them.
  function local(root) {
    for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
      time.title = time.dateTime;
      time.textContent = window.allotment.clock(new Date(time.dateTime));
    }
  }

  function places(log) {
    const last = new Map();
    for (const { dataset } of log.children) if (dataset.at > (last.get(dataset.task) ?? "")) last.set(dataset.task, dataset.at);
    return last;
  }

  function lineOf(found) {
    const line = document.querySelector("template[data-log-line]").content.firstElementChild.cloneNode(true);
    const [time, task, text] = line.children;
    line.dataset.task = task.textContent = found.task;
    line.dataset.at = found.at ?? "";
    if (found.at) time.setAttribute("datetime", found.at);
    text.textContent = found.text;
    return line;
  }

  function append(run, found) {
    const { log, last, told } = run;
    const piece = document.createDocumentFragment();
    for (const line of found) {
      if (line.at && line.at <= (told.get(line.task) ?? "")) continue;
      if (line.at > (last.get(line.task) ?? "")) last.set(line.task, line.at);
      piece.append(lineOf(line));
    }
    if (!piece.children.length) return;
    const below = log.scrollHeight - log.scrollTop - log.clientHeight < 24; // whether the reader is at the end
    local(piece);
    const lines = [...piece.children];
    log.append(piece);
    document.dispatchEvent(new CustomEvent("allotment:logged", { detail: lines }));
    while (log.children.length > LINES_MAX) log.firstElementChild.remove();
    if (below) log.scrollTop = log.scrollHeight;
  }

  // --- the stream -----------------------------------------------------------------------------
  function address({ log, last }) {
    const query = new URLSearchParams({ follow: "true" });
    if (log.dataset.task) query.set("task", log.dataset.task);
    if (log.dataset.attempt) query.set("attempt", log.dataset.attempt);
    const since = [...last.values()].sort()[0] ?? log.dataset.since;
    if (since) query.set("since", since);
    return `${log.dataset.log}?${query}`;
  }

  function message(text) {
    const fields = Object.fromEntries(text.split("\n").map((line) => line.split(/: (.*)/s)));
    return { event: fields.event, data: fields.data && JSON.parse(fields.data) };
  }

  // Appends the complete messages; returns the rest for the next piece, and the end message of the stream, if
  // any.
  function take(run, text) {
    const pieces = text.split("\n\n");
    const rest = pieces.pop();
    const messages = pieces.map(message);
    append(run, messages.filter(({ event }) => event === "line").map(({ data }) => data));
    return { rest, end: messages.find(({ event }) => event === "end")?.data };
  }

  // Throws when the connection is lost; otherwise returns why the stream ended.
  async function read(run) {
    const call = new AbortController();
    run.call = call;
    run.told = new Map(run.last);
    const watch = () => { clearTimeout(run.silence); run.silence = setTimeout(() => call.abort(), SILENT_MS); };
    watch();
    const answer = await fetch(address(run), { headers: { Accept: "text/event-stream" }, signal: call.signal });
    if (answer.status >= 500) throw new Error(String(answer.status));
    if (!answer.ok) return answer.json();
    say(window.allotment.word("logLive"), "live");
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ; ) {
      const { value, done } = await reader.read();
      if (done) throw new Error("cut off");
      watch();
      const taken = take(run, rest + value);
      if (taken.end) return taken.end;
      run.failures = 0;
      rest = taken.rest;
    }
  }

  async function follow(run) {
    while (following === run) {
      let end = null;
      try {
        end = await read(run);
      } catch {
        end = { code: "LOST" };
      }
      clearTimeout(run.silence);
      if (following !== run) return;
      if (end.code === "RECONNECT") continue;
      if (end.code !== "LOST" && end.code !== "CLUSTER_UNREACHABLE") return finish(end);
      if (!run.failures) run.lost = new Date();
      say(end.detail ?? window.allotment.word("logLost", { time: window.allotment.clock(run.lost) }), "lost");
      await new Promise((again) => { run.again = again; run.timer = setTimeout(again, Math.min(1000 * 2 ** run.failures++, SLOWEST_MS)); });
    }
  }

  function stop() {
    const run = following;
    following = null;
    if (!run) return;
    clearTimeout(run.timer);
    clearTimeout(run.silence);
    run.call?.abort();
  }

  function begin() {
    stop();
    const log = logNow();
    following = { log, last: places(log), failures: 0 };
    log.scrollTop = log.scrollHeight;
    follow(following);
  }

  function finish({ code, detail }) {
    following = null;
    document.querySelector("[data-log-follow]").checked = false;
    say(code === "ENDED" ? window.allotment.word("logEnded") : detail, code === "ENDED" ? "ended" : "failed");
  }

  // --- the reader -----------------------------------------------------------------------------
  document.addEventListener("change", ({ target }) => {
    if (!target.matches("[data-log-follow]")) return;
    if (target.checked) return begin();
    stop();
    say("", "");
  });

  document.addEventListener("allotment:back", () => following?.again?.());

  // The log was fetched again, perhaps of another task: if it was followed before, it is followed again.
  document.addEventListener("htmx:afterSwap", ({ target }) => {
    const log = target.id === "job-log" && logNow();
    if (!log) return;
    local(log);
    log.scrollTop = log.scrollHeight;
    const box = document.querySelector("[data-log-follow]");
    if (following && box) {
      box.checked = true;
      begin();
    } else stop();
  });
})();

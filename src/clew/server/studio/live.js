// Live updates by server-sent events. They are read with fetch, because EventSource can't send a token.
import { useEffect, useRef } from "./vendor/htm-preact.js";
import { failure, send } from "./api.js";

const SILENT = 40_000; // The server writes at least every 15 seconds.
const POLL = 5_000;
const LONGEST = 10_000;

// Yield the events of a stream. Comments are given too, as events without a kind.
async function* eventsOf(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    text += value.replaceAll("\r", "");
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const event = { kind: null, id: null, data: "" };
      for (const line of text.slice(0, end).split("\n")) {
        const [, field, content] = line.match(/^(\w+): ?(.*)$/) ?? [];
        if (field === "event") event.kind = content;
        else if (field === "id") event.id = content;
        else if (field === "data") event.data += content;
      }
      text = text.slice(end + 2);
      if (event.kind) yield event;
    }
  }
}

const shown = () => document.visibilityState !== "hidden";
const visible = () => new Promise((done) => {
  const look = () => shown() && (document.removeEventListener("visibilitychange", look), done());
  document.addEventListener("visibilitychange", look);
  look();
});

// Watch `path` until the returned function is called. `onReload` is called when something may have been missed:
// at the beginning, after a gap, and every few seconds while there is no stream.
export function watch(path, { onEvent, onReload, onStatus }) {
  let stopped = false;
  let position = null;
  let failures = 0;
  let connection = new AbortController();
  let polling = null;

  async function connected() {
    connection = new AbortController();
    let silence = setTimeout(() => connection.abort(), SILENT);
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => connection.abort(), SILENT);
    };
    try {
      const headers = { Accept: "text/event-stream", ...(position ? { "Last-Event-ID": position } : {}) };
      const response = await send("GET", path, { headers, signal: connection.signal });
      if (!response.ok) {
        // A position that the server does not know: begin anew.
        position = null;
        throw await failure(response);
      }
      clearInterval(polling);
      polling = null;
      onStatus("live");
      if (!position) onReload();
      for await (const event of eventsOf(response.body, heard)) {
        if (stopped) return;
        failures = 0;
        if (event.kind === "error") throw new Error(event.data);
        position = event.id ?? position;
        if (event.kind === "gap") onReload();
        else onEvent(JSON.parse(event.data));
      }
    } finally {
      clearTimeout(silence);
      connection.abort();
    }
  }

  async function run() {
    while (!stopped) {
      // A browser opens six connections to a server. Hidden pages must not keep them from visible ones.
      if (!shown()) {
        onStatus("paused");
        await visible();
        continue;
      }
      await connected().catch(() => {});
      if (stopped || !shown()) continue;
      failures += 1;
      onStatus(failures > 1 ? "polling" : "reconnecting");
      if (failures > 1) polling ??= setInterval(() => shown() && onReload(), POLL);
      await new Promise((done) => setTimeout(done, Math.min(LONGEST, 200 * 2 ** failures) * (0.5 + Math.random() / 2)));
    }
  }

  const hide = () => shown() || connection.abort();
  document.addEventListener("visibilitychange", hide);
  run();
  return () => {
    stopped = true;
    connection.abort();
    clearInterval(polling);
    document.removeEventListener("visibilitychange", hide);
  };
}

// Call the newest `handlers` for what happens at `path`, as long as the component is shown.
export function useEvents(path, handlers) {
  const newest = useRef(handlers);
  newest.current = handlers;
  useEffect(() => watch(path, {
    onEvent: (event) => newest.current.onEvent(event),
    onReload: () => newest.current.onReload(),
    onStatus: (status) => newest.current.onStatus(status),
  }), [path]);
}

// Return a function that calls `work` soon, once for many calls, and never twice at a time.
export function useSoon(work, delay = 150) {
  const newest = useRef(work);
  newest.current = work;
  const state = useRef({ timer: null, busy: false, again: false });
  useEffect(() => () => clearTimeout(state.current.timer), []);
  return () => {
    const now = state.current;
    async function run() {
      now.timer = null;
      if (now.busy) return void (now.again = true);
      now.busy = true;
      await Promise.resolve(newest.current()).catch(() => {});
      now.busy = false;
      if (now.again) {
        now.again = false;
        now.timer = setTimeout(run, delay);
      }
    }
    now.timer ??= setTimeout(run, delay);
  };
}

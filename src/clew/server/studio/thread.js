// One thread: its conversation, its checkpoints, and the state at any of them.
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { api, linkTo, linkToThreads, threadPath } from "./api.js";
import { Actions } from "./actions.js";
import { Conversation } from "./conversation.js";
import { copy, say } from "./dialog.js";
import { ago, count, moment, size } from "./format.js";
import { useEvents, useSoon } from "./live.js";
import { Namespaces, useNamespaces } from "./namespaces.js";
import { State } from "./state.js";
import { Slider, Timeline } from "./timeline.js";

const PAGE = 200;
const SAID = 100;
const BY_ITSELF = 5_000; // Checkpoints that are loaded without being asked for.
const FARTHEST = 5_000; // How many messages are loaded to find the one that a link names.
const PANES = ["Conversation", "History", "State"];
const NONE = [];

export function Thread({ id, query, me, onError, onStatus }) {
  const [thread, setThread] = useState(null);
  const [gone, setGone] = useState(null);
  const [pane, setPane] = useState(PANES[0]);
  const namespace = query.get("ns") ?? "";
  const chosen = query.get("at");
  const compared = query.get("with") && { checkpoint: query.get("with"), thread: query.get("in") };
  const go = (at, against, inside) => location.replace(linkTo(id, { ns: namespace, at, with: against, in: inside }));
  const history = useCheckpoints(id, namespace, onError);
  const namespaces = useNamespaces(id, onError);
  const wanted = query.get("message");
  const said = useMessages(id, namespace, chosen, wanted, onError);

  const loads = useRef(0);
  async function load() {
    // Answers may overtake each other: only that of the last request counts.
    const turn = ++loads.current;
    try {
      const found = await api("GET", threadPath(id));
      if (turn !== loads.current) return;
      setThread(found);
      setGone(null);
    } catch (error) {
      if (turn !== loads.current) return;
      if ([404, 410].includes(error.status)) setGone((before) => before ?? "missing");
      else onError(error);
    }
  }
  useEffect(() => void load(), [id]);
  const loadSoon = useSoon(load);
  const saidSoon = useSoon(said.reload);
  const reload = useSoon(() => Promise.all([load(), history.reload(), namespaces.reload(), said.reload()]));
  useEvents(threadPath(id, "/events"), {
    onStatus,
    onReload: reload,
    onEvent: (event) => {
      if (event.kind === "deleted") return setGone("deleted");
      loadSoon();
      if (event.kind === "checkpoint" && event.checkpoint) {
        history.add(event.checkpoint);
        namespaces.add(event.checkpoint);
      } else if (event.kind === "removed" || event.kind === "checkpoint") reload();
      if (!chosen) saidSoon();
    },
  });

  // A thread without a main namespace, such as a fork of another one: its head says where there is something.
  const only = thread?.head?.namespace;
  useEffect(() => {
    if (only && !namespace) location.replace(linkTo(id, { ...Object.fromEntries(query), ns: only }));
  }, [only, namespace]);

  if (gone) return html`<${Gone} id=${id} why=${gone} />`;
  if (!thread) return html`<main class="page"><p class="empty" role="status">Loading…</p></main>`;
  const { checkpoints } = history;
  const head = (thread.head?.namespace === namespace ? thread.head : checkpoints[0])?.checkpoint_id;
  const at = chosen ?? head;
  const own = namespaces.found?.length > 1 ? namespaces.found.find((each) => each.namespace === namespace)?.checkpoints ?? 0 : thread.checkpoint_count;
  const total = history.complete ? checkpoints.length : Math.max(own, checkpoints.length);
  // A fork's checkpoint has the id and the namespace of the one that it was made from.
  const source = thread.forked_from && { ns: checkpoints.some((each) => each.checkpoint_id === thread.forked_from.checkpoint_id) ? namespace : null, at: thread.forked_from.checkpoint_id };
  const here = checkpoints.find((each) => each.checkpoint_id === at);
  const named = thread.thread_name ?? thread.thread_id;
  return html`<main class="thread">
    <header class="about">
      <div class="title"><h1 title=${named}>${named}</h1>${thread.tags.map((tag) => html`<a class="badge" href=${linkToThreads({ tag })}>${tag}</a>`)}</div>
      <p class="facts">
        <button class="id" title="Copy the id" onClick=${() => copy(thread.thread_id, "the id")}>${thread.thread_id}</button>
        <span>${thread.user_id == null ? "no owner" : html`<a href=${linkToThreads({ user: thread.user_id })}>${thread.user_id}</a>`}</span>
        <span>${count(thread.message_count, "message")}</span><span>${count(thread.checkpoint_count, "checkpoint")}</span><span>${size(thread.size)}</span>
        <span title=${moment(thread.updated_at)}>${ago(thread.updated_at)}</span>
        ${thread.forked_from && html`<span>forked from <a href=${linkTo(thread.forked_from.thread_id, source)}>${thread.forked_from.thread_id}</a></span>`}
      </p>
      <${Namespaces} found=${namespaces.found} complete=${namespaces.complete} chosen=${namespace} onChoose=${(ns) => location.replace(linkTo(id, { ns }))} />
      <${Actions} thread=${thread} namespace=${namespace} head=${head} at=${at} me=${me} />
    </header>
    <div class="tabs" role="group" aria-label="What to show">${PANES.map((each) => html`<button aria-pressed=${pane === each} onClick=${() => setPane(each)}>${each}</button>`)}</div>
    <section class="pane" data-current=${pane === PANES[0]} aria-labelledby="said"><div class="bar"><h2 id="said">Conversation</h2>${namespace && !chosen && html`<span class="soft">of the whole thread</span>`}${chosen && (namespace || chosen !== head) && html`<span class="soft">as of ${moment(here?.updated_at) || "a checkpoint"}</span><button class="quiet" onClick=${() => go(null)}>Back to the head</button>`}</div>
      <div class="scroll" tabindex="0" role="group" aria-labelledby="said">${said.messages ? html`<${Conversation} messages=${said.messages} view=${said.view} onEarlier=${said.earlier} wanted=${wanted} />` : html`<p class="empty" role="status">Loading…</p>`}</div>
    </section>
    <section class="pane" data-current=${pane === PANES[1]} aria-labelledby="history"><div class="bar"><h2 id="history">History</h2></div>
      <${Slider} checkpoints=${checkpoints} total=${total} chosen=${at} onChoose=${(each) => go(each)} />
      <${Timeline} key=${namespace} ready=${history.ready} checkpoints=${checkpoints} total=${total} head=${head} chosen=${at} compared=${compared?.thread ? null : compared?.checkpoint} onChoose=${(each) => go(each)} onCompare=${(each) => go(at, each)} onEnd=${history.more} />
    </section>
    <section class="pane" data-current=${pane === PANES[2]} aria-labelledby="state">${at ? html`<${State} key=${namespace} thread=${thread} namespace=${namespace} head=${head} at=${at} here=${here} compared=${compared} me=${me} onCompare=${(checkpoint, inside) => go(at, checkpoint, inside)} onHead=${() => go(null)} />` : html`<div class="bar"><h2 id="state">State</h2></div>${history.ready ? html`<p class="empty">No state was saved in this ${namespace ? "namespace" : "thread"}.</p>` : html`<p class="empty" role="status">Loading…</p>`}`}</section>
  </main>`;
}

// The checkpoints of a namespace, newest first. Pages come by themselves up to a number, and then on demand.
function useCheckpoints(id, namespace, onError) {
  const [loaded, setLoaded] = useState({ namespace: null, checkpoints: NONE });
  const ready = loaded.namespace === namespace;
  const checkpoints = ready ? loaded.checkpoints : NONE;
  const change = (work) => setLoaded((now) => (now.namespace === namespace ? { namespace, checkpoints: work(now.checkpoints) } : now));
  const state = useRef({ next: undefined, busy: false, turn: 0, added: [] });
  const page = (before) => api("GET", threadPath(id, "/checkpoints"), { query: { namespace, limit: PAGE, before } });

  async function more() {
    const now = state.current;
    if (now.busy || now.next === null || now.next === undefined) return;
    now.busy = true;
    const { turn } = now;
    try {
      const found = await page(now.next);
      if (turn !== state.current.turn) return;
      now.next = found.next;
      change((before) => joined(before, found.checkpoints));
    } catch (error) {
      onError(error);
    } finally {
      if (turn === state.current.turn) now.busy = false;
    }
  }
  async function reload() {
    const turn = ++state.current.turn;
    state.current = { next: undefined, busy: true, turn, added: [] };
    try {
      const found = await page();
      if (turn !== state.current.turn) return;
      // The answer may be older than an event that came meanwhile.
      setLoaded({ namespace, checkpoints: placed(found.checkpoints, state.current.added) });
      state.current = { next: found.next, busy: false, turn, added: [] };
    } catch (error) {
      if (turn === state.current.turn) state.current.busy = false;
      if (error.status !== 404) onError(error);
    }
  }
  useEffect(() => void reload(), [id, namespace]);
  useEffect(() => {
    if (!checkpoints.length || checkpoints.length >= BY_ITSELF) return undefined;
    const soon = setTimeout(more, 30);
    return () => clearTimeout(soon);
  }, [checkpoints]);
  function add(checkpoint) {
    if (checkpoint.namespace !== namespace) return;
    if (state.current.busy) state.current.added.push(checkpoint);
    change((before) => placed(before, [checkpoint]));
  }
  return { checkpoints, ready, complete: ready && state.current.next === null, more, reload, add };
}

// The newest first, with `added` instead of earlier records of the same checkpoints.
const placed = (before, added) => joined([...added].reverse(), before).sort((one, other) => other.sequence - one.sequence);

function joined(before, added) {
  const known = new Set(before.map((each) => each.checkpoint_id));
  return [...before, ...added.filter((each) => !known.has(each.checkpoint_id))];
}

// The newest messages of the branch, and earlier ones when they are asked for. The thread has one conversation:
// a namespace matters only if a checkpoint is chosen.
function useMessages(id, namespace, at, wanted, onError) {
  const view = at ? `${id} ${namespace} ${at}` : id;
  const [loaded, setLoaded] = useState({ view: null, messages: null, before: null });
  const { messages, before } = loaded;
  const turn = useRef(0);
  const ask = (query) => api("GET", threadPath(id, "/messages"), { query: { checkpoint_id: at, namespace: at && namespace, ...query } });
  async function reload() {
    const mine = ++turn.current;
    try {
      const found = await ask({ last: Math.min(PAGE, Math.max(SAID, messages?.length ?? 0)) });
      if (mine === turn.current) setLoaded((now) => refreshed(now, view, found));
    } catch (error) {
      if (error.status !== 404) onError(error);
    }
  }
  useEffect(() => void reload(), [view]);
  async function earlier() {
    try {
      const found = await ask({ last: PAGE, before });
      setLoaded((now) => (now.view === view && now.before === before ? { view, messages: [...found.messages, ...now.messages], before: found.next } : now));
    } catch (error) {
      onError(error);
    }
  }
  // A link to a message: load what came before until it is there.
  useEffect(() => {
    if (!wanted || loaded.view !== view || messages.some((each) => each.message_id === wanted)) return;
    if (before && messages.length < FARTHEST) earlier();
    else say("That message is on another branch");
  }, [wanted, messages]);
  return { messages, view, reload, earlier: before ? earlier : null };
}

// What was loaded, with the newest page. Earlier messages stay, because somebody may read them.
function refreshed(now, view, { messages, next }) {
  const first = now.view === view && messages.length ? now.messages.findIndex((each) => each.message_id === messages[0].message_id) : -1;
  return first > 0 ? { view, messages: [...now.messages.slice(0, first), ...messages], before: now.before } : { view, messages, before: next };
}

const Gone = ({ id, why }) => html`<main class="page"><div class="empty" role="alert"><h1>${why === "deleted" ? "This thread was deleted" : "There is no such thread"}</h1>
  <p>${why === "deleted" ? "Somebody deleted it while you looked at it." : "It was deleted, or it belongs to another user than your token."}</p><p><code>${id}</code></p><p><a class="button" href="#/">All threads</a></p></div></main>`;

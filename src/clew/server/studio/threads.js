// The list of threads, and search across messages. Filters are in the address.
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { api, linkTo, linkToThreads } from "./api.js";
import { ago, count, moment, number, size } from "./format.js";
import { useEvents, useSoon } from "./live.js";
import { Rows } from "./rows.js";

const PAGE = 200;
const HITS = 20;

// Only what a row shows: a list of 100,000 threads stays in memory.
const kept = ({ thread_id, thread_name, tags, user_id, message_count, checkpoint_count, size: bytes, updated_at }) => ({ thread_id, thread_name, tags, user_id, message_count, checkpoint_count, bytes, updated_at });

export function Threads({ query, onQuery, onError, onStatus }) {
  const filter = { q: query.get("q") ?? "", user: query.get("user") ?? "", tag: query.get("tag") ?? "" };
  const filtered = Boolean(filter.q || filter.user || filter.tag);
  const [threads, setThreads] = useState(null);
  const [hits, setHits] = useState({ found: [], next: null });
  const [waiting, setWaiting] = useState(0);
  const [top, setTop] = useState(0);
  const state = useRef({ next: null, busy: false, turn: 0, scroll: 0, changed: new Set() });
  const key = `${filter.q}\n${filter.user}\n${filter.tag}`;
  const ask = (before) => api("GET", "threads", { query: { search: filter.q, user_id: filter.user, tag: filter.tag, before, limit: PAGE } });

  async function first() {
    // For somebody who reads further down, it only counts what changed, and a page that is being loaded stays valid.
    const looks = () => state.current.key === key && reading();
    const looking = looks();
    const turn = looking ? state.current.turn : ++state.current.turn;
    try {
      const page = await ask();
      if (turn !== state.current.turn) return;
      const fresh = page.threads.map(kept);
      if (looking || looks()) return fresh.filter(isNew).forEach((each) => changed(each.thread_id));
      const ids = new Set(fresh.map((each) => each.thread_id));
      // What was loaded behind the first page stays, so that the list does not jump.
      const rest = state.current.key === key && page.next !== null ? (state.current.all ?? []).filter((each) => !ids.has(each.thread_id)) : [];
      if (!rest.length) state.current.next = page.next;
      state.current.key = key;
      show([...fresh, ...rest]);
    } catch (error) {
      onError(error);
    } finally {
      if (!looking && turn === state.current.turn) state.current.busy = false;
    }
  }
  // Somebody reads further down: nothing moves under their eyes.
  const reading = () => state.current.scroll >= 100;
  const isNew = ({ thread_id, updated_at }) => !state.current.all.some((each) => each.thread_id === thread_id && each.updated_at === updated_at);
  function changed(id) {
    state.current.changed.add(id);
    setWaiting(state.current.changed.size);
  }
  async function more() {
    const now = state.current;
    if (now.busy || now.next === null || threads === null) return;
    now.busy = true;
    const { turn } = now;
    try {
      const page = await ask(now.next);
      if (turn !== now.turn) return;
      now.next = page.next;
      const known = now.ids;
      show([...now.all, ...page.threads.filter((each) => !known.has(each.thread_id)).map(kept)]);
    } catch (error) {
      onError(error);
    } finally {
      if (turn === now.turn) now.busy = false;
    }
  }
  function show(all) {
    state.current.all = all;
    state.current.ids = new Set(all.map((each) => each.thread_id));
    setThreads(all);
  }
  async function search(before) {
    if (!filter.q) return setHits({ found: [], next: null });
    try {
      const page = await api("GET", "search", { query: { q: filter.q, user_id: filter.user, before, limit: HITS } });
      if (state.current.key !== undefined && key !== state.current.wanted) return;
      setHits((now) => ({ found: before ? [...now.found, ...page.hits] : page.hits, next: page.next }));
    } catch (error) {
      onError(error);
    }
  }
  useEffect(() => {
    state.current.wanted = key;
    setThreads(null);
    setHits({ found: [], next: null });
    seen();
    const soon = setTimeout(() => {
      first();
      search();
    }, filter.q ? 120 : 0);
    return () => clearTimeout(soon);
  }, [key]);

  const refresh = useSoon(first, 400);
  function seen() {
    state.current.changed.clear();
    setWaiting(0);
  }
  useEvents("events", {
    onStatus,
    onReload: refresh,
    onEvent: (event) => {
      const now = state.current;
      if (event.kind === "deleted") return now.all && show(now.all.filter((each) => each.thread_id !== event.thread_id));
      if (reading()) changed(event.thread_id);
      else refresh();
    },
  });
  const toTop = () => {
    document.querySelector(".rows.threads").scrollTop = 0;
    seen();
    refresh();
  };
  const row = (at, style) => html`<${Row} key=${threads[at].thread_id} thread=${threads[at]} at=${at} style=${style} total=${threads.length} filter=${filter} />`;
  const set = (change) => onQuery({ ...filter, ...change });
  return html`<main class="page list">
    <h1 class="sr">Threads</h1>
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <input type="search" placeholder="Search ids, names, tags and messages" aria-label="Search" value=${filter.q} onInput=${(event) => set({ q: event.target.value })} />
      <input type="text" placeholder="User" aria-label="User" value=${filter.user} onInput=${(event) => set({ user: event.target.value })} />
      <input type="text" placeholder="Tag" aria-label="Tag" value=${filter.tag} onInput=${(event) => set({ tag: event.target.value })} />
      ${filtered && html`<button type="button" class="quiet" onClick=${() => onQuery({})}>Clear</button>`}
    </form>
    ${hits.found.length > 0 && html`<section class="hits" aria-labelledby="hits"><h2 id="hits">Messages</h2><ul tabindex="0">
      ${hits.found.map((hit) => html`<li key=${hit.position}><a href=${linkTo(hit.thread_id, { message: hit.message.message_id })}><span class="where"><b>${hit.thread_id}</b><span class="soft">${hit.message.role}, ${ago(hit.message.created_at)}</span></span><${Snippet} hit=${hit} /></a></li>`)}
      ${hits.next && html`<li><button class="more" onClick=${() => search(hits.next)}>More messages</button></li>`}
    </ul></section>`}
    ${threads === null ? html`<p class="empty" role="status">Loading…</p>` : threads.length === 0 ? html`<${Nothing} filtered=${filtered} hits=${hits.found.length} />` : html`<section class="table" aria-labelledby="threads">
      <div class="columns"><h2 id="threads">${count(threads.length, "thread")}${state.current.next !== null ? " and more" : ""}</h2><span>Owner</span><span class="num">Messages</span><span class="num">Checkpoints</span><span class="num">Size</span><span class="num">Active</span></div>
      ${waiting > 0 && html`<button class="pill" onClick=${toTop}>${count(waiting, "thread")} changed. Show</button>`}
      <${Rows} name="threads" count=${threads.length} height=${ROW()} row=${row} onEnd=${more} onScroll=${(scroll) => (state.current.scroll = scroll)} label="Threads, the most recently active first" />
    </section>`}
  </main>`;
}

const phone = matchMedia("(max-width: 760px)");
const ROW = () => (phone.matches ? 76 : 54);

function Row({ thread, at, style, total, filter }) {
  const name = thread.thread_name ?? thread.thread_id;
  return html`<li data-at=${at} style=${style} aria-setsize=${total} aria-posinset=${at + 1}>
    <span class="name"><a href=${linkTo(thread.thread_id)} title=${name}>${name}</a>${thread.thread_name && html`<code>${thread.thread_id}</code>`}</span>
    <span class="tags">${thread.tags.slice(0, 4).map((tag) => html`<a class="badge" href=${linkToThreads({ ...filter, tag })}>${tag}</a>`)}</span>
    <span class="owner">${thread.user_id == null ? html`<span class="soft">no owner</span>` : html`<a href=${linkToThreads({ ...filter, user: thread.user_id })}>${thread.user_id}</a>`}</span>
    <span class="num">${number(thread.message_count)}<span class="unit"> message${thread.message_count === 1 ? "" : "s"}</span></span>
    <span class="num">${number(thread.checkpoint_count)}<span class="unit"> checkpoint${thread.checkpoint_count === 1 ? "" : "s"}</span></span>
    <span class="num">${size(thread.bytes)}</span>
    <time class="num" datetime=${thread.updated_at} title=${moment(thread.updated_at)}>${ago(thread.updated_at)}</time>
  </li>`;
}

const Snippet = ({ hit }) => {
  const { snippet, start, end } = hit;
  return html`<span class="snippet">${start == null ? snippet : html`${snippet.slice(0, start)}<mark>${snippet.slice(start, end)}</mark>${snippet.slice(end)}`}</span>`;
};

function Nothing({ filtered, hits }) {
  if (filtered) return html`<div class="empty"><h2>No thread matches</h2><p>${hits ? "Only messages do." : "Ids, names and tags are searched for any part of them; users and tags must be exact."}</p><p><a class="button" href="#/">Show all threads</a></p></div>`;
  return html`<div class="empty"><h2>This store has no conversations yet</h2><p>Save one, and it appears here by itself:</p><pre><code>clew.connect(url).put_state("trip", {"city": "Lyon"})</code></pre><p>Or look at a demo conversation: <code>clew studio --demo</code></p></div>`;
}

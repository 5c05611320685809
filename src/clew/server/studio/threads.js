// The list of threads, and search across messages.
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { api } from "./api.js";
import { ago, count, moment, size } from "./format.js";

const PAGE = 100;
export const linkTo = (id, query = {}) => {
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  return `#/thread/${encodeURIComponent(id)}${given.size ? `?${given}` : ""}`;
};

export function Threads({ query, onError, onQuery }) {
  const [threads, setThreads] = useState(null);
  const [next, setNext] = useState(null);
  const [hits, setHits] = useState([]);
  const asked = useRef(0);
  const search = query.get("q") ?? "";
  const user = query.get("user") ?? "";

  async function load(offset) {
    const turn = ++asked.current;
    try {
      const page = await api("GET", "threads", { query: { search, user_id: user, offset, limit: PAGE } });
      if (turn !== asked.current) return;
      setThreads((before) => (offset ? [...before, ...page.threads] : page.threads));
      setNext(page.next);
    } catch (error) {
      onError(error);
    }
  }

  useEffect(() => {
    load(0);
    setHits([]);
    const wait = search && setTimeout(() => api("GET", "search", { query: { q: search, user_id: user, limit: 20 } }).then((found) => setHits(found.hits), onError), 150);
    const again = setInterval(() => document.visibilityState === "visible" && scrollY < 200 && load(0), 3000);
    return () => {
      clearTimeout(wait);
      clearInterval(again);
    };
  }, [search, user]);

  const end = useRef(null);
  useEffect(() => {
    if (next === null || !end.current) return undefined;
    const seen = new IntersectionObserver(([entry]) => entry.isIntersecting && load(next), { rootMargin: "600px" });
    seen.observe(end.current);
    return () => seen.disconnect();
  }, [next]);

  return html`<main class="threads">
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <input type="search" placeholder="Search names, tags and messages" aria-label="Search" value=${search} onInput=${(event) => onQuery({ q: event.target.value, user })} />
      <input type="text" placeholder="User" aria-label="User" value=${user} onInput=${(event) => onQuery({ q: search, user: event.target.value })} />
    </form>
    ${hits.length > 0 && html`<section aria-label="Messages"><h2>Messages</h2><ul class="hits">
      ${hits.map((hit) => html`<li key=${hit.position}><a href=${linkTo(hit.thread_id)}><b>${hit.thread_id}</b> <small>${hit.message.role} · ${ago(hit.message.created_at)}</small><br /><${Snippet} hit=${hit} /></a></li>`)}
    </ul></section>`}
    ${threads === null ? html`<p class="empty">Loading…</p>` : threads.length === 0 ? html`<${Nothing} search=${search || user} />` : html`<section aria-label="Threads"><h2>Threads</h2><ul class="list">
      ${threads.map((thread) => html`<li key=${thread.thread_id}><a href=${linkTo(thread.thread_id)}>
        <span class="name"><b>${thread.thread_name ?? thread.thread_id}</b>${thread.thread_name && html` <small>${thread.thread_id}</small>`}</span>
        <span class="tags">${thread.tags.map((tag) => html`<span class="badge">${tag}</span>`)}</span>
        <small class="owner">${thread.user_id ?? "no owner"}</small>
        <small>${count(thread.message_count, "message")} · ${count(thread.checkpoint_count, "checkpoint")} · ${size(thread.size)}</small>
        <small><time datetime=${thread.updated_at} title=${moment(thread.updated_at)}>${ago(thread.updated_at)}</time></small>
      </a></li>`)}
    </ul></section>`}
    <div ref=${end}></div>
  </main>`;
}

const Snippet = ({ hit }) => {
  const { snippet, start, end } = hit;
  return start == null ? html`<span>${snippet}</span>` : html`<span>${snippet.slice(0, start)}<mark>${snippet.slice(start, end)}</mark>${snippet.slice(end)}</span>`;
};

const Nothing = ({ search }) => (search ? html`<p class="empty">No thread matches. Names, tags and ids are searched for any part of them.</p>` : html`<div class="empty"><p>This store has no conversations yet.</p><p>Save one: <code>clew.connect(url).put_state("trip", {"city": "Lyon"})</code>, or run <code>clew demo --keep</code> and open its file.</p></div>`);

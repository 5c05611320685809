// One thread: its conversation, its checkpoints, and the state at any of them.
import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { api, threadPath } from "./api.js";
import { count, moment, size } from "./format.js";
import { Conversation } from "./conversation.js";
import { Timeline } from "./timeline.js";
import { Changes, Tree } from "./tree.js";
import { Actions } from "./actions.js";
import { linkTo } from "./threads.js";

const PAGE = 200;

export function Thread({ id, query, onError }) {
  const [thread, setThread] = useState(null);
  const [messages, setMessages] = useState([]);
  const [checkpoints, setCheckpoints] = useState([]);
  const [older, setOlder] = useState(null);
  const chosen = query.get("at");
  const compared = query.get("with");
  const go = (at, against) => location.replace(linkTo(id, { at, with: against }));

  async function refresh() {
    try {
      const found = await api("GET", threadPath(id));
      setThread((before) => (before?.updated_at === found.updated_at ? before : found));
    } catch (error) {
      onError(error);
    }
  }

  useEffect(() => {
    refresh();
    const again = setInterval(() => document.visibilityState === "visible" && refresh(), 1000);
    return () => clearInterval(again);
  }, [id]);

  useEffect(() => {
    if (!thread) return;
    api("GET", threadPath(id, "/checkpoints"), { query: { limit: PAGE } }).then((page) => {
      setCheckpoints(page.checkpoints);
      setOlder(page.next);
    }, onError);
  }, [thread]);

  useEffect(() => {
    if (!thread) return;
    all(threadPath(id, "/messages"), { checkpoint_id: chosen }).then(setMessages, onError);
  }, [thread, chosen]);

  async function more() {
    const page = await api("GET", threadPath(id, "/checkpoints"), { query: { limit: PAGE, before: older } });
    setCheckpoints([...checkpoints, ...page.checkpoints]);
    setOlder(page.next);
  }

  if (!thread) return html`<main class="empty">Loading…</main>`;
  const head = thread.head?.checkpoint_id;
  const at = chosen ?? head;
  return html`<main class="thread">
    <header class="about">
      <h1>${thread.thread_name ?? thread.thread_id}</h1>
      <p>${thread.thread_name && html`<code>${thread.thread_id}</code> · `}${thread.user_id ?? "no owner"} · ${count(thread.message_count, "message")} · ${count(thread.checkpoint_count, "checkpoint")} · ${size(thread.size)}
        ${thread.forked_from && html` · forked from <a href=${linkTo(thread.forked_from.thread_id)}>${thread.forked_from.thread_id}</a>`}</p>
      <p>${thread.tags.map((tag) => html`<span class="badge">${tag}</span> `)}</p>
      <${Actions} thread=${thread} at=${at} onError=${onError} />
    </header>
    <section class="said" aria-label="Conversation"><h2>Conversation${chosen && html` <small>as of ${moment(checkpoints.find((each) => each.checkpoint_id === chosen)?.timestamp)}</small>`}</h2><${Conversation} messages=${messages} /></section>
    <section class="history" aria-label="History"><h2>History</h2>
      ${checkpoints.length > 1 && html`<input type="range" min="0" max=${checkpoints.length - 1} aria-label="Go through the history" value=${checkpoints.length - 1 - Math.max(0, checkpoints.findIndex((each) => each.checkpoint_id === at))} onInput=${(event) => go(checkpoints[checkpoints.length - 1 - event.target.value].checkpoint_id)} />`}
      <${Timeline} checkpoints=${checkpoints} head=${head} chosen=${at} compared=${compared} onChoose=${(each) => go(each)} onCompare=${(each) => go(at, each)} />
      ${older && html`<button class="more" onClick=${more}>Older checkpoints</button>`}
    </section>
    <section class="state" aria-label="State">${at ? html`<${State} id=${id} at=${at} compared=${compared} checkpoints=${checkpoints} onCompare=${(each) => go(at, each)} onError=${onError} />` : html`<p class="empty">No state was saved in this thread.</p>`}</section>
  </main>`;
}

async function all(path, query) {
  const found = [];
  for (let offset = 0; offset !== null; ) {
    const page = await api("GET", path, { query: { ...query, offset, limit: PAGE } });
    found.push(...page.messages);
    offset = page.next;
  }
  return found;
}

function State({ id, at, compared, checkpoints, onCompare, onError }) {
  const [loaded, setLoaded] = useState(null);
  const [changes, setChanges] = useState(null);
  const [needle, setNeedle] = useState("");
  const parent = checkpoints.find((each) => each.checkpoint_id === at)?.parent_id;
  useEffect(() => {
    let current = true;
    setChanges(null);
    const wanted = compared ? api("GET", threadPath(id, "/diff"), { query: { from: compared, to: at } }).then((found) => current && setChanges(found.changes)) : api("GET", threadPath(id, "/state"), { query: { checkpoint_id: at } }).then((found) => current && setLoaded(found));
    wanted.catch((error) => current && onError(error));
    return () => (current = false);
  }, [id, at, compared]);
  const tools = html`<div class="tools">
    ${compared ? html`<button onClick=${() => onCompare(null)}>Show the state</button>` : html`<input type="search" placeholder="Find in the state" aria-label="Find in the state" value=${needle} onInput=${(event) => setNeedle(event.target.value.toLowerCase())} />`}
    ${parent && compared !== parent && html`<button onClick=${() => onCompare(parent)}>Compare with its parent</button>`}
  </div>`;
  if (compared) return html`<h2>Changes</h2>${tools}${changes ? html`<${Changes} changes=${changes} />` : html`<p class="empty">Loading…</p>`}`;
  return html`<h2>State</h2>${tools}${loaded ? html`<${Tree} key=${loaded.metadata.checkpoint_id} value=${loaded.state} needle=${needle} />` : html`<p class="empty">Loading…</p>`}`;
}

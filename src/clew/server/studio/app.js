// The studio: routes in the address's fragment, so that every view has a link.
import { html, render, useEffect, useErrorBoundary, useState } from "./vendor/htm-preact.js";
import { api, linkToThreads, setToken, takeToken } from "./api.js";
import { Notes } from "./dialog.js";
import { Help, useKeys } from "./keys.js";
import { Store } from "./store.js";
import { Thread } from "./thread.js";
import { Threads } from "./threads.js";

takeToken();

const STATUS = {
  live: ["Live", "Changes appear by themselves"],
  paused: ["Paused", "Goes on when this page is visible"],
  reconnecting: ["Reconnecting", "The connection was lost"],
  polling: ["Polling", "There is no live connection; the page looks every 5 seconds"],
};

function route() {
  const [path, query = ""] = location.hash.slice(1).split("?");
  const thread = path.match(/^\/thread\/(.+)$/);
  let id = null;
  try {
    id = thread && decodeURIComponent(thread[1]);
  } catch {
    // Not a link that the studio wrote: show the threads.
  }
  return { store: path === "/store", thread: id, query: new URLSearchParams(query) };
}

function Studio() {
  const [here, setHere] = useState(route);
  const [error, setError] = useState(null);
  const [me, setMe] = useState(null);
  const [status, setStatus] = useState(null);
  const [help, setHelp] = useState(false);
  const [broken, repair] = useErrorBoundary();
  useEffect(() => {
    const moved = () => {
      setError(null);
      repair();
      setHere(route());
    };
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  useEffect(() => {
    document.title = `${here.thread ?? (here.store ? "The store" : "Threads")} · Clew studio`;
  }, [here.thread, here.store]);
  // An error of the connection is taken back when the server answers again.
  const onError = (problem) => problem.name !== "AbortError" && setError(problem);
  const onStatus = (next) => {
    setStatus(next);
    if (next === "live") setError((before) => (before?.status === 0 ? null : before));
  };
  const know = () => api("GET", "me").then(setMe, onError);
  useEffect(() => void know(), []);
  useKeys(() => setHelp(true));
  const onQuery = (query) => location.replace(linkToThreads(query));
  const asking = error?.status === 401;
  let view;
  if (asking) view = html`<${SignIn} detail=${error.message} onDone=${() => {
    setError(null);
    know();
  }} />`;
  else if (broken) view = html`<main class="page"><div class="empty" role="alert"><h1>This view failed</h1><p>${String(broken.message ?? broken)}</p><p>The data is safe; this is a bug of the studio.</p><p><button onClick=${repair}>Try again</button></p></div></main>`;
  else if (here.thread) view = html`<${Thread} key=${here.thread} id=${here.thread} query=${here.query} me=${me} onError=${onError} onStatus=${onStatus} />`;
  else if (here.store) view = html`<${Store} me=${me} onError=${onError} onStatus=${onStatus} />`;
  else view = html`<${Threads} query=${here.query} onQuery=${onQuery} onError=${onError} onStatus=${onStatus} />`;
  return html`
    <header class="top">
      <a href="#/" class="home"><img src="studio/icon.svg" alt="" width="22" height="22" />Clew studio</a>
      <nav aria-label="Views"><a href="#/" aria-current=${here.store ? null : here.thread ? "true" : "page"}>Threads</a><a href="#/store" aria-current=${here.store ? "page" : null}>Store</a></nav>
      <span class="rest">
        ${me?.scope === "read" && html`<span class="badge" title="Your token may only read">read only</span>`}
        ${me?.user != null && html`<span class="badge" title="Your token is for one user">${me.user}</span>`}
        ${!asking && STATUS[status] && html`<span class=${`live ${status}`} role="status" title=${STATUS[status][1]}>${STATUS[status][0]}</span>`}
        <button class="quiet" aria-label="Keys" title="Keys (?)" onClick=${() => setHelp(true)}>?</button>
      </span>
    </header>
    ${error && !asking && html`<p class="error" role="alert"><span><b>${error.name}</b> ${error.message}</span><button class="quiet" onClick=${() => setError(null)}>Close</button></p>`}
    ${view}
    ${help && html`<${Help} onClose=${() => setHelp(false)} />`}
    <${Notes} />`;
}

function SignIn({ detail, onDone }) {
  return html`<main class="page sign-in"><form onSubmit=${(event) => {
    event.preventDefault();
    setToken(new FormData(event.target).get("token").trim());
    onDone();
  }}>
    <h1>Sign in</h1><p class="soft">This server wants a token: ${detail}.</p>
    <label>Token <input name="token" type="password" autocomplete="off" autofocus required /></label>
    <button class="primary">Open the studio</button>
    <p class="soft">Make one with <code>clew token create me</code>. With <code>--write</code>, it may also change things.</p>
  </form></main>`;
}

render(html`<${Studio} />`, document.body);

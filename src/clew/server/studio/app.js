// The studio: routes in the address's fragment, so that every view has a link.
import { html, render, useEffect, useState } from "./vendor/htm-preact.js";
import { setToken, takeToken } from "./api.js";
import { Store } from "./store.js";
import { Thread } from "./thread.js";
import { Threads } from "./threads.js";

takeToken();

function route() {
  const [path, query = ""] = location.hash.slice(1).split("?");
  const thread = path.match(/^\/thread\/(.+)$/);
  return { store: path === "/store", thread: thread && decodeURIComponent(thread[1]), query: new URLSearchParams(query) };
}

function Studio() {
  const [here, setHere] = useState(route);
  const [error, setError] = useState(null);
  useEffect(() => {
    const moved = () => {
      setError(null);
      setHere(route());
    };
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  useEffect(() => {
    document.title = here.thread ? `${here.thread} · Clew studio` : "Clew studio";
  }, [here.thread]);
  useEffect(() => {
    const keys = (event) => {
      if (event.target.matches("input, textarea")) return;
      if (event.key === "/") {
        event.preventDefault();
        document.querySelector("input[type=search]")?.focus();
      } else if (event.key === "Escape" && here.thread) location.hash = "#/";
      else if (event.key === "j" || event.key === "k") {
        const stops = [...document.querySelectorAll(here.thread ? ".checkpoint" : ".list a, .hits a")];
        const at = stops.indexOf(document.activeElement);
        stops[Math.min(stops.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)))]?.focus();
      }
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, [here.thread]);
  const onQuery = (query) => {
    const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
    location.replace(`#/${given.size ? `?${given}` : ""}`);
  };
  const view = error?.status === 401 ? html`<${SignIn} detail=${error.message} onDone=${() => setError(null)} />` : here.thread ? html`<${Thread} key=${here.thread} id=${here.thread} query=${here.query} onError=${setError} />` : here.store ? html`<${Store} onError=${setError} />` : html`<${Threads} query=${here.query} onQuery=${onQuery} onError=${setError} />`;
  return html`
    <nav><a href="#/" class="home"><img src="studio/icon.svg" alt="" width="24" height="24" /> Clew studio</a><span><small>/ search · j k move · Esc back</small> <a href="#/store">The store</a></span></nav>
    ${error && error.status !== 401 && html`<p class="error" role="alert"><b>${error.name}</b> ${error.message} <button onClick=${() => setError(null)}>Close</button></p>`}
    ${view}`;
}

function SignIn({ detail, onDone }) {
  return html`<main class="sign-in"><form onSubmit=${(event) => {
    event.preventDefault();
    setToken(new FormData(event.target).get("token").trim());
    onDone();
  }}>
    <h1>Sign in</h1><p>${detail}</p>
    <label>Token <input name="token" type="password" autocomplete="off" autofocus required /></label>
    <button>Open the studio</button>
    <p><small>Make one: <code>clew token create me</code></small></p>
  </form></main>`;
}

render(html`<${Studio} />`, document.body);

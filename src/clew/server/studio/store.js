// The whole store: its size, its largest threads, its growth by day, its health.
import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { api } from "./api.js";
import { count, size } from "./format.js";
import { linkTo } from "./threads.js";

const DAYS = 60;

export function Store({ onError }) {
  const [stats, setStats] = useState(null);
  const [status, setStatus] = useState(null);
  const [report, setReport] = useState(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    api("GET", "stats").then(setStats, onError);
    // Only tokens for all users may see it.
    api("GET", "status").then(setStatus, (error) => error.status === 403 || onError(error));
  }, []);
  async function verify() {
    setBusy(true);
    await api("POST", "verify").then(setReport, onError);
    setBusy(false);
  }
  if (!stats) return html`<main class="empty">Loading…</main>`;
  const largest = Object.entries(stats.by_thread).sort(([, one], [, other]) => other.bytes - one.bytes).slice(0, 10);
  return html`<main class="store">
    <h1>The store</h1>
    <dl class="figures">
      <${Figure} name="threads" value=${stats.total_sessions.toLocaleString()} />
      <${Figure} name="checkpoints" value=${stats.total_checkpoints.toLocaleString()} />
      <${Figure} name="messages" value=${stats.total_messages.toLocaleString()} />
      <${Figure} name="content" value=${size(stats.total_bytes)} />
      ${stats.stored_bytes > 0 && html`<${Figure} name="on disk" value=${size(stats.stored_bytes)} />`}
    </dl>
    <section><h2>Messages by day</h2><${Days} days=${stats.by_day} /></section>
    <section><h2>Largest threads</h2>
      <ul class="list">${largest.map(([id, totals]) => html`<li key=${id}><a href=${linkTo(id)}><span class="name"><b>${id}</b></span><small>${count(totals.messages, "message")} · ${count(totals.checkpoints, "checkpoint")} · ${size(totals.bytes)}</small></a></li>`)}</ul>
    </section>
    ${status && html`<section><h2>Health</h2>
      <p>The store ${status.primary_healthy ? "answers" : "does not answer"}${status.secondary_healthy == null ? "" : `; the second store ${status.secondary_healthy ? "answers" : "does not answer"}`}.${status.last_error ? ` ${status.last_error}` : ""}</p>
      <p><button onClick=${verify} disabled=${busy}>${busy ? "Reading every record…" : "Verify every record"}</button></p>
      ${report && (report.damage.length ? html`<ul>${report.damage.map((each) => html`<li><a href=${linkTo(each.thread_id)}>${each.thread_id}</a>: ${each.problem}</li>`)}</ul>` : html`<p>No damage in ${count(report.threads, "thread")}, ${count(report.checkpoints, "checkpoint")} and ${count(report.messages, "message")}.</p>`)}
    </section>`}
  </main>`;
}

const Figure = ({ name, value }) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;

function Days({ days }) {
  const shown = Object.entries(days).sort().slice(-DAYS);
  if (!shown.length) return html`<p class="empty">Nothing was said yet.</p>`;
  const most = Math.max(1, ...shown.map(([, totals]) => totals.messages));
  const width = Math.max(8, Math.min(40, 720 / shown.length));
  return html`<svg class="days" width=${shown.length * width} height="120" role="img" aria-label=${`Messages on ${shown.length} days; the most on one day: ${most}`}>
    ${shown.map(([day, totals], at) => html`<rect x=${at * width + 1} width=${width - 2} y=${100 - (96 * totals.messages) / most} height=${(96 * totals.messages) / most + 1}><title>${day}: ${totals.messages}</title></rect>`)}
    <text x="0" y="116">${shown[0][0]}</text>${shown.length > 6 && html`<text x=${shown.length * width} y="116" text-anchor="end">${shown.at(-1)[0]}</text>`}
  </svg>`;
}

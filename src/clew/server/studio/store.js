// The whole store: its size, its growth, its largest threads, its health, and what could go.
import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { api, linkTo } from "./api.js";
import { Growth } from "./growth.js";
import { ago, count, moment, number, size } from "./format.js";
import { Retention } from "./retention.js";

export function Store({ me, onError, onStatus }) {
  const [totals, setTotals] = useState(null);
  const [status, setStatus] = useState(null);
  const [cleaning, setCleaning] = useState(false);
  const operator = me?.user === null;
  function load() {
    api("GET", "overview").then(setTotals, onError);
    if (operator) api("GET", "status").then(setStatus, onError);
  }
  useEffect(() => {
    onStatus(null);
    if (me) load();
  }, [me]);
  if (!totals) return html`<main class="page"><p class="empty" role="status">Counting…</p></main>`;
  const tokens = totals.total_input_tokens + totals.total_output_tokens;
  return html`<main class="page store">
    <header><h1>The store</h1><span class="actions"><button onClick=${load}>Refresh</button>${operator && html`<button onClick=${() => setCleaning(true)}>Retention…</button>`}</span></header>
    <dl class="figures">
      <${Figure} name="Threads" value=${number(totals.total_sessions)} />
      <${Figure} name="Checkpoints" value=${number(totals.total_checkpoints)} />
      <${Figure} name="Messages" value=${number(totals.total_messages)} />
      ${tokens > 0 && html`<${Figure} name="Tokens" value=${number(tokens)} />`}
      <${Figure} name="Content" value=${size(totals.total_bytes)} />
      ${totals.stored_bytes > 0 && html`<${Figure} name="On disk" value=${size(totals.stored_bytes)} />`}
    </dl>
    <${Growth} days=${totals.by_day} />
    <div class="halves">
      <section class="card" aria-labelledby="largest"><h2 id="largest">Largest threads</h2>${totals.largest.length ? html`<ol class="largest">${totals.largest.map((each) => html`<li key=${each.thread_id}>
        <a href=${linkTo(each.thread_id)}>${each.thread_name ?? each.thread_id}</a><span class="soft">${each.thread_name ? each.thread_id : each.user_id ?? "no owner"}</span><span class="num">${size(each.bytes)}</span>
        <span class="share" aria-hidden="true"><span style=${{ width: `${Math.max(1, (100 * each.bytes) / Math.max(1, totals.largest[0].bytes))}%` }}></span></span></li>`)}</ol>` : html`<p class="empty">No threads yet.</p>`}</section>
      ${operator && html`<div class="stack"><${Health} status=${status} /><${Verify} onError=${onError} /></div>`}
    </div>
    ${cleaning && html`<${Retention} me=${me} onClose=${() => {
      setCleaning(false);
      load();
    }} />`}
  </main>`;
}

const Figure = ({ name, value }) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
const Line = ({ name, good, children }) => html`<div><dt>${name}</dt><dd>${good != null && html`<span class=${`dot ${good ? "good" : "bad"}`} aria-hidden="true"></span>`}${children}</dd></div>`;

function Health({ status }) {
  if (!status) return null;
  const { cache, background, cleanup } = status;
  const reads = cache ? cache.hits + cache.misses : 0;
  return html`<section class="card" aria-labelledby="health"><h2 id="health">Health</h2><dl class="lines">
    <${Line} name="Store" good=${status.primary_healthy}>${status.primary_healthy ? "answers" : "does not answer"}<//>
    ${status.secondary_healthy != null && html`<${Line} name="Second store" good=${status.secondary_healthy}>${status.secondary_healthy ? "answers" : "does not answer"}${status.failed_over ? "; it serves now" : ""}<//>`}
    ${status.replication_mode && html`<${Line} name="Replication" good=${status.enable_replication}>${status.enable_replication ? `${status.replication_mode}, ${count(status.replication_queue_size, "commit")} to ship, ${status.replication_lag.toFixed(1)} s behind` : "off"}<//>`}
    <${Line} name="Cache" good=${cache?.available}>${cache ? `${reads ? Math.round((100 * cache.hits) / reads) : 0}% of ${count(reads, "read")} from it${cache.errors ? `, ${count(cache.errors, "error")}` : ""}` : "none"}<//>
    ${background && html`<${Line} name="Background saves" good=${!background.failed}>${count(background.pending, "save")} waiting${background.failed ? `, ${background.failed} failed` : ""}<//>`}
    <${Line} name="Cleanup" good=${cleanup ? !cleanup.last_error : null}>${cleanup ? (cleanup.running ? `running: ${cleanup.done} of ${cleanup.total}` : cleanup.last_run ? html`<span title=${moment(cleanup.last_run)}>${ago(cleanup.last_run)}</span>` : "has not run yet") : "not automatic in this server"}${cleanup?.last_report ? `, removed ${size(cleanup.last_report.bytes)}` : ""}<//>
    ${status.last_error && html`<${Line} name="Last error">${status.last_error}<//>`}
  </dl></section>`;
}

function Verify({ onError }) {
  const [report, setReport] = useState(null);
  const [busy, setBusy] = useState(false);
  async function verify() {
    setBusy(true);
    await api("POST", "verify").then(setReport, onError);
    setBusy(false);
  }
  return html`<section class="card" aria-labelledby="verify"><h2 id="verify">Damage</h2>
    <div aria-live="polite">${!report ? html`<p class="soft">Reads every record and checks that it is whole. On a large store this takes a while.</p>` : report.damage.length ? html`<p class="problem">${count(report.damage.length, "damaged record")} in ${count(new Set(report.damage.map((each) => each.thread_id)).size, "thread")}.</p>
      <ul class="damage" tabindex="0">${report.damage.slice(0, 500).map((each) => html`<li><a href=${linkTo(each.thread_id, { ns: each.message_id ? null : each.namespace, at: each.message_id ? null : each.checkpoint_id })}>${each.thread_id}</a> <span class="soft">${each.attachment ? `attachment ${each.attachment}` : each.message_id ? `message ${each.message_id}` : each.checkpoint_id ? `checkpoint ${each.checkpoint_id}` : "the thread's record"}</span><br />${each.problem}</li>`)}</ul>` : html`<p><span class="dot good" aria-hidden="true"></span>No damage in ${count(report.threads, "thread")}, ${count(report.checkpoints, "checkpoint")} and ${count(report.messages, "message")}.</p>`}</div>
    <p><button onClick=${verify} disabled=${busy}>${busy ? "Reading every record…" : "Verify every record"}</button></p>
  </section>`;
}

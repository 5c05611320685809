// Retention: see what a policy would remove, and remove it.
import { html, useState } from "./vendor/htm-preact.js";
import { api } from "./api.js";
import { Dialog, say } from "./dialog.js";
import { count, number, size } from "./format.js";

const DAY = 86_400;
const FIELDS = [
  ["max_age", "Remove checkpoints older than", "days", DAY],
  ["max_history", "Keep only the newest checkpoints", "of each thread", 1],
  ["max_bytes", "Shrink threads to", "kB", 1000],
  ["keep_every", "Always keep every n-th checkpoint", "n", 1],
  ["message_ttl", "Remove messages older than", "days", DAY],
  ["thread_ttl", "Remove threads unused for", "days", DAY],
];
const WHAT = [["expired", "threads", "thread_bytes"], ["checkpoints", "checkpoints", "checkpoint_bytes"], ["messages", "messages", "message_bytes"], ["attachments", "attachments", "attachment_bytes"], ["values", "parts of states", "value_bytes"]];

export function Retention({ thread = null, me, onClose }) {
  const [preview, setPreview] = useState(null);
  const [sure, setSure] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  const fields = FIELDS.filter(([name]) => !thread || name !== "thread_ttl");

  const run = (policy, dry) => api("POST", "cleanup", { query: { thread_id: thread?.thread_id }, body: { policy, dry_run: dry } });
  async function tried(work) {
    setBusy(true);
    setProblem(null);
    await work().catch(setProblem);
    setBusy(false);
  }
  const look = (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const given = fields.map(([name, , , unit]) => [name, form.get(name), unit]).filter(([, value]) => value !== "");
    const policy = Object.fromEntries(given.map(([name, value, unit]) => [name, unit === 1 ? Number(value) : Math.round(Number(value) * unit)]));
    setSure(false);
    setPreview(null);
    if (!given.some(([name]) => name !== "keep_every")) return setProblem({ name: "Nothing to do", message: "Fill in at least one rule. Keeping alone removes nothing." });
    tried(async () => setPreview({ policy, report: await run(policy, true) }));
  };
  const apply = () => tried(async () => {
    const report = await run(preview.policy, false);
    onClose();
    say(`Removed ${size(report.bytes)}`);
  });
  const nothing = preview && !WHAT.some(([name]) => preview.report[name]);
  return html`<${Dialog} title=${thread ? "Retention of this thread" : "Retention of the store"} onClose=${onClose} wide>
    <p>${thread ? "Rules for this thread, this once." : "Rules for all threads, this once. Threads with their own policy follow that one."} Heads stay, whatever their age. Nothing is removed before you have seen what would go.</p>
    <form onSubmit=${look} onInput=${() => setPreview(null)}>
      <div class="rules">${fields.map(([name, says, unit]) => html`<label><span>${says}</span><span class="amount"><input name=${name} type="number" min=${name.startsWith("max_age") || name === "max_bytes" ? 0 : 1} step="any" inputmode="decimal" /><span class="soft">${unit}</span></span></label>`)}</div>
      ${problem && html`<p class="problem" role="alert"><b>${problem.name}</b> ${problem.message}</p>`}
      <footer><button type="button" onClick=${onClose}>Close</button><button class=${preview ? "" : "primary"} disabled=${busy}>${busy && !preview ? "Looking…" : "Preview"}</button></footer>
    </form>
    ${preview && html`<section class="outcome" aria-live="polite">
      ${nothing ? html`<p class="empty">Nothing would go.</p>` : html`<h3>What would go</h3><table><tbody>
        ${WHAT.filter(([name]) => preview.report[name]).map(([name, says, bytes]) => html`<tr><th scope="row">${says}</th><td>${number(preview.report[name])}</td><td>${size(preview.report[bytes])}</td></tr>`)}
        <tr class="total"><th scope="row">in ${count(preview.report.threads + preview.report.expired, "thread")}</th><td></td><td>${size(preview.report.bytes)}</td></tr></tbody></table>`}
      ${preview.report.over_limit > 0 && html`<p class="soft">${count(preview.report.over_limit, "thread")} would still be larger than allowed: heads and messages stay.</p>`}
      ${preview.report.expiry_skipped && html`<p class="soft">The server's clock went forward by itself, so nothing expires this time.</p>`}
      ${!nothing && (me.scope !== "write" ? html`<p class="soft">Your token may only read, so nothing can be removed here.</p>` : sure ? html`<p class="problem" role="alertdialog" aria-label="Remove?">This can't be taken back. <button class="danger" disabled=${busy} onClick=${apply}>${busy ? "Removing…" : "Remove it"}</button> <button onClick=${() => setSure(false)}>Keep it</button></p>` : html`<p><button class="dangerous" onClick=${() => setSure(true)}>Remove this…</button></p>`)}
    </section>`}
  <//>`;
}

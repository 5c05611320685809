// Checkpoints as a graph of branches, newest first, like a good git log.
import { html, useMemo } from "./vendor/htm-preact.js";
import { ago, count, moment, size } from "./format.js";
import { Rows } from "./rows.js";

const ROW = 46;
const LANE = 14;
const MOST = 10;

// Give each checkpoint a lane, as `git log --graph` does: a child stays in the lane of its first parent.
export function lanes(checkpoints) {
  const open = [];
  const rows = checkpoints.map((checkpoint) => {
    let lane = open.indexOf(checkpoint.checkpoint_id);
    const wanted = lane >= 0;
    if (!wanted) lane = open.includes(null) ? open.indexOf(null) : open.length;
    const before = [...open];
    // Other children of this checkpoint end here.
    const joined = open.flatMap((each, at) => (each === checkpoint.checkpoint_id && at !== lane ? [at] : []));
    for (const at of joined) open[at] = null;
    open[lane] = checkpoint.parent_id;
    while (open.length && open.at(-1) === null) open.pop();
    return { checkpoint, lane, joined, before, after: [...open] };
  });
  return { rows, width: Math.min(MOST, Math.max(1, ...rows.map((row) => Math.max(row.lane + 1, row.after.length)))) };
}

const x = (lane) => LANE / 2 + 2 + Math.min(lane, MOST - 1) * LANE;
const curve = (from, to, top, bottom) => (from === to ? `M${from} ${top}V${bottom}` : `M${from} ${top}C${from} ${(top + bottom) / 2} ${to} ${(top + bottom) / 2} ${to} ${bottom}`);

export function Timeline({ ready, checkpoints, total, head, chosen, compared, onChoose, onCompare, onEnd }) {
  const { rows, width } = useMemo(() => lanes(checkpoints), [checkpoints]);
  const kept = useMemo(() => checkpoints.findIndex((each) => each.checkpoint_id === chosen), [checkpoints.length > 0, chosen]);
  const row = (at, style) => {
    const { checkpoint: each, lane, joined, before, after } = rows[at];
    const id = each.checkpoint_id;
    return html`<li key=${id} data-at=${at} style=${style} aria-setsize=${total} aria-posinset=${at + 1} class=${id === chosen ? "chosen" : id === compared ? "compared" : ""}>
      <svg width=${width * LANE + 6} height=${ROW} aria-hidden="true">
        ${before.map((wanted, from) => wanted && html`<path d=${curve(x(from), x(wanted === id ? lane : from), 0, wanted === id ? ROW / 2 : ROW)} class=${`lane${from % 6}`} />`)}
        ${after[lane] && html`<path d=${curve(x(lane), x(lane), ROW / 2, ROW)} class=${`lane${lane % 6}`} />`}
        ${joined.length > 0 && html`<circle cx=${x(lane)} cy=${ROW / 2} r="7" class=${`ring lane${lane % 6}`} />`}
        <circle cx=${x(lane)} cy=${ROW / 2} r="4.5" class=${`dot lane${lane % 6}`} />
      </svg>
      <button class="checkpoint" aria-pressed=${id === chosen} onClick=${(event) => (event.shiftKey ? onCompare : onChoose)(id)}>
        <span class="what"><b>${each.node_name ?? `#${each.sequence}`}</b>${each.step != null && html`<span class="soft">step ${each.step}</span>`}${id === head && html`<span class="badge head">head</span>`}${id === compared && html`<span class="badge">compared</span>`}</span>
        <span class="when soft"><time datetime=${each.updated_at} title=${moment(each.updated_at)}>${ago(each.updated_at)}</time>${each.created_at !== each.updated_at && html`<span title=${`First saved ${moment(each.created_at)}`}>replaced</span>`}<span>${size(each.size ?? 0)}</span>${each.run_id && html`<span class="by" title=${`Written by the run ${each.run_id}`}>${each.run_id}</span>`}</span>
      </button>
    </li>`;
  };
  if (!ready) return html`<p class="empty" role="status">Loading…</p>`;
  if (!checkpoints.length) return html`<p class="empty">No checkpoints yet.</p>`;
  return html`<${Rows} name="timeline" count=${checkpoints.length} height=${ROW} row=${row} keep=${kept} onEnd=${onEnd} label=${`${count(total, "checkpoint")}, newest first`} />`;
}

// Go through the history with a slider. Left is older.
export function Slider({ checkpoints, total, chosen, onChoose }) {
  const at = checkpoints.findIndex((each) => each.checkpoint_id === chosen);
  const last = checkpoints.length - 1;
  if (last < 1) return null;
  const choose = (place) => checkpoints[place] && onChoose(checkpoints[place].checkpoint_id);
  return html`<div class="slider">
    <button class="quiet" aria-label="Older checkpoint" disabled=${at >= last} onClick=${() => choose(at + 1)}>◂</button>
    <input type="range" min="0" max=${last} aria-label="Go through the history" aria-valuetext=${`checkpoint ${total - Math.max(0, at)} of ${total}`} value=${last - Math.max(0, at)} onInput=${(event) => choose(last - event.target.value)} />
    <button class="quiet" aria-label="Newer checkpoint" disabled=${at <= 0} onClick=${() => choose(at - 1)}>▸</button>
    <output>${total - Math.max(0, at)} / ${total}</output>
  </div>`;
}

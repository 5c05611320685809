// The checkpoints of a thread as a graph of branches, newest first.
import { html } from "./vendor/htm-preact.js";
import { ago, moment, size } from "./format.js";

const ROW = 44;
const LANE = 14;

// Give each checkpoint a lane, as `git log --graph` does: a child stays in the lane of its first parent.
export function lanes(checkpoints) {
  const open = [];
  const rows = checkpoints.map((checkpoint) => {
    let lane = open.indexOf(checkpoint.checkpoint_id);
    if (lane < 0) lane = open.includes(null) ? open.indexOf(null) : open.length;
    // Other children of this checkpoint end here.
    const joined = open.flatMap((wanted, at) => (wanted === checkpoint.checkpoint_id && at !== lane ? [at] : []));
    const before = [...open];
    for (const at of joined) open[at] = null;
    open[lane] = checkpoint.parent_id;
    return { checkpoint, lane, joined, before, after: [...open] };
  });
  return { rows, width: Math.max(1, ...rows.map((row) => row.after.length)) };
}

export function Timeline({ checkpoints, head, chosen, compared, onChoose, onCompare }) {
  const { rows, width } = lanes(checkpoints);
  const x = (lane) => LANE / 2 + lane * LANE;
  return html`<ol class="timeline" aria-label="Checkpoints, newest first">
    ${rows.map(({ checkpoint: each, lane, joined, before, after }) => html`<li key=${each.checkpoint_id} class=${each.checkpoint_id === chosen ? "chosen" : each.checkpoint_id === compared ? "compared" : ""}>
      <svg width=${width * LANE} height=${ROW} aria-hidden="true">
        ${before.map((wanted, at) => wanted && html`<path d=${`M${x(at)} 0 L${x(wanted === each.checkpoint_id ? lane : at)} ${ROW / 2}`} class=${`lane${at % 6}`} />`)}
        ${after.map((wanted, at) => wanted && html`<path d=${`M${x(at)} ${ROW / 2} L${x(at)} ${ROW}`} class=${`lane${at % 6}`} />`)}
        ${joined.length > 0 && html`<circle cx=${x(lane)} cy=${ROW / 2} r="6.5" class=${`ring lane${lane % 6}`} />`}
        <circle cx=${x(lane)} cy=${ROW / 2} r="4" class=${`dot lane${lane % 6}`} />
      </svg>
      <button class="checkpoint" aria-pressed=${each.checkpoint_id === chosen} onClick=${(event) => (event.shiftKey ? onCompare : onChoose)(each.checkpoint_id)} title="Shift-click to compare">
        <span><b>${each.node_name ?? `#${each.sequence}`}</b>${each.step != null && html` <small>step ${each.step}</small>`}${each.checkpoint_id === head && html` <span class="badge">head</span>`}</span>
        <small><time datetime=${each.timestamp} title=${moment(each.timestamp)}>${ago(each.timestamp)}</time> · ${size(each.size ?? 0)}</small>
      </button>
    </li>`)}
  </ol>`;
}

// A chart of what was added on each day. Days without anything are gaps.
import { html, useState } from "./vendor/htm-preact.js";
import { day, number, size } from "./format.js";

const DAY = 86_400_000;
const SHOWN = 60;
const KINDS = [["messages", "Messages", number], ["checkpoints", "Checkpoints", number], ["bytes", "Size", size]];
const HEIGHT = 140;

// The last days up to the newest one, with zeros for those that have no record.
export function filled(days, shown = SHOWN) {
  const known = Object.keys(days).filter((each) => /^\d{4}-\d\d-\d\d$/.test(each)).sort();
  if (!known.length) return [];
  const last = Date.parse(known.at(-1));
  const first = Math.max(Date.parse(known[0]), last - (shown - 1) * DAY);
  const made = [];
  for (let at = first; at <= last; at += DAY) {
    const name = new Date(at).toISOString().slice(0, 10);
    made.push([name, days[name] ?? {}]);
  }
  return made;
}

// A round number at or above `most`, for the axis.
function ceiling(most) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(1, most)));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((each) => each * unit).find((each) => each >= most);
}

export function Growth({ days }) {
  const [chosen, setChosen] = useState(KINDS[0][0]);
  const shown = filled(days);
  const [, name, written] = KINDS.find(([kind]) => kind === chosen);
  const values = shown.map(([, totals]) => totals[chosen] ?? 0);
  const most = Math.max(0, ...values);
  const top = ceiling(most);
  const slot = 100 / Math.max(1, shown.length);
  return html`<section class="card growth" aria-labelledby="growth">
    <header><h2 id="growth">Growth by day</h2><div class="switch" role="group" aria-label="What to show">${KINDS.map(([kind, says]) => html`<button aria-pressed=${kind === chosen} onClick=${() => setChosen(kind)}>${says}</button>`)}</div></header>
    ${shown.length === 0 ? html`<p class="empty">Nothing was saved yet.</p>` : html`<div class="chart">
      <div class="axis" aria-hidden="true"><span>${written(top)}</span><span>${written(top / 2)}</span><span>${written(0)}</span></div>
      <svg viewBox="0 0 100 ${HEIGHT}" preserveAspectRatio="none" height=${HEIGHT} role="img" aria-label=${`${name} by day, ${shown[0][0]} to ${shown.at(-1)[0]}. The most on one day: ${written(most)}.`}>
        ${[0.5, HEIGHT / 2, HEIGHT - 0.5].map((y) => html`<line x1="0" x2="100" y1=${y} y2=${y} />`)}
        ${values.map((value, at) => html`<g><rect class="slot" x=${at * slot} y="0" width=${slot} height=${HEIGHT}><title>${shown[at][0]}: ${written(value)}</title></rect>${value > 0 && html`<rect class="column" x=${at * slot + slot * 0.12} width=${slot * 0.76} y=${HEIGHT - Math.max(2, (HEIGHT * value) / top)} height=${Math.max(2, (HEIGHT * value) / top)} />`}</g>`)}
      </svg>
      <div class="dates" aria-hidden="true"><span>${day(shown[0][0])}</span>${shown.length > 1 && html`<span>${day(shown.at(-1)[0])}</span>`}</div>
    </div>`}
  </section>`;
}

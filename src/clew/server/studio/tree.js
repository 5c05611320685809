// A state as a tree: folded below the second level, with types, and long lists in pieces.
import { html, useState } from "./vendor/htm-preact.js";
import { kind, members, preview, scalar } from "./format.js";

const PIECE = 100;
const LONG = 400;

export function Tree({ value, needle }) {
  return html`<div class="tree" role="tree"><${Node} label=${null} value=${value} path="" depth=${0} needle=${needle} /></div>`;
}

function Node({ label, value, path, depth, needle }) {
  const parts = members(value);
  const [open, setOpen] = useState(depth < 2);
  const [shown, setShown] = useState(PIECE);
  const type = kind(value);
  const name = label === null ? null : html`<button class="key" title=${`Copy the path ${path}`} onClick=${() => navigator.clipboard?.writeText(path)}>${label}</button>`;
  if (!parts) return html`<div class="leaf" role="treeitem">${name}<${Scalar} value=${value} needle=${needle} /><span class="type">${type}</span></div>`;
  const expanded = open || (needle && JSON.stringify(value).toLowerCase().includes(needle));
  return html`<div role="treeitem" aria-expanded=${expanded}>
    <div class="leaf">
      <button class="fold" aria-label=${expanded ? "Fold" : "Unfold"} onClick=${() => setOpen(!expanded)}>${expanded ? "▾" : "▸"}</button>
      ${name}<span class="preview">${preview(value)}</span><span class="type">${type}</span>
    </div>
    ${expanded && html`<div class="inside" role="group">
      ${parts.slice(0, shown).map(([key, item]) => html`<${Node} key=${key} label=${key} value=${item} path=${Array.isArray(value) ? `${path}[${key}]` : path ? `${path}.${key}` : key} depth=${depth + 1} needle=${needle} />`)}
      ${parts.length > shown && html`<button class="more" onClick=${() => setShown(shown + 10 * PIECE)}>${parts.length - shown} more</button>`}
    </div>`}
  </div>`;
}

function Scalar({ value, needle }) {
  const [whole, setWhole] = useState(false);
  const text = scalar(value);
  const cut = !whole && text.length > LONG;
  const found = needle && text.toLowerCase().includes(needle);
  return html`<span class=${`value ${kind(value)} ${found ? "found" : ""}`}>${cut ? text.slice(0, LONG) : text}${cut && html`<button class="more" onClick=${() => setWhole(true)}>… ${text.length - LONG} more</button>`}</span>`;
}

export function Changes({ changes }) {
  if (!changes.length) return html`<p class="empty">The two states are equal.</p>`;
  return html`<ul class="changes">
    ${changes.map((each) => html`<li class=${each.kind}>
      <code class="place">${each.place}</code> <span class="type">${each.kind}</span>
      <${Change} change=${each} />
    </li>`)}
  </ul>`;
}

function Change({ change }) {
  const { before, after } = change;
  if (change.kind === "changed" && typeof before === "string" && typeof after === "string") return html`<${TextDifference} before=${before} after=${after} />`;
  return html`<div class="sides">
    ${change.kind !== "added" && html`<div class="side gone"><${Tree} value=${before} /></div>`}
    ${change.kind !== "removed" && html`<div class="side come"><${Tree} value=${after} /></div>`}
  </div>`;
}

// The common beginning and end of two texts stay; what lies between them differs.
function TextDifference({ before, after }) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) end++;
  const context = (text) => (text.length > 80 ? `…${text.slice(-80)}` : text);
  const rest = before.slice(before.length - end);
  return html`<p class="text-difference">${context(before.slice(0, start))}<del>${before.slice(start, before.length - end)}</del><ins>${after.slice(start, after.length - end)}</ins>${rest.length > 80 ? `${rest.slice(0, 80)}…` : rest}</p>`;
}

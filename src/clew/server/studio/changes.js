// Differences of two states as a tree: added, removed, changed, and words inside texts.
import { html, useState } from "./vendor/htm-preact.js";
import { copy } from "./dialog.js";
import { count, kind, members, scalar, spelled } from "./format.js";
import { wordChanges } from "./words.js";
import { Tree } from "./tree.js";

const SIGNS = { added: "+", removed: "−", changed: "~" };
const PIECE = 200;
const CONTEXT = 60;

export function Changes({ changes }) {
  const [shown, setShown] = useState(PIECE);
  if (!changes.length) return html`<p class="empty">The two states are equal.</p>`;
  const kinds = ["added", "changed", "removed"].map((each) => [each, changes.filter((change) => change.kind === each).length]).filter(([, many]) => many);
  return html`<p class="summary">${kinds.map(([each, many]) => html`<span class=${`chip ${each}`}>${many} ${each}</span>`)}</p>
    <ul class="changes"><${Branch} node=${nested(changes.slice(0, shown))} path=${[]} /></ul>
    ${changes.length > shown && html`<button class="more" onClick=${() => setShown(shown + 5 * PIECE)}>${count(changes.length - shown, "more change")}</button>`}`;
}

// Put changes under the keys that lead to them.
function nested(changes) {
  const root = { children: new Map(), changes: [] };
  for (const change of changes) {
    let node = root;
    for (const part of change.path) {
      const key = JSON.stringify(part);
      if (!node.children.has(key)) node.children.set(key, { part, children: new Map(), changes: [] });
      node = node.children.get(key);
    }
    node.changes.push(change);
  }
  return root;
}

function Branch({ node, path }) {
  return html`${node.changes.map((change) => html`<${Change} change=${change} path=${path} />`)}
    ${[...node.children.values()].map((child) => html`<${Below} child=${child} />`)}`;
}

function Below({ child }) {
  const [open, setOpen] = useState(true);
  // A key with one child shares its line.
  const path = [partOf(child.part)];
  let node = child;
  while (!node.changes.length && node.children.size === 1) {
    node = [...node.children.values()][0];
    path.push(partOf(node.part));
  }
  if (!node.children.size) return html`<${Branch} node=${node} path=${path} />`;
  return html`<li class="below"><div class="leaf"><button class="fold" aria-expanded=${open} aria-label=${`Changes in ${spelled(path)}`} onClick=${() => setOpen(!open)}></button><code class="place">${spelled(path)}</code></div>
    ${open && html`<ul><${Branch} node=${node} path=${path} /></ul>`}</li>`;
}

const partOf = (part) => (part !== null && typeof part === "object" ? { shown: scalar(part) } : part);

function Change({ change, path }) {
  const name = path.length && change.count > 1 && typeof path.at(-1) === "number" ? `${path.length > 1 ? spelled(path.slice(0, -1)) : ""}[${path.at(-1)}..${path.at(-1) + change.count - 1}]` : spelled(path);
  return html`<li class=${`change ${change.kind}`}>
    <div class="leaf"><span class="sign" aria-hidden="true">${SIGNS[change.kind]}</span><button class="key place" title=${`Copy the path ${change.place}`} onClick=${() => copy(change.place, change.place)}>${name}</button><span class="type">${change.kind}</span></div>
    <${Sides} change=${change} />
  </li>`;
}

function Sides({ change }) {
  const { before, after } = change;
  if (change.kind === "changed" && typeof before === "string" && typeof after === "string") return html`<${Words} before=${before} after=${after} />`;
  if (change.kind === "changed" && !members(before) && !members(after)) return html`<p class="words"><del>${short(before)}</del> <ins>${short(after)}</ins>${kind(before) !== kind(after) && html` <span class="type">${kind(before)} → ${kind(after)}</span>`}</p>`;
  return html`${change.kind !== "added" && html`<div class="side gone"><${Tree} value=${before} /></div>`}${change.kind !== "removed" && html`<div class="side come"><${Tree} value=${after} /></div>`}`;
}

const short = (value) => {
  const text = scalar(value);
  return text.length > 400 ? `${text.slice(0, 400)}…` : text;
};

// Equal parts are cut to what stands next to a change.
function Words({ before, after }) {
  const parts = wordChanges(before, after);
  return html`<p class="words">${parts.map(([sign, text], at) => {
    if (sign === "-") return html`<del>${text}</del>`;
    if (sign === "+") return html`<ins>${text}</ins>`;
    const [first, last] = [at === 0, at === parts.length - 1];
    if (text.length <= (first || last ? 1.5 : 2.5) * CONTEXT) return text;
    const gap = html`<span class="gap" title=${`${text.length} equal characters`}>…</span>`;
    return html`${!first && text.slice(0, CONTEXT)}${gap}${!last && text.slice(-CONTEXT)}`;
  })}</p>`;
}

// A state as a tree: folded below the second level, with types, long lists in pieces, and search.
import { html, useMemo, useState } from "./vendor/htm-preact.js";
import { copy } from "./dialog.js";
import { kind, label, members, preview, scalar, spelled } from "./format.js";

const PIECE = 100;
const LONG = 400;
const MOST = 500;

// Find the places whose key or value contains `needle`. Containers on the way to one are `open`.
export function findIn(value, needle) {
  const found = [];
  const open = new Set();
  function look(inside, path) {
    let any = false;
    for (const [key, item] of members(inside) ?? []) {
      const here = [...path, key];
      const own = label(key).toLowerCase().includes(needle) || (!members(item) && scalar(item).toLowerCase().includes(needle));
      if (own && found.length < MOST) found.push(spelled(here));
      if (look(item, here) || own) {
        open.add(spelled(here));
        any = true;
      }
    }
    return any;
  }
  look(value, []);
  return { found, open };
}

export function Tree({ value, needle = "", search = null }) {
  return html`<ul class="tree"><${Node} name=${null} value=${value} path=${[]} needle=${needle} search=${search} /></ul>`;
}

function Node({ name, value, path, needle, search }) {
  const parts = useMemo(() => members(value), [value]);
  const [open, setOpen] = useState(null);
  const [shown, setShown] = useState(PIECE);
  const place = spelled(path);
  const key = name === null ? null : html`<button class="key" title=${`Copy the path ${place}`} onClick=${() => copy(place, place)}><${Marked} text=${label(name)} needle=${needle} /></button>`;
  const type = html`<span class="type">${kind(value)}</span>`;
  if (!parts) return html`<li class="leaf" data-place=${place}>${key}<${Scalar} value=${value} needle=${needle} />${type}</li>`;
  // During a search, only what was found is shown, unless somebody opens more.
  const searching = search !== null && needle;
  const wanted = searching && open !== true && name !== null ? search.open.has(place) : path.length < 2 && parts.length > 0;
  const expanded = open ?? wanted;
  const listed = searching && open !== true ? parts.filter(([part]) => search.open.has(spelled([...path, part]))) : parts;
  return html`<li>
    <div class="leaf" data-place=${place}>
      <button class="fold" aria-expanded=${expanded} aria-label=${`${place}, ${preview(value)}`} disabled=${!parts.length} onClick=${() => setOpen(!expanded)}></button>
      ${key}<span class="preview">${preview(value)}</span>${type}
    </div>
    ${expanded && html`<ul>
      ${listed.slice(0, shown).map(([part, item]) => html`<${Node} key=${label(part)} name=${part} value=${item} path=${[...path, part]} needle=${needle} search=${search} />`)}
      ${listed.length > shown && html`<li><button class="more" onClick=${() => setShown(shown + 10 * PIECE)}>Show ${Math.min(listed.length - shown, 10 * PIECE)} of ${listed.length - shown} more</button></li>`}
      ${listed.length < parts.length && html`<li><button class="more" onClick=${() => setOpen(true)}>${parts.length - listed.length} without a match</button></li>`}
    </ul>`}
  </li>`;
}

function Scalar({ value, needle }) {
  const [whole, setWhole] = useState(false);
  const text = scalar(value);
  const cut = !whole && text.length > LONG;
  const name = typeof value === "object" ? "special" : kind(value);
  return html`<span class=${`value ${name}`}><${Marked} text=${cut ? text.slice(0, LONG) : text} needle=${needle} />${cut && html`<button class="more" onClick=${() => setWhole(true)}>… ${(text.length - LONG).toLocaleString("en")} more characters</button>`}</span>`;
}

export function Marked({ text, needle }) {
  if (!needle) return text;
  const parts = [];
  const lower = text.toLowerCase();
  let from = 0;
  // Lower case may be longer than the text in some languages; then nothing is marked.
  for (let at = lower.length === text.length ? lower.indexOf(needle) : -1; at >= 0; at = lower.indexOf(needle, from)) {
    parts.push(text.slice(from, at), html`<mark>${text.slice(at, at + needle.length)}</mark>`);
    from = at + needle.length;
  }
  return [...parts, text.slice(from)];
}

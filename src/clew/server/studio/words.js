// The difference of two texts in words, by Myers' algorithm; and of two JSON values by path.
import { label, members, spelled } from "./format.js";

const FARTHEST = 1_500;

// Return [sign, text] pairs; the sign is "=", "-" or "+".
export function wordChanges(before, after) {
  let start = 0;
  const one = tokens(before);
  const other = tokens(after);
  while (start < one.length && start < other.length && one[start] === other[start]) start++;
  let end = 0;
  while (end < one.length - start && end < other.length - start && one[one.length - 1 - end] === other[other.length - 1 - end]) end++;
  const [a, b] = [one.slice(start, one.length - end), other.slice(start, other.length - end)];
  const inner = script(a, b) ?? [["-", a.join("")], ["+", b.join("")]];
  const merged = [];
  for (const [sign, text] of [["=", one.slice(0, start).join("")], ...inner, ["=", one.slice(one.length - end).join("")]]) {
    if (!text) continue;
    if (merged.at(-1)?.[0] === sign) merged.at(-1)[1] += text;
    else merged.push([sign, text]);
  }
  return merged;
}

const tokens = (text) => text.match(/[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu) ?? [];

// The shortest edit script, or null if the texts have too little in common.
function script(a, b) {
  const most = Math.min(FARTHEST, a.length + b.length);
  const steps = [];
  let reach = new Map([[1, 0]]);
  for (let cost = 0; cost <= most; cost++) {
    steps.push(reach);
    const next = new Map(reach);
    for (let k = -cost; k <= cost; k += 2) {
      const down = k === -cost || (k !== cost && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
      let x = down ? reach.get(k + 1) ?? 0 : (reach.get(k - 1) ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      next.set(k, x);
      if (x >= a.length && x - k >= b.length) return traced(steps, a, b);
    }
    // Each step keeps its reach: bound the memory, too.
    if (cost * steps.length > 3_000_000) return null;
    reach = next;
  }
  return null;
}

function traced(steps, a, b) {
  const found = [];
  let [x, y] = [a.length, b.length];
  for (let cost = steps.length - 1; cost >= 0; cost--) {
    const reach = steps[cost];
    const k = x - y;
    const down = k === -cost || (k !== cost && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
    const from = down ? k + 1 : k - 1;
    const [px, py] = [reach.get(from) ?? 0, (reach.get(from) ?? 0) - from];
    while (x > px && y > py && x > 0 && y > 0) {
      found.push(["=", a[--x]]);
      y--;
    }
    if (cost > 0) found.push(down ? ["+", b[--y]] : ["-", a[--x]]);
  }
  return found.reverse();
}

// What changed between two values as the API writes them. List elements are compared by their index.
export function valueChanges(before, after, path = []) {
  const change = (kind) => [{ path, place: spelled(path), kind, before, after, count: null }];
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  const [one, other] = [members(before), members(after)];
  const alike = one && other && Array.isArray(before) === Array.isArray(after) && before.$type === after.$type && before.class === after.class;
  if (!alike || (one.length === 0) !== (other.length === 0)) return change("changed");
  const old = new Map(one.map(([key, item]) => [label(key), [key, item]]));
  const found = [];
  for (const [key, item] of other) {
    const match = old.get(label(key));
    old.delete(label(key));
    const here = [...path, key];
    if (match) found.push(...valueChanges(match[1], item, here));
    else found.push({ path: here, place: spelled(here), kind: "added", before: null, after: item, count: null });
  }
  for (const [key, item] of old.values()) found.push({ path: [...path, key], place: spelled([...path, key]), kind: "removed", before: item, after: null, count: null });
  return found;
}

// A list of any length that draws only the rows in sight. All rows have the same height.
import { html, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";

const SPARE = 8;

// `row(at)` draws a row. `keep` is a row to scroll to when it changes. `onEnd` is called near the end.
export function Rows({ count, height, row, label, keep = null, onEnd, onScroll, name = "" }) {
  const box = useRef(null);
  const [[from, to], setRange] = useState([0, 40]);
  const measure = () => {
    const { scrollTop, clientHeight } = box.current;
    const first = Math.max(0, Math.floor(scrollTop / height) - SPARE);
    const last = Math.ceil((scrollTop + clientHeight) / height) + SPARE;
    setRange((before) => (before[0] === first && before[1] === last ? before : [first, last]));
    if (last >= count - SPARE) onEnd?.();
    onScroll?.(scrollTop);
  };
  useLayoutEffect(() => {
    measure();
    const resized = new ResizeObserver(measure);
    resized.observe(box.current);
    return () => resized.disconnect();
  }, [count]);
  useLayoutEffect(() => {
    if (keep === null || keep < 0) return;
    show(box.current, keep, height);
  }, [keep]);
  const shown = [];
  for (let at = from; at < Math.min(to, count); at++) shown.push(row(at, { top: `${at * height}px`, height: `${height}px` }));
  return html`<div class=${`rows ${name}`} ref=${box} onScroll=${measure} data-height=${height} data-count=${count}>
    <ol aria-label=${label} style=${{ height: `${count * height}px` }}>${shown}</ol>
  </div>`;
}

function show(box, at, height) {
  const top = at * height;
  if (top < box.scrollTop) box.scrollTop = Math.max(0, top - height);
  else if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + 2 * height - box.clientHeight;
}

// Move the focus by `step` rows, also to rows that are not drawn yet.
export function moveFocus(box, step) {
  const now = document.activeElement?.closest("[data-at]");
  const inside = now && box.contains(now);
  const at = inside ? Number(now.dataset.at) + step : Math.floor(box.scrollTop / box.dataset.height);
  const wanted = Math.min(Number(box.dataset.count) - 1, Math.max(0, at));
  if (wanted < 0) return;
  show(box, wanted, Number(box.dataset.height));
  requestAnimationFrame(() => requestAnimationFrame(() => box.querySelector(`[data-at="${wanted}"] a, [data-at="${wanted}"] button`)?.focus()));
}

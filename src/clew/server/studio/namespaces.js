// The namespaces of a thread: separate lines of checkpoints, such as those of LangGraph's subgraphs.
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { api, threadPath } from "./api.js";
import { copy } from "./dialog.js";
import { ago, count } from "./format.js";

const NONE = { found: null, complete: true };

// The namespaces with their heads and counts, kept up to date by events. `found` is null until they are known.
export function useNamespaces(id, onError) {
  const [known, setKnown] = useState(NONE);
  const state = useRef({ turn: 0, busy: false, added: [] });
  async function reload() {
    const turn = ++state.current.turn;
    state.current = { turn, busy: true, added: [] };
    try {
      const { namespaces, complete } = await api("GET", threadPath(id, "/namespaces"));
      if (turn !== state.current.turn) return;
      // The answer may be older than an event that came meanwhile.
      setKnown({ found: state.current.added.reduce(counted, namespaces), complete });
    } catch (error) {
      onError(error);
    } finally {
      if (turn === state.current.turn) state.current.busy = false;
    }
  }
  useEffect(() => void reload(), [id]);
  function add(checkpoint) {
    if (state.current.busy) state.current.added.push(checkpoint);
    setKnown((before) => (before.found ? { ...before, found: counted(before.found, checkpoint) } : before));
  }
  return { ...known, reload, add };
}

// `namespaces` with a checkpoint that was saved. Only a new one has a greater sequence number than the head.
export function counted(namespaces, checkpoint) {
  const { namespace, sequence } = checkpoint;
  const before = namespaces.find((each) => each.namespace === namespace);
  if (!before) return [...namespaces, { namespace, checkpoints: 1, head: checkpoint }];
  if (sequence < before.head.sequence) return namespaces;
  const now = { namespace, checkpoints: before.checkpoints + (sequence > before.head.sequence ? 1 : 0), head: checkpoint };
  return namespaces.map((each) => (each === before ? now : each));
}

// LangGraph puts the ids of its tasks into names: their beginnings tell them apart.
export const shortened = (name) => name.replace(/\b([0-9a-f]{8})-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b/gi, "$1…");

// The main one first, then the most recently active.
export const ordered = (namespaces) => [...namespaces].sort((one, other) => (other.namespace === "") - (one.namespace === "") || other.head.sequence - one.head.sequence);

// Choose a namespace. A thread that has only the main one shows nothing.
export function Namespaces({ found, complete, chosen, onChoose }) {
  if (!found) return null;
  const copied = () => copy(chosen, "the namespace");
  const missing = chosen !== "" && !found.some((each) => each.namespace === chosen);
  if (found.length < 2 && !missing) return chosen && html`<p class="namespace">Namespace <button class="id" title="Copy the namespace" onClick=${copied}>${shortened(chosen)}</button></p>`;
  return html`<div class="namespace">
    <label for="namespace">Namespace</label>
    <select id="namespace" data-key="n" title=${chosen || "The main namespace"} value=${chosen} onChange=${(event) => onChoose(event.target.value)}>
      ${ordered(found).map((each) => html`<option key=${each.namespace} value=${each.namespace}>${described(each, complete)}</option>`)}
      ${missing && html`<option key="missing" value=${chosen}>${shortened(chosen)} · no checkpoints</option>`}
      ${!complete && html`<option key="older" disabled>Older ones are not listed</option>`}
    </select>
    ${chosen && html`<button class="quiet" aria-label="Copy the namespace" title="Copy the namespace" onClick=${copied}>Copy</button>`}
  </div>`;
}

const described = ({ namespace, checkpoints, head }, complete) => [shortened(namespace) || "Main", complete && count(checkpoints, "checkpoint"), ago(head.updated_at)].filter(Boolean).join(" · ");

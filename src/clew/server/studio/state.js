// The state at a checkpoint: as a tree, compared with another one, or in an editor.
import { html, useEffect, useLayoutEffect, useMemo, useState } from "./vendor/htm-preact.js";
import { api, threadPath } from "./api.js";
import { Changes } from "./changes.js";
import { copy } from "./dialog.js";
import { Editor } from "./editor.js";
import { moment } from "./format.js";
import { findIn, Tree } from "./tree.js";

export function State({ thread, namespace, head, at, here, compared, me, onCompare, onHead }) {
  const [loaded, setLoaded] = useState(null);
  const [problem, setProblem] = useState(null);
  const [editing, setEditing] = useState(false);
  const id = thread.thread_id;
  const wanted = compared ? `${compared.thread ?? ""} ${compared.checkpoint} ${at}` : at;
  useEffect(() => {
    let current = true;
    setProblem(null);
    setEditing(false);
    const inside = compared?.thread ?? id;
    const asked = compared ? api("GET", threadPath(inside, "/diff"), { query: { namespace, from: compared.checkpoint, to: at, to_thread: id } }) : api("GET", threadPath(id, "/state"), { query: { namespace, checkpoint_id: at } });
    asked.then((found) => current && setLoaded({ wanted, ...found }), (error) => current && setProblem(error));
    return () => (current = false);
  }, [id, wanted]);
  const ready = loaded?.wanted === wanted ? loaded : null;
  const where = here ? `${here.node_name ?? `#${here.sequence}`}${here.step == null ? "" : `, step ${here.step}`}` : "";
  const own = !compared && !editing && ready;
  const bar = html`<div class="bar"><h2 id="state">${compared ? "Differences" : editing ? "Edit the state" : "State"}</h2><span class="soft" title=${moment(here?.updated_at)}>${where}</span>
    ${own && html`<button class="quiet" onClick=${() => copy(JSON.stringify(ready.state, null, 2), "the state")}>Copy</button>`}
    ${own && me?.scope === "write" && html`<button class="quiet" data-key="e" onClick=${() => setEditing(true)}>Edit…</button>`}</div>`;
  if (problem) return html`${bar}<p class="problem" role="alert"><b>${problem.name}</b> ${problem.message}</p>${compared && html`<p class="tools"><button onClick=${() => onCompare(null)}>Show the state</button></p>`}`;
  if (compared) return html`${bar}<div class="tools"><${Against} thread=${thread} namespace=${namespace} head=${head} at=${at} here=${here} compared=${compared} onCompare=${onCompare} /><button onClick=${() => onCompare(null)}>Show the state</button></div>
    <div class="scroll" tabindex="0" role="group" aria-labelledby="state">${ready ? html`<${Changes} key=${wanted} changes=${ready.changes} />` : html`<p class="empty" role="status">Comparing…</p>`}</div>`;
  if (editing && ready) return html`${bar}<${Editor} id=${id} namespace=${namespace} at=${at} state=${ready.state} onSaved=${onHead} onClose=${() => setEditing(false)} />`;
  return html`${bar}<${Found} key=${at} ready=${ready}>
    <${Against} thread=${thread} namespace=${namespace} head=${head} at=${at} here=${here} onCompare=${onCompare} />
  <//>`;
}

// Choose what to compare with. Any other checkpoint: shift-click in the history.
function Against({ thread, namespace, head, at, here, compared, onCompare }) {
  const [source, setSource] = useState(null);
  const from = thread.forked_from?.thread_id;
  useEffect(() => {
    setSource(null);
    if (from) api("GET", threadPath(from, "/checkpoints"), { query: { namespace, limit: 1 } }).then(({ checkpoints }) => setSource(checkpoints[0]), () => {});
  }, [from, namespace]);
  const choices = [
    here?.parent_id && ["parent", here.parent_id],
    head && head !== at && ["head", head],
    source && ["source's head", source.checkpoint_id, from],
  ].filter(Boolean);
  if (!choices.length) return compared ? null : html`<span class="soft hint">Shift-click a checkpoint to compare</span>`;
  return html`${choices.map(([name, checkpoint, inside]) => (compared?.checkpoint === checkpoint ? html`<span class="soft hint">from its ${name}</span>` : html`<button data-key=${name === "parent" ? "c" : null} onClick=${() => onCompare(checkpoint, inside)}>Compare with ${name}</button>`))}`;
}

function Found({ ready, children }) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const needle = text.trim().toLowerCase();
  const search = useMemo(() => (needle && ready ? findIn(ready.state, needle) : null), [needle, ready]);
  const many = search?.found.length ?? 0;
  const at = Math.min(chosen, Math.max(0, many - 1));
  const move = (step) => many && setChosen((at + step + many) % many);
  useLayoutEffect(() => {
    for (const each of document.querySelectorAll(".leaf.current")) each.classList.remove("current");
    const place = search?.found[at];
    const leaf = place && [...document.querySelectorAll("[aria-labelledby=state] .leaf[data-place]")].find((each) => each.dataset.place === place);
    leaf?.classList.add("current");
    leaf?.scrollIntoView({ block: "nearest" });
  }, [at, search]);
  return html`<div class="tools">
      <span class="find"><input type="search" placeholder="Find in the state" aria-label="Find in the state" value=${text} onInput=${(event) => {
        setText(event.target.value);
        setChosen(0);
      }} onKeyDown=${(event) => {
        if (event.key === "Enter") move(event.shiftKey ? -1 : 1);
      }} />${needle && html`<output>${many ? `${at + 1} of ${many}` : "nothing"}</output>`}</span>
      ${children}
    </div>
    <div class="scroll" tabindex="0" role="group" aria-labelledby="state">${ready ? html`<${Tree} value=${ready.state} needle=${needle} search=${search} />` : html`<p class="empty" role="status">Loading…</p>`}</div>`;
}

// Edit a state as JSON and save it as a branch of its checkpoint. What was there stays in the history.
import { html, useMemo, useState } from "./vendor/htm-preact.js";
import { api, threadPath } from "./api.js";
import { Changes } from "./changes.js";
import { Confirm, say } from "./dialog.js";
import { count } from "./format.js";
import { valueChanges } from "./words.js";

// A value that was only shown as text can't be read back.
const onlyShown = (value) => value !== null && typeof value === "object" && (value.$type === "text" || Object.values(value).some(onlyShown));

export function Editor({ id, namespace, at, state, onSaved, onClose }) {
  const original = useMemo(() => JSON.stringify(state, null, 2), [state]);
  const [text, setText] = useState(original);
  const [asking, setAsking] = useState(null);
  const [problem, setProblem] = useState(null);
  const blocked = useMemo(() => onlyShown(state), [state]);
  function check() {
    let value;
    try {
      value = JSON.parse(text);
    } catch (error) {
      return setProblem(`This is not JSON yet: ${error.message}`);
    }
    const changes = valueChanges(state, value);
    setProblem(changes.length ? null : "Nothing was changed.");
    if (changes.length) setAsking({ value, changes });
  }
  async function save() {
    await api("POST", threadPath(id, "/checkpoints"), { query: { namespace, checkpoint_id: at }, body: { state: asking.value, node_name: "edit", metadata: { source: "studio", edited: at } } });
    say("Saved as a branch");
    setAsking(null);
    onSaved();
  }
  return html`<div class="editor">
    ${blocked ? html`<p class="problem" role="alert">This state has an object of a class that the server does not know. It can be shown, and not saved again.</p>` : html`<p class="soft">Types that JSON lacks are objects with <code>$type</code>. Saving makes a new checkpoint; this one stays.</p>`}
    <textarea aria-label="The state as JSON" spellcheck="false" value=${text} onInput=${(event) => {
      setText(event.target.value);
      setProblem(null);
    }} disabled=${blocked}></textarea>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <div class="tools"><button class="primary" disabled=${blocked || text === original} onClick=${check}>Save as a branch…</button><button onClick=${onClose}>Cancel</button></div>
    ${asking && html`<${Confirm} title="Save as a branch?" action="Save the branch" danger=${false} act=${save} onClose=${() => setAsking(null)} wide>
      <p>The ${namespace ? "namespace" : "thread"} gets a new head with ${count(asking.changes.length, "change")}. Its parent is the checkpoint that you edited.</p>
      <div class="box"><${Changes} changes=${asking.changes} /></div>
    <//>`}
  </div>`;
}

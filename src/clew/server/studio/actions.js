// Changes to a thread. They are offered to tokens that may write; the server refuses others anyway.
import { html, useState } from "./vendor/htm-preact.js";
import { api, linkTo, threadPath } from "./api.js";
import { Confirm, say } from "./dialog.js";
import { count } from "./format.js";
import { ordered } from "./namespaces.js";
import { Retention } from "./retention.js";

const STATES = 50;
const MESSAGES = 200;

export function Actions({ thread, namespace, head, at, me }) {
  const [open, setOpen] = useState(null);
  const [saved, setSaved] = useState(null);
  const id = thread.thread_id;
  const path = (rest = "") => threadPath(id, rest);
  const close = () => setOpen(null);
  const writes = me?.scope === "write";

  async function fork(form) {
    const made = await api("POST", path("/fork"), { body: { checkpoint_id: at, namespace, thread_id: form.get("id").trim() || null } });
    location.hash = linkTo(made.thread_id, { ns: namespace });
    close();
    say("This is the fork");
  }
  async function rewind() {
    await api("POST", path("/rewind"), { body: { to: at, namespace } });
    close();
    location.hash = linkTo(id, { ns: namespace });
    say(`The ${namespace ? "namespace" : "thread"} went back`);
  }
  async function describe(form) {
    const tags = form.get("tags").split(",").map((tag) => tag.trim()).filter(Boolean);
    await api("PATCH", path(), { body: { thread_name: form.get("name").trim() || null, tags } });
    close();
    say("Saved");
  }
  async function remove() {
    await api("DELETE", path());
    location.hash = "#/";
    say("Deleted");
  }
  async function save() {
    try {
      if (!(await download(thread, setSaved))) say("Exported without namespaces that rested for long");
    } catch (error) {
      say(`The export failed: ${error.message}`);
    }
    setSaved(null);
  }
  return html`<div class="actions">
    ${writes && at && html`<button data-key="f" onClick=${() => setOpen("fork")}>Fork…</button>`}
    ${writes && at && at !== head && html`<button class="primary" onClick=${() => setOpen("rewind")}>Go back to here…</button>`}
    ${writes && html`<button onClick=${() => setOpen("describe")}>Describe…</button>`}
    <button onClick=${save} disabled=${saved !== null}>${saved === null ? "Export" : `Exporting, ${saved}…`}</button>
    ${me && me.user === null && html`<button onClick=${() => setOpen("retention")}>Retention…</button>`}
    ${writes && html`<button class="dangerous" onClick=${() => setOpen("delete")}>Delete…</button>`}
    ${open === "fork" && html`<${Confirm} title="Fork from this checkpoint" action="Fork" danger=${false} act=${fork} onClose=${close}>
      <p>A new thread begins with this state and the conversation up to it.${namespace && " It has this namespace only."} This thread stays as it is.</p>
      <label>Id of the new thread <input name="id" type="text" placeholder="a new id" autocomplete="off" /></label><//>`}
    ${open === "rewind" && html`<${Confirm} title="Go back to this checkpoint?" action="Go back" danger=${false} act=${rewind} onClose=${close}>
      <p>${namespace ? "This state becomes the head of the namespace again. The conversation and other namespaces stay as they are." : "This state becomes the head again, and later messages leave the branch."} The history stays, so this can be taken back.</p><//>`}
    ${open === "describe" && html`<${Confirm} title="Describe the thread" action="Save" danger=${false} act=${describe} onClose=${close}>
      <label>Name <input name="name" type="text" defaultValue=${thread.thread_name ?? ""} autocomplete="off" /></label>
      <label>Tags, with commas between them <input name="tags" type="text" defaultValue=${thread.tags.join(", ")} autocomplete="off" /></label><//>`}
    ${open === "delete" && html`<${Confirm} title="Delete this thread?" action="Delete it" act=${remove} onClose=${close}>
      <p><b>${thread.thread_name ?? id}</b> goes with its ${count(thread.message_count, "message")} and ${count(thread.checkpoint_count, "checkpoint")}. This can't be taken back.</p><//>`}
    ${open === "retention" && html`<${Retention} thread=${thread} me=${me} onClose=${close} />`}
  </div>`;
}

// A JSON file with the description, all messages of all branches, and every checkpoint of every namespace with its
// state. Returns false if the thread is so long that the server does not list all its namespaces.
async function download(thread, progress) {
  const path = (rest) => threadPath(thread.thread_id, rest);
  const parts = [`{"thread": ${JSON.stringify(thread)}`];
  async function add(name, lists) {
    parts.push(`,\n"${name}": [`);
    let many = 0;
    for (const next of lists) {
      let position;
      do {
        const page = await next(position);
        for (const each of page[name]) parts.push(`${many++ ? "," : ""}\n${JSON.stringify(each)}`);
        progress(`${many} ${name}`);
        position = page.next;
      } while (position !== null);
    }
    parts.push("]");
  }
  const { namespaces, complete } = await api("GET", path("/namespaces"));
  await add("messages", [(after) => api("GET", path("/messages"), { query: { branches: "all", limit: MESSAGES, after } })]);
  await add("checkpoints", ordered(namespaces).map(({ namespace }) => (before) => api("GET", path("/history"), { query: { namespace, limit: STATES, before } })));
  parts.push("}\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts, { type: "application/json" }));
  link.download = `${thread.thread_id.replace(/[^\w.-]+/g, "_").slice(0, 100)}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  return complete;
}

// Changes to a thread. They need a token that may write; the server refuses others.
import { html, useState } from "./vendor/htm-preact.js";
import { api, threadPath } from "./api.js";
import { linkTo } from "./threads.js";

export function Actions({ thread, at, onError }) {
  const [asking, setAsking] = useState(false);
  const path = (rest = "") => threadPath(thread.thread_id, rest);
  const tried = (work) => () => work().catch(onError);

  const fork = tried(async () => {
    const made = await api("POST", path("/fork"), { body: { checkpoint_id: at } });
    location.hash = linkTo(made.thread_id);
  });
  const rewind = tried(async () => {
    await api("POST", path("/rewind"), { body: { to: at } });
    location.hash = linkTo(thread.thread_id);
  });
  const save = tried(async () => {
    const states = await api("GET", path("/history"), { query: { limit: 200 } });
    const content = JSON.stringify({ thread, checkpoints: states.checkpoints }, null, 2);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([content], { type: "application/json" }));
    link.download = `${thread.thread_id.replace(/[^\w.-]+/g, "_")}.json`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
  const describe = tried(async () => {
    const name = prompt("The thread's name", thread.thread_name ?? "");
    if (name !== null) await api("PATCH", path(), { body: { thread_name: name || null } });
  });
  const remove = tried(async () => {
    await api("DELETE", path());
    location.hash = "#/";
  });
  if (asking) return html`<p class="actions" role="alertdialog" aria-label="Delete?">Delete this thread with its ${thread.message_count} messages and ${thread.checkpoint_count} checkpoints? <button class="danger" onClick=${remove}>Delete it</button> <button onClick=${() => setAsking(false)}>Keep it</button></p>`;
  return html`<p class="actions">
    ${at && html`<button onClick=${fork}>Fork from here</button>`}
    ${at && at !== thread.head?.checkpoint_id && html`<button onClick=${rewind}>Go back to here</button>`}
    <button onClick=${describe}>Rename</button>
    <button onClick=${save}>Export</button>
    <button onClick=${() => setAsking(true)}>Delete…</button>
  </p>`;
}

// Dialogs, and short notes at the edge of the page.
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

let said = () => {};
export const say = (text) => said(text);

export function Notes() {
  const [text, setText] = useState("");
  useEffect(() => {
    let timer;
    said = (next) => {
      setText(next);
      clearTimeout(timer);
      timer = setTimeout(() => setText(""), 3000);
    };
  }, []);
  return html`<div class="note" role="status" data-shown=${text ? "" : null}>${text}</div>`;
}

export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied ${what}`);
  } catch {
    say("The browser does not let this page copy");
  }
}

// A modal dialog. The browser keeps the focus inside, and Escape closes it.
export function Dialog({ title, onClose, children, wide = false }) {
  const box = useRef(null);
  useEffect(() => {
    box.current.showModal();
    return () => box.current?.close();
  }, []);
  return html`<dialog ref=${box} class=${wide ? "wide" : ""} aria-labelledby="dialog-title" onCancel=${(event) => {
    event.preventDefault();
    onClose();
  }} onClick=${(event) => event.target === box.current && onClose()}>
    <div class="inner"><header><h2 id="dialog-title">${title}</h2><button class="quiet" aria-label="Close" onClick=${onClose}>✕</button></header>${children}</div>
  </dialog>`;
}

// Ask before something happens that can't be taken back. `act` may fail: then the dialog says why.
export function Confirm({ title, action, danger = true, act, onClose, wide, children }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  async function go(event) {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await act(new FormData(event.target));
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  }
  return html`<${Dialog} title=${title} onClose=${onClose} wide=${wide}><form onSubmit=${go}>
    ${children}
    ${error && html`<p class="problem" role="alert"><b>${error.name}</b> ${error.message}</p>`}
    <footer><button type="button" onClick=${onClose}>Cancel</button><button class=${danger ? "danger" : "primary"} disabled=${busy}>${busy ? "One moment…" : action}</button></footer>
  </form><//>`;
}

// Keyboard navigation, and the overlay that explains it.
import { html, useEffect } from "./vendor/htm-preact.js";
import { Dialog } from "./dialog.js";
import { moveFocus } from "./rows.js";

const KEYS = [
  ["/", "Search threads, or find in the state"],
  ["j  k", "Next and previous row"],
  ["Enter", "Open the row"],
  ["[  ]", "Older and newer checkpoint"],
  ["n", "Choose the namespace"],
  ["c", "Compare with the parent"],
  ["Shift-click", "Compare with that checkpoint"],
  ["e", "Edit the state"],
  ["f", "Fork from the checkpoint"],
  ["g  then  t", "Threads"],
  ["g  then  s", "The store"],
  ["Esc", "Close, or go back to the threads"],
  ["?", "This help"],
];

export function useKeys(onHelp) {
  useEffect(() => {
    let before = "";
    const press = (selector) => document.querySelector(selector)?.click();
    const actions = {
      "/": () => document.querySelector("main input[type=search]")?.focus(),
      j: () => move(1),
      k: () => move(-1),
      "[": () => press("[aria-label='Older checkpoint']"),
      "]": () => press("[aria-label='Newer checkpoint']"),
      n: () => document.querySelector("[data-key=n]")?.focus(),
      c: () => press("[data-key=c]"),
      e: () => press("[data-key=e]"),
      f: () => press("[data-key=f]"),
      "?": onHelp,
      Escape: () => location.hash.startsWith("#/thread/") && (location.hash = "#/"),
    };
    function move(step) {
      const box = document.querySelector("main .rows");
      if (box) moveFocus(box, step);
    }
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (event.target.matches("input:not([type=range]), textarea, select")) {
        if (event.key === "Escape") event.target.blur();
        return;
      }
      if (before === "g" && (event.key === "t" || event.key === "s")) location.hash = event.key === "t" ? "#/" : "#/store";
      else if (actions[event.key]) {
        event.preventDefault();
        actions[event.key]();
      }
      before = event.key;
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

export const Help = ({ onClose }) => html`<${Dialog} title="Keys" onClose=${onClose}><dl class="keys">
  ${KEYS.map(([keys, what]) => html`<div><dt>${keys.split("  ").map((key) => (key === "then" ? html`<span class="soft">then</span>` : html`<kbd>${key}</kbd>`))}</dt><dd>${what}</dd></div>`)}
</dl><//>`;

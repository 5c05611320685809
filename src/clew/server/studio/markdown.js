// A safe part of Markdown. It makes elements, never HTML from text, and only http and mailto links.
import { html } from "./vendor/htm-preact.js";

const MARKS = /(`[^`\n]+`|\*\*[^*\n]+\*\*|__[^_\n]+__|(?<![\w*])\*[^*\s](?:[^*\n]*[^*\s])?\*(?![\w*])|\[[^\]\n]+\]\([^)\s]+\)|https?:\/\/[^\s<>()"']+[^\s<>()"'.,;:!?])/;
const ITEM = /^\s*(?:[-*+]|\d+[.)])\s+/;

export function Markdown({ text }) {
  return text.split(/^(?:```|~~~)[^\n]*\n([\s\S]*?)^(?:```|~~~)\s*$/m).map((part, at) => (at % 2 ? html`<pre><code>${part}</code></pre>` : blocks(part)));
}

function blocks(text) {
  const made = [];
  let paragraph = [];
  const flush = () => {
    if (paragraph.length) made.push(html`<p>${spans(paragraph.join("\n"))}</p>`);
    paragraph = [];
  };
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at];
    const heading = line.match(/^(#{1,6})\s+(.*)$/);
    const take = (test) => {
      flush();
      const taken = [];
      while (at < lines.length && test(lines[at])) taken.push(lines[at++]);
      at--;
      return taken;
    };
    if (!line.trim()) flush();
    else if (heading) {
      flush();
      made.push(html`<p class=${`heading h${heading[1].length}`}>${spans(heading[2])}</p>`);
    } else if (/^\s*([-*_])\s*(\1\s*){2,}$/.test(line)) {
      flush();
      made.push(html`<hr />`);
    } else if (ITEM.test(line)) {
      const ordered = /^\s*\d/.test(line);
      const items = [];
      for (const each of take((next) => ITEM.test(next) || (/^\s{2,}\S/.test(next) && !/^\s*$/.test(next)))) {
        if (ITEM.test(each)) items.push(each.replace(ITEM, ""));
        else items[items.length - 1] += `\n${each.trim()}`;
      }
      const drawn = items.map((item) => html`<li>${spans(item)}</li>`);
      made.push(ordered ? html`<ol start=${parseInt(line, 10)}>${drawn}</ol>` : html`<ul>${drawn}</ul>`);
    } else if (/^\s*>/.test(line)) made.push(html`<blockquote>${blocks(take((next) => /^\s*>/.test(next)).map((each) => each.replace(/^\s*> ?/, "")).join("\n"))}</blockquote>`);
    else if (/^\s*\|.*\|\s*$/.test(line) && /^\s*\|[\s:|-]+\|\s*$/.test(lines[at + 1] ?? "")) {
      const [head, , ...rows] = take((next) => /^\s*\|.*\|\s*$/.test(next)).map((each) => each.trim().slice(1, -1).split("|").map((cell) => cell.trim()));
      made.push(html`<table><thead><tr>${head.map((cell) => html`<th scope="col">${spans(cell)}</th>`)}</tr></thead><tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${spans(cell)}</td>`)}</tr>`)}</tbody></table>`);
    } else paragraph.push(line);
  }
  flush();
  return made;
}

function spans(text) {
  return text.split(MARKS).map((part, at) => {
    if (at % 2 === 0) return part;
    if (part[0] === "`") return html`<code>${part.slice(1, -1)}</code>`;
    if (part.startsWith("**") || part.startsWith("__")) return html`<strong>${part.slice(2, -2)}</strong>`;
    if (part[0] === "*") return html`<em>${part.slice(1, -1)}</em>`;
    const [, name, address] = part.match(/^\[([^\]]+)\]\((.+)\)$/) ?? [null, part, part];
    return /^(https?:\/\/|mailto:)/i.test(address) ? html`<a href=${address} target="_blank" rel="noopener noreferrer nofollow">${name}</a>` : part;
  });
}

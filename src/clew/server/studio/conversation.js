// A conversation as a person reads it: roles, text, tool calls with their results.
import { html } from "./vendor/htm-preact.js";
import { moment } from "./format.js";
import { Tree } from "./tree.js";

export function Conversation({ messages }) {
  if (!messages.length) return html`<p class="empty">No messages on this branch.</p>`;
  const results = new Map();
  for (const message of messages) for (const result of message.tool_results ?? []) if (result.tool_call_id) results.set(result.tool_call_id, result);
  const shown = new Set(messages.flatMap((message) => message.tool_calls.map((call) => call.id)).filter((id) => results.has(id)));
  return html`<ol class="conversation">
    ${messages.map((message) => html`<${Message} key=${message.message_id} message=${message} results=${results} shown=${shown} />`)}
  </ol>`;
}

function Message({ message, results, shown }) {
  // A result that stands under its call is not repeated.
  const own = (message.tool_results ?? []).filter((result) => !shown.has(result.tool_call_id));
  if (message.tool_results?.length && !own.length && !message.tool_calls.length) return null;
  return html`<li class=${`message ${message.role}`}>
    <header><b>${message.role}</b><time datetime=${message.created_at} title=${moment(message.created_at)}>${new Date(message.created_at).toLocaleTimeString()}</time></header>
    ${!own.length && html`<${Content} content=${message.content} />`}
    ${message.tool_calls.map((call) => html`<${Call} call=${call} result=${results.get(call.id)} />`)}
    ${own.map((result) => html`<details class="call"><summary>result of ${result.name ?? result.tool_call_id}</summary><${Result} result=${result} /></details>`)}
  </li>`;
}

function Call({ call, result }) {
  const name = call.name ?? call.function?.name ?? "tool";
  return html`<details class="call">
    <summary><code>${name}</code> ${result ? (result.is_error ? "failed" : "returned") : "has not returned"}</summary>
    <${Tree} value=${parsed(call.arguments ?? call.args ?? call.input ?? call.function?.arguments ?? {})} />
    ${result && html`<${Result} result=${result} />`}
  </details>`;
}

const Result = ({ result }) => (typeof result.content === "string" ? html`<pre>${result.content}</pre>` : html`<${Tree} value=${result.content ?? null} />`);

function parsed(text) {
  if (typeof text !== "string") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function Content({ content }) {
  if (typeof content === "string") return html`<${Text} text=${content} />`;
  const blocks = Array.isArray(content) ? content : content?.value ?? [];
  return blocks.map((block) => {
    if (typeof block === "string") return html`<${Text} text=${block} />`;
    if (typeof block?.text === "string") return html`<${Text} text=${block.text} />`;
    const image = imageOf(block);
    if (image) return html`<img src=${image} alt="An image in the message" />`;
    if (["tool_use", "tool_result", "function_call"].includes(block?.type)) return null;
    return html`<details class="call"><summary>${block?.type ?? "block"}</summary><${Tree} value=${block} /></details>`;
  });
}

// Only images that are in the message itself: an address would tell another server who reads this.
function imageOf(block) {
  const source = block?.source?.data ? `data:${block.source.media_type};base64,${block.source.data}` : block?.image_url?.url ?? block?.image_url;
  return typeof source === "string" && /^data:image\/(png|jpeg|gif|webp);base64,/.test(source) ? source : null;
}

// A small and safe part of Markdown: code, headings, lists, emphasis. It makes elements, never HTML from text.
function Text({ text }) {
  return text.split(/^```[^\n]*\n([\s\S]*?)^```\s*$/m).map((part, at) => {
    if (at % 2) return html`<pre><code>${part}</code></pre>`;
    return part.split(/\n{2,}/).filter((block) => block.trim()).map((block) => {
      const heading = block.match(/^(#{1,4}) (.*)$/);
      if (heading) return html`<h4>${spans(heading[2])}</h4>`;
      const lines = block.split("\n");
      if (lines.every((line) => /^\s*([-*]|\d+\.) /.test(line))) return html`<ul>${lines.map((line) => html`<li>${spans(line.replace(/^\s*([-*]|\d+\.) /, ""))}</li>`)}</ul>`;
      return html`<p>${spans(block)}</p>`;
    });
  });
}

function spans(text) {
  return text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/).map((part) => {
    if (part.startsWith("`") && part.length > 2) return html`<code>${part.slice(1, -1)}</code>`;
    if (part.startsWith("**") && part.length > 4) return html`<strong>${part.slice(2, -2)}</strong>`;
    return part;
  });
}

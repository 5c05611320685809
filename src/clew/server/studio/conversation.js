// A conversation as a person reads it: roles, text, images, tool calls with their results.
import { html, useLayoutEffect, useMemo, useRef } from "./vendor/htm-preact.js";
import { day, hour, moment } from "./format.js";
import { Markdown } from "./markdown.js";
import { Tree } from "./tree.js";

const LONG = 20_000;

// The newest messages are at the end, and the view begins there. `onEarlier` loads what came before.
export function Conversation({ messages, onEarlier, view, wanted = null }) {
  const box = useRef(null);
  const seen = useRef({ first: null, height: 0, view: null, atEnd: true });
  useLayoutEffect(() => {
    const scroller = box.current?.closest(".scroll");
    if (!scroller || !messages.length) return undefined;
    const now = seen.current;
    if (now.view !== view) now.atEnd = true;
    // Earlier messages are put above what is read.
    else if (now.first !== messages[0].message_id && !now.atEnd) scroller.scrollTop += scroller.scrollHeight - now.height;
    Object.assign(now, { first: messages[0].message_id, view });
    const scrolled = () => (now.atEnd = scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - 40);
    // Images get their size late. Who reads the end stays there.
    const resized = new ResizeObserver(() => {
      if (now.atEnd) scroller.scrollTop = scroller.scrollHeight;
      now.height = scroller.scrollHeight;
    });
    resized.observe(box.current);
    scroller.addEventListener("scroll", scrolled, { passive: true });
    return () => {
      resized.disconnect();
      scroller.removeEventListener("scroll", scrolled);
    };
  }, [messages, view]);
  useLayoutEffect(() => {
    const found = wanted && box.current?.querySelector(".message.wanted");
    if (!found || seen.current.found === wanted) return;
    Object.assign(seen.current, { found: wanted, atEnd: false });
    found.scrollIntoView({ block: "center" });
  }, [messages, wanted]);
  const { results, shown } = useMemo(() => pairs(messages), [messages]);
  if (!messages.length) return html`<p class="empty">Nothing was said on this branch.</p>`;
  let role = null;
  let date = null;
  const drawn = [];
  for (const message of messages) {
    const own = (message.tool_results ?? []).filter((result) => !shown.has(result.tool_call_id));
    // A result that stands under its call is not repeated.
    if (message.tool_results?.length && !own.length && !message.tool_calls.length) continue;
    const today = day(message.created_at);
    if (today !== date) drawn.push(html`<li class="date" key=${`date ${today} ${message.message_id}`}><span>${today}</span></li>`);
    drawn.push(html`<${Message} key=${message.message_id} message=${message} own=${own} results=${results} wanted=${wanted} again=${message.role === role && today === date} />`);
    role = message.role;
    date = today;
  }
  return html`<div ref=${box}>
    ${onEarlier && html`<p class="earlier"><button class="quiet" onClick=${onEarlier}>Earlier messages</button></p>`}
    <ol class="conversation">${drawn}</ol>
  </div>`;
}

function pairs(messages) {
  const results = new Map();
  for (const message of messages) for (const result of message.tool_results ?? []) if (result.tool_call_id) results.set(result.tool_call_id, { ...result, message_id: message.message_id });
  const shown = new Set(messages.flatMap((message) => message.tool_calls.map((call) => call.id)).filter((id) => results.has(id)));
  return { results, shown };
}

function Message({ message, own, results, wanted, again }) {
  const known = ["user", "assistant", "system", "tool", "damaged"].includes(message.role) ? message.role : "other";
  // A search also finds what a tool returned, which stands under its call.
  const inside = message.tool_calls.find((call) => wanted && results.get(call.id)?.message_id === wanted);
  return html`<li class=${`message ${known} ${again ? "again" : ""} ${message.message_id === wanted || inside ? "wanted" : ""}`}>
    ${!again && html`<header><b>${message.role}</b><time datetime=${message.created_at} title=${moment(message.created_at)}>${hour(message.created_at)}</time></header>`}
    ${!own.length && html`<${Content} content=${message.content} />`}
    ${message.role === "damaged" && html`<p>This message can't be read: ${String(message.metadata?.damage ?? message.metadata?.problem ?? "its record is damaged")}.</p>`}
    ${message.tool_calls.map((call) => html`<${Call} call=${call} result=${results.get(call.id)} open=${call === inside} />`)}
    ${own.map((result) => html`<details class="call"><summary><span>result of <code>${result.name ?? result.tool_call_id}</code></span></summary><${Result} result=${result} /></details>`)}
  </li>`;
}

function Call({ call, result, open }) {
  const name = call.name ?? call.function?.name ?? "tool";
  const outcome = result ? (result.is_error ? "failed" : "returned") : "has not returned";
  return html`<details class=${`call ${result?.is_error ? "failed" : ""}`} open=${open}>
    <summary><code>${String(name)}</code> <span class="outcome">${outcome}</span></summary>
    <p class="caption">Arguments</p><${Tree} value=${parsed(call.arguments ?? call.args ?? call.input ?? call.function?.arguments ?? {})} />
    ${result && html`<p class="caption">Result</p><${Result} result=${result} />`}
  </details>`;
}

function Result({ result }) {
  if (typeof result.content !== "string") return Array.isArray(result.content) ? html`<${Content} content=${result.content} />` : html`<${Tree} value=${result.content ?? null} />`;
  const value = parsed(result.content);
  return typeof value === "object" && value !== null ? html`<${Tree} value=${value} />` : html`<pre>${result.content}</pre>`;
}

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
  if (!Array.isArray(blocks)) return html`<${Tree} value=${content} />`;
  return blocks.map((block) => {
    if (typeof block === "string") return html`<${Text} text=${block} />`;
    if (typeof block?.text === "string") return html`<${Text} text=${block.text} />`;
    const image = imageOf(block);
    if (image) return html`<img src=${image} alt="Image in this message" />`;
    const address = block?.image_url?.url ?? block?.image_url ?? block?.source?.url ?? (block?.type === "image" ? block.url : null);
    // Not loaded: a request would tell another server who reads this.
    if (typeof address === "string" && !address.startsWith("data:")) return html`<p class="outside">Image at <code>${address}</code>, not loaded</p>`;
    if (["tool_use", "tool_result", "function_call"].includes(block?.type)) return null;
    return html`<details class="call"><summary><span>${String(block?.type ?? "block")}</span></summary><${Tree} value=${block} /></details>`;
  });
}

function Text({ text }) {
  if (!text) return null;
  if (text.length <= LONG) return html`<${Markdown} text=${text} />`;
  return html`<${Markdown} text=${text.slice(0, LONG)} /><details class="call"><summary><span>the rest of ${text.length.toLocaleString("en")} characters</span></summary><pre>${text.slice(LONG)}</pre></details>`;
}

// An image that is in the message itself, in the form of any provider.
function imageOf(block) {
  if (block === null || typeof block !== "object") return null;
  const inline = block.inline_data ?? block.inlineData ?? block.source ?? block;
  const type = inline.media_type ?? inline.mime_type ?? inline.mimeType;
  const bytes = inline.data?.$type === "bytes" ? inline.data.value : inline.data ?? inline.base64;
  const source = typeof bytes === "string" && type ? `data:${type};base64,${bytes}` : block.image_url?.url ?? block.image_url;
  return typeof source === "string" && /^data:image\/(png|jpeg|gif|webp|avif);base64,[\w+/=-]+$/.test(source) ? source : null;
}

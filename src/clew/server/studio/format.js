// Texts for people: times, sizes, values, paths.
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const UNITS = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60]];
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const calendar = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", year: "numeric" });
const whole = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const numbers = new Intl.NumberFormat("en");

export function ago(time) {
  if (!time) return "";
  const seconds = (Date.now() - new Date(time)) / 1000;
  for (const [unit, length] of UNITS) if (seconds >= length) return relative.format(-Math.floor(seconds / length), unit);
  return "just now";
}

const formatted = (format) => (time) => {
  const moment = new Date(time ?? NaN);
  return Number.isNaN(moment.getTime()) ? "" : format.format(moment);
};
export const moment = formatted(whole);
export const hour = formatted(clock);
export const day = formatted(calendar);

export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  for (const unit of ["kB", "MB", "GB", "TB"]) {
    bytes /= 1000;
    if (bytes < 1000) return `${bytes.toFixed(bytes < 10 ? 1 : 0)} ${unit}`;
  }
  return `${Math.round(bytes)} PB`;
}

export const number = (value) => numbers.format(value);
export const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;

// The kind of a value as the API writes it, with the types that JSON lacks.
export function kind(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "list";
  if (typeof value !== "object") return { string: "text", boolean: "bool" }[typeof value] ?? "number";
  return typeof value.$type === "string" ? String(value.class ?? value.$type) : "dict";
}

// The members of a container as [key, value] pairs, or null for a scalar.
export function members(value) {
  if (value === null || typeof value !== "object") return null;
  if (Array.isArray(value)) return value.map((item, at) => [at, item]);
  if (typeof value.$type !== "string") return Object.entries(value);
  const inner = value.value;
  if (value.$type === "record") return members(inner);
  if (!Array.isArray(inner) || ["timedelta", "complex"].includes(value.$type)) return null;
  if (["dict", "ordereddict"].includes(value.$type)) return inner.map((pair) => [typeof pair[0] === "string" ? pair[0] : { shown: scalar(pair[0]) }, pair[1]]);
  return inner.map((item, at) => [at, item]);
}

export const label = (key) => (typeof key === "object" ? key.shown : String(key));

// A path as Python writes it: plan.steps[3], files['a.txt'].
export function spelled(path) {
  let text = "";
  for (const part of path) {
    if (typeof part === "string" && /^[\p{L}_][\p{L}\p{N}_]*$/u.test(part)) text += text ? `.${part}` : part;
    else text += `[${typeof part === "string" ? quoted(part) : label(part)}]`;
  }
  return text || "state";
}

// As Python's repr chooses the quotes.
function quoted(text) {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  return `${mark}${text.replaceAll("\\", "\\\\").replaceAll(mark, `\\${mark}`)}${mark}`;
}

export function scalar(value) {
  if (value === null || typeof value !== "object") return typeof value === "string" ? JSON.stringify(value) : String(value);
  if (value.$type === "timedelta") return spanOf(value.value);
  if (value.$type === "bytes") return `${count(Math.floor((String(value.value).length * 3) / 4), "byte")} ${value.value}`;
  return typeof value.$type === "string" ? (typeof value.value === "string" ? value.value : JSON.stringify(value.value)) : JSON.stringify(value);
}

function spanOf([days, seconds, micros]) {
  const two = (part) => String(part).padStart(2, "0");
  const time = `${Math.floor(seconds / 3600)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}${micros ? `.${String(micros).padStart(6, "0")}` : ""}`;
  return days ? `${count(days, "day")}, ${time}` : time;
}

const NOUNS = { list: "item", tuple: "item", deque: "item", set: "member", frozenset: "member" };

// One line about a container: how much is in it, and how it begins.
export function preview(value) {
  const parts = members(value);
  if (!parts) return scalar(value);
  if (!parts.length) return "empty";
  return count(parts.length, NOUNS[kind(value)] ?? "key");
}

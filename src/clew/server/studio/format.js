// Texts for people: times, sizes, values.
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const UNITS = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60]];

export function ago(time) {
  if (!time) return "";
  const seconds = (Date.now() - new Date(time)) / 1000;
  for (const [unit, length] of UNITS) if (seconds >= length) return relative.format(-Math.floor(seconds / length), unit);
  return "just now";
}

export const moment = (time) => (time ? new Date(time).toLocaleString() : "");

export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  for (const unit of ["kB", "MB", "GB", "TB"]) {
    bytes /= 1000;
    if (bytes < 1000) return `${bytes.toFixed(bytes < 10 ? 1 : 0)} ${unit}`;
  }
  return `${Math.round(bytes)} PB`;
}

export const count = (number, noun) => `${number.toLocaleString()} ${noun}${number === 1 ? "" : "s"}`;

// The kind of a value as the API writes it, with the types that JSON lacks.
export function kind(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "list";
  if (typeof value !== "object") return { string: "text", boolean: "bool" }[typeof value] ?? "number";
  return value.$type ? (value.class ? `${value.class}` : value.$type) : "dict";
}

// The members of a container as [label, value] pairs, or null for a scalar.
export function members(value) {
  if (value === null || typeof value !== "object") return null;
  if (Array.isArray(value)) return value.map((item, at) => [String(at), item]);
  if (!value.$type) return Object.entries(value);
  const inner = value.value;
  if (value.$type === "dict" || value.$type === "ordereddict") return inner.map(([key, item]) => [scalar(key), item]);
  if (value.$type === "record") return members(inner);
  return Array.isArray(inner) && !["timedelta", "complex"].includes(value.$type) ? inner.map((item, at) => [String(at), item]) : null;
}

export function scalar(value) {
  if (value !== null && typeof value === "object") return value.$type ? String(value.value) : JSON.stringify(value);
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}

export function preview(value) {
  const parts = members(value);
  if (!parts) return scalar(value);
  return parts.length ? `${parts.length} ${parts.length === 1 ? "item" : "items"}` : "empty";
}

// Requests to the server's API, with the caller's token.
const KEY = "clew-token";
const base = new URL(".", document.baseURI);

// A token in the fragment never reaches a server log. It is taken out of the address at once.
export function takeToken() {
  const found = location.hash.match(/^#token=([\w.-]+)/);
  if (found) {
    sessionStorage.setItem(KEY, found[1]);
    history.replaceState(null, "", "#/");
  }
}

export const setToken = (token) => sessionStorage.setItem(KEY, token);

export class ApiError extends Error {
  constructor(status, name, detail) {
    super(detail);
    this.status = status;
    this.name = name;
  }
}

const UNREACHABLE = "The server does not answer. Is it still running?";

// Send a request and return the response as it is.
export async function send(method, path, { query = {}, body, headers = {}, signal } = {}) {
  const url = new URL(`api/${path}`, base);
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) if (each != null && each !== "") url.searchParams.append(name, each);
  }
  const token = sessionStorage.getItem(KEY);
  try {
    return await fetch(url, {
      method,
      signal,
      cache: "no-store",
      headers: {
        ...(token ? { Authorization: `Bearer ${token}` } : {}),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...headers,
      },
      body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
    });
  } catch (error) {
    throw error.name === "AbortError" ? error : new ApiError(0, "Unreachable", UNREACHABLE);
  }
}

export async function failure(response) {
  const content = await response.json().catch(() => ({}));
  return new ApiError(response.status, content.error ?? "Error", content.detail ?? response.statusText);
}

export async function api(method, path, options) {
  const response = await send(method, path, options);
  if (response.status === 204) return null;
  if (!response.ok) throw await failure(response);
  return response.json();
}

export const threadPath = (id, rest = "") => `threads/${encodeURIComponent(id)}${rest}`;

const written = (query) => {
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  return given.size ? `?${given}` : "";
};
export const linkTo = (id, query = {}) => `#/thread/${encodeURIComponent(id)}${written(query)}`;
export const linkToThreads = (query = {}) => `#/${written(query)}`;

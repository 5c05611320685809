// Requests to the server's API, with the caller's token.
const KEY = "clew-token";
const base = new URL(".", document.baseURI);

// A token in the fragment never reaches a server log. It is taken out of the address at once.
export function takeToken() {
  const found = location.hash.match(/^#token=([\w-]+)/);
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

export async function api(method, path, { query = {}, body, headers = {} } = {}) {
  const url = new URL(`api/${path}`, base);
  for (const [name, value] of Object.entries(query)) if (value != null && value !== "") url.searchParams.set(name, value);
  const token = sessionStorage.getItem(KEY);
  let response;
  try {
    response = await fetch(url, {
      method,
      headers: {
        ...(token ? { Authorization: `Bearer ${token}` } : {}),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new ApiError(0, "Unreachable", "The server does not answer. Is `clew serve` still running?");
  }
  if (response.status === 204) return null;
  const content = await response.json().catch(() => ({}));
  if (!response.ok) throw new ApiError(response.status, content.error ?? "Error", content.detail ?? response.statusText);
  return content;
}

export const threadPath = (id, rest = "") => `threads/${encodeURIComponent(id)}${rest}`;

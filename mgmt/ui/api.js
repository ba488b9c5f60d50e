// Requests to the HTTP API, as the user who is logged in. Errors carry the API's own reason.

const KEY = "leveret.credentials";
const BASE = new URL("api/", document.baseURI);

export class ApiError extends Error {
  constructor(status, reason) {
    super(typeof reason === "string" ? reason : JSON.stringify(reason));
    this.status = status;
  }
}

export const session = {
  get credentials() { return sessionStorage.getItem(KEY); },
  logIn(name, password) {
    const bytes = new TextEncoder().encode(`${name}:${password}`);
    sessionStorage.setItem(KEY, btoa(String.fromCharCode(...bytes)));
  },
  logOut() { sessionStorage.removeItem(KEY); },
};

export const path = (...parts) => parts.map(encodeURIComponent).join("/");

export async function request(method, where, {query, body, raw, headers} = {}) {
  const url = new URL(where, BASE);
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of [value].flat()) if (one !== undefined && one !== "") url.searchParams.append(name, one);
  }
  const response = await fetch(url, {
    method,
    headers: {"Authorization": `Basic ${session.credentials}`, "Content-Type": "application/json", ...headers},
    body: raw ?? (body === undefined ? undefined : JSON.stringify(body)),
    cache: "no-store",
    credentials: "omit",
  });
  const text = await response.text();
  let content = null;
  try {
    content = text ? JSON.parse(text) : null;
  } catch {
    content = {reason: text};
  }
  if (!response.ok && !(response.status === 503 && content?.status)) {
    throw new ApiError(response.status, content?.reason ?? response.statusText);
  }
  return content;
}

export const get = (where, query) => request("GET", where, {query});
export const put = (where, body = {}) => request("PUT", where, {body});
export const post = (where, body = {}, query) => request("POST", where, {body, query});
export const del = (where, query, headers) => request("DELETE", where, {query, headers});

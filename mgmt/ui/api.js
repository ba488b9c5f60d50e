// Requests to the HTTP API as the logged-in user. Errors contain the API's reason.
//
// The API's address is relative to the page, so that both can be served below a path prefix.

import {inWords} from "./reasons.js";
import {session} from "./session.js";

const BASE = new URL("api/", document.baseURI);

export class ApiError extends Error {
  // status: HTTP status; 0 if there was no answer. code: the API's error code.
  // reason: as in its JSON.
  constructor(status, code, reason) {
    super(inWords(reason));
    this.status = status;
    this.code = code;
  }
}

export const path = (...parts) => parts.map(encodeURIComponent).join("/");

// query: {name: value or list of values}; empty values are omitted. raw: a body that is already
// JSON.
export async function request(method, where, {query = {}, body, raw, headers = {}} = {}) {
  const url = new URL(where, BASE);
  for (const [name, values] of Object.entries(query)) {
    for (const value of [values].flat()) {
      if (value !== undefined && value !== "") url.searchParams.append(name, value);
    }
  }
  const asked = {
    method,
    headers: {"Content-Type": "application/json", ...headers},
    body: raw ?? (body === undefined ? undefined : JSON.stringify(body)),
    cache: "no-store",
    // Prevents the browser from asking for a password after status 401.
    credentials: "omit",
  };
  if (session.credentials) asked.headers.Authorization = `Basic ${session.credentials}`;
  const response = await answered(url, asked);
  const content = contentOf(await response.text());
  // A failed health check is a valid answer, too.
  const isFailedCheck = response.status === 503 && content?.status === "failed";
  if (!response.ok && !isFailedCheck) {
    throw new ApiError(response.status, content?.error, content?.reason ?? response.statusText);
  }
  return content;
}

async function answered(url, asked) {
  try {
    return await fetch(url, asked);
  } catch (error) {
    throw new ApiError(0, "unreachable", `the node does not answer (${error.message})`);
  }
}

function contentOf(text) {
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch {
    return {reason: text};
  }
}

// Anything but JSON is a file.
export async function blob(where) {
  const headers = session.credentials ? {Authorization: `Basic ${session.credentials}`} : {};
  const response = await answered(new URL(where, BASE), {headers, credentials: "omit"});
  if (response.ok) return response.blob();
  const content = contentOf(await response.text());
  throw new ApiError(response.status, content?.error, content?.reason ?? response.statusText);
}

export const get = (where, query) => request("GET", where, {query});
export const put = (where, body = {}) => request("PUT", where, {body});
export const post = (where, body = {}) => request("POST", where, {body});
export const del = (where, query, headers) => request("DELETE", where, {query, headers});

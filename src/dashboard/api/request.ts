/** JSON requests to the node that served the page. */
import { printJson } from "../../base/index.ts";

/** Thrown if the node rejected the request; `status` is 0 if the node could not be reached. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  readonly status: number;
  /** CouchDB's error word, such as `unauthorized`. */
  readonly code: string;

  constructor(status: number, code: string, reason: string) {
    super(reason);
    this.status = status;
    this.code = code;
  }
}

/**
 * Event on the window when a request fails because the user is not logged in or the session has
 * expired.
 */
export const UNAUTHORIZED_EVENT = "tandem-unauthorized";

type Body = Readonly<Record<string, unknown>> | string;

const HEADERS = {
  Accept: "application/json",
  "Content-Type": "application/json",
  // Prevents the password prompt of the browser for a 401.
  "X-CouchDB-WWW-Authenticate": "Cookie",
} as const;

/**
 * Absolute URL of a resource. `path` has no leading slash. The dashboard is one folder below the
 * API.
 */
export function addressOf(path: string): string {
  return new URL(`../${path}`, document.baseURI).href;
}

export function withQuery(path: string, query: Readonly<Record<string, string>>): string {
  const text = new URLSearchParams(query).toString();
  return text === "" ? path : `${path}?${text}`;
}

/**
 * Encodes a name as a path segment. Throws a RequestError for `.` and `..`, which browsers resolve
 * as folders in any spelling.
 */
export function segmentOf(name: string): string {
  if (name !== "." && name !== "..") return encodeURIComponent(name);
  throw new RequestError(0, "bad_name", `Browsers cannot request a resource named ${name}`);
}

type Method = "GET" | "POST" | "PUT" | "DELETE";

interface RequestParts {
  readonly body?: Body;
  readonly signal?: AbortSignal;
}

/** Returns the JSON of a response. Throws a RequestError. */
export async function request<Answer>(
  method: Method,
  path: string,
  parts: RequestParts = {},
): Promise<Answer> {
  const { text } = await exchange(method, path, parts);
  return jsonOf(text) as Answer;
}

export interface Exchanged {
  /** Status, from 200 to 299. */
  readonly status: number;
  /** Path of the resource that the request has created; "" if none. */
  readonly location: string;
  /** Text of the body. */
  readonly text: string;
}

/** Returns status and text of a response. Throws a RequestError. */
export async function exchange(
  method: Method,
  path: string,
  { body, signal }: RequestParts = {},
): Promise<Exchanged> {
  const response = await fetch(addressOf(path), {
    method,
    headers: HEADERS,
    ...(body === undefined ? {} : { body: printJson(body) }),
    ...(signal === undefined ? {} : { signal }),
  }).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    throw new RequestError(0, "unreachable", "The server cannot be reached.");
  });
  const text = await response.text().catch(() => "");
  const location = response.headers.get("location") ?? "";
  if (response.ok) return { status: response.status, location, text };
  // A failed login (401 for `_session`) is reported only to the caller.
  const isSession = path === "_session";
  if (response.status === 401 && !isSession) window.dispatchEvent(new Event(UNAUTHORIZED_EVENT));
  const { error = "error", reason = response.statusText } = (jsonOf(text) ?? {}) as {
    error?: string;
    reason?: string;
  };
  throw new RequestError(response.status, error, reason);
}

/** Parses JSON. Returns `undefined` for any other text, such as a proxy's response. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function get<Answer>(path: string, signal?: AbortSignal): Promise<Answer> {
  return request<Answer>("GET", path, signal === undefined ? {} : { signal });
}

/** Requests to the node that the page came from, as JSON. */

/** The node refused, or could not be reached: then `status` is 0. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  readonly status: number;
  /** CouchDB's word, such as `unauthorized`. */
  readonly code: string;

  constructor(status: number, code: string, reason: string) {
    super(reason);
    this.status = status;
    this.code = code;
  }
}

/** Told to the window when the node does not know, or no longer, who asks. */
export const UNAUTHORIZED_EVENT = "tandem-unauthorized";

type Body = Readonly<Record<string, unknown>> | string;

const HEADERS = {
  Accept: "application/json",
  "Content-Type": "application/json",
  // Of a 401 with another scheme the browser would ask for a password itself.
  "X-CouchDB-WWW-Authenticate": "Cookie",
} as const;

/** The address of a resource; `path` begins without a slash. The dashboard lies one folder below the API. */
export function addressOf(path: string): string {
  return new URL(`../${path}`, document.baseURI).href;
}

export function withQuery(path: string, query: Readonly<Record<string, string>>): string {
  const text = new URLSearchParams(query).toString();
  return text === "" ? path : `${path}?${text}`;
}

/**
 * A name as a part of a path. Throws a RequestError for `.` and `..`: however they are written, a browser takes them for folders, and
 * would ask for something else.
 */
export function segmentOf(name: string): string {
  if (name !== "." && name !== "..") return encodeURIComponent(name);
  throw new RequestError(0, "bad_name", `A browser cannot ask for what is named ${name}`);
}

type Method = "GET" | "POST" | "PUT" | "DELETE";

interface RequestParts {
  readonly body?: Body;
  readonly signal?: AbortSignal;
}

/** Throws a RequestError. */
export async function request<Answer>(
  method: Method,
  path: string,
  parts: RequestParts = {},
): Promise<Answer> {
  const { text } = await exchange(method, path, parts);
  return jsonOf(text) as Answer;
}

export interface Exchanged {
  /** From 200 to 299. */
  readonly status: number;
  /** The body, to the letter. */
  readonly text: string;
}

/** Throws a RequestError. */
export async function exchange(
  method: Method,
  path: string,
  { body, signal }: RequestParts = {},
): Promise<Exchanged> {
  const response = await fetch(addressOf(path), {
    method,
    headers: HEADERS,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
  }).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    throw new RequestError(0, "unreachable", "The server cannot be reached.");
  });
  const text = await response.text().catch(() => "");
  if (response.ok) return { status: response.status, text };
  // Who asks for the session learns it from the answer.
  const isSession = path === "_session";
  if (response.status === 401 && !isSession) window.dispatchEvent(new Event(UNAUTHORIZED_EVENT));
  const { error = "error", reason = response.statusText } = (jsonOf(text) ?? {}) as {
    error?: string;
    reason?: string;
  };
  throw new RequestError(response.status, error, reason);
}

/** Undefined for what is no JSON, such as the answer of a proxy. */
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

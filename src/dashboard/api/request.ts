/** JSON requests to the node that served the page. */
import {
  ApiError,
  type Exchanged,
  type Method,
  type RequestParts,
  Requests,
} from "../../client/index.ts";

export {
  ApiError as RequestError,
  type Exchanged,
  segmentOf,
  withQuery,
} from "../../client/index.ts";

/**
 * Event on the window when a request fails because the user is not logged in or the session has
 * expired.
 */
export const UNAUTHORIZED_EVENT = "tandem-unauthorized";

/**
 * Absolute URL of a resource. `path` has no leading slash. The dashboard is one folder below the
 * API.
 */
export function addressOf(path: string): string {
  return new URL(`../${path}`, document.baseURI).href;
}

/** Requests to the node. */
export const requests = new Requests({
  root: () => addressOf(""),
  fetch: (...asked) => fetch(...asked),
  // Prevents the password prompt of the browser for a 401.
  headers: { "x-couchdb-www-authenticate": "Cookie" },
});

/** Returns the JSON of a response. Throws a RequestError. */
export async function request<Answer>(
  method: Method,
  path: string,
  parts: RequestParts = {},
): Promise<Answer> {
  const { text } = await exchange(method, path, parts);
  return jsonOf(text) as Answer;
}

/** Returns status and text of a response. Throws a RequestError. */
export async function exchange(
  method: Method,
  path: string,
  parts: RequestParts = {},
): Promise<Exchanged> {
  try {
    return await requests.exchange(method, path, parts);
  } catch (error) {
    // A failed login (401 for `_session`) is reported only to the caller.
    const isSession = path === "_session";
    if (error instanceof ApiError && error.status === 401 && !isSession) {
      window.dispatchEvent(new Event(UNAUTHORIZED_EVENT));
    }
    throw error;
  }
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
  return request<Answer>("GET", path, { signal });
}

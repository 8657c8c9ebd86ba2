/** JSON requests to the node that served the page. */
import { clientOf, type Method, type RequestParts, Requests } from "../../client/index.ts";

export { ApiError as RequestError, segmentOf, withQuery } from "../../client/index.ts";

/**
 * Event on the window when a request fails because the user is not logged in or the session has
 * expired.
 */
export const UNAUTHORIZED_EVENT = "tandem-unauthorized";

const SESSION = "_session";

/**
 * Returns the absolute URL of a resource. `path` has no leading slash. It is relative to the folder
 * that contains the dashboard's.
 */
export function addressOf(path: string): string {
  return new URL(`../${path}`, document.baseURI).href;
}

/** Requests to the node. They reject with a RequestError. */
export const requests = new Requests({
  root: () => addressOf(""),
  fetch: async (address, init) => {
    const response = await fetch(address, init);
    // A 401 of the session resource is a failed login, not an expired session.
    if (response.status === 401 && address !== addressOf(SESSION)) {
      window.dispatchEvent(new Event(UNAUTHORIZED_EVENT));
    }
    return response;
  },
  // Prevents the password prompt of the browser for a 401.
  headers: { "x-couchdb-www-authenticate": "Cookie" },
});

/** The typed operations of the API. */
export const client = clientOf(requests);

/** Sends a request to CouchDB's API, and returns the response's JSON. Throws a RequestError. */
export async function request<Answer>(
  method: Method,
  path: string,
  parts?: RequestParts,
): Promise<Answer> {
  return (await requests.askAny(method, path, parts)) as Answer;
}

export function get<Answer>(path: string, signal?: AbortSignal): Promise<Answer> {
  return request("GET", path, { signal });
}

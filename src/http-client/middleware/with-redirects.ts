/**
 * Follows redirects of a single request. Credentials are sent only to their own origin: a different
 * host, port or scheme gets the request without them (`couch_replicator_httpc` sends them to any
 * origin).
 */
import { withoutIdentity } from "../connection.ts";
import { type Fetch, type FetchRequest, isStream, RequestFailedError } from "../fetch.ts";

/** Maximum number of redirects. A longer chain is treated as a loop. CouchDB has no limit. */
const REDIRECTS_MAX = 10;
/** Headers sent only to the origin of the request, not to a different origin after a redirect. */
const CREDENTIAL_HEADERS = ["authorization", "cookie", "proxy-authorization"];

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

export interface RedirectOptions {
  /**
   * Additional headers, in lower case, that can contain a secret: those that a user set for the
   * endpoint.
   */
  readonly secretHeaders?: readonly string[];
  /** Whether a request is allowed to be repeated at another URL. Default: always. */
  readonly mayMove?: (from: URL, to: URL) => boolean;
}

/**
 * Follows redirects. A request whose body can be read only once cannot be repeated, so its redirect
 * is an error. The next such request with the same URL prefix goes directly to the new URL, until a
 * request fails there.
 */
export function withRedirects(
  fetch: Fetch,
  { secretHeaders = [], mayMove = () => true }: RedirectOptions = {},
): Fetch {
  const secrets = new Set([...CREDENTIAL_HEADERS, ...secretHeaders]);
  let move: Move | undefined;
  return async (original) => {
    if (isStream(original.body)) {
      const place = move !== undefined && placeAfter(move, original.url);
      const request = place ? moved(original, place, 307, secrets) : original;
      try {
        const response = await fetch(request);
        if (!REDIRECTS.has(response.status) || response.status === 303) return response;
        const location = parseUrl(response.headers.get("location") ?? "", request.url);
        const isAllowed = location !== undefined && mayMove(new URL(original.url), location);
        move = isAllowed ? moveOf(original.url, location) : undefined;
        response.discard();
        throw failed(original.method, original.url, move === undefined ? "BAD_REDIRECT" : "MOVED");
      } catch (error) {
        if (place) move = undefined;
        throw error;
      }
    }
    let request = original;
    for (let count = 0; ; count++) {
      const response = await fetch(request);
      const location = response.headers.get("location");
      if (!REDIRECTS.has(response.status) || location === undefined) {
        return response;
      }
      response.discard();
      const { method, url } = original;
      const next = parseUrl(location, request.url);
      if (next === undefined || !mayMove(new URL(url), next)) {
        throw failed(method, url, "BAD_REDIRECT");
      }
      if (count >= REDIRECTS_MAX) throw failed(method, url, "TOO_MANY_REDIRECTS");
      request = moved(request, next, response.status, secrets);
    }
  };
}

/** URL prefixes before and after a redirect. */
interface Move {
  readonly from: string;
  readonly to: string;
}

/** Returns the two URLs without their common suffix, which consists of whole path segments. */
function moveOf(url: string, { href }: URL): Move {
  let length = 0;
  while (length < url.length && url.at(-1 - length) === href.at(-1 - length)) length++;
  const common = url.slice(url.length - length);
  const slash = common.indexOf("/");
  const kept = slash < 0 ? 0 : common.length - slash;
  return { from: url.slice(0, url.length - kept), to: href.slice(0, href.length - kept) };
}

function placeAfter({ from, to }: Move, url: string): URL | undefined {
  return url.startsWith(from) ? parseUrl(to + url.slice(from.length), url) : undefined;
}

/**
 * Returns the request at its new URL. After a 303, it is a GET (or HEAD) of a different resource.
 * All other statuses, including 301 and 302 as in CouchDB, repeat the request.
 */
function moved(
  request: FetchRequest,
  next: URL,
  status: number,
  secrets: ReadonlySet<string>,
): FetchRequest {
  const sameOrigin = new URL(request.url).origin === next.origin;
  const { body, headers = {}, connection, ...rest } = request;
  const isOther = status === 303 && request.method !== "HEAD";
  const kept = Object.entries(headers).filter(
    ([name]) => (sameOrigin || !secrets.has(name)) && !(isOther && name === "content-type"),
  );
  // A password in the new URL comes from the server and is not used.
  next.username = "";
  next.password = "";
  next.hash = "";
  return {
    ...rest,
    url: next.href,
    headers: Object.fromEntries(kept),
    ...(connection === undefined
      ? {}
      : { connection: sameOrigin ? connection : withoutIdentity(connection) }),
    ...(isOther ? { method: "GET" as const } : {}),
    ...(body === undefined || isOther ? {} : { body }),
  };
}

function parseUrl(location: string, base: string): URL | undefined {
  try {
    const url = new URL(location, base);
    return /^https?:$/.test(url.protocol) ? url : undefined;
  } catch {
    return undefined;
  }
}

function failed(method: string, url: string, cause: string): RequestFailedError {
  const shownUrl = url.replace(/\?.*$/s, "").replace(/\/\/[^/@]*@/, "//");
  return new RequestFailedError({ method, url: shownUrl, cause });
}

/**
 * Protection against forged cross-site requests. A page of another site can make a browser send
 * requests with everything that the browser adds on its own: cookies, a Basic password, a client
 * certificate, or just its location in the network. Such a request is allowed to change data only
 * if CORS lets the site use credentials.
 */
import { ProtocolError, parseMediaType } from "../../protocol/index.ts";
import { acceptsChange, type CorsOf } from "../http/cors.ts";
import type { ApiRequest } from "../http/exchange.ts";

const READING: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);

/** Content types that a page can send to another site without a CORS preflight. */
const FORM_TYPES: ReadonlySet<string> = new Set([
  "application/x-www-form-urlencoded",
  "multipart/form-data",
  "text/plain",
]);

/**
 * Throws a ProtocolError 403 for a change requested by a page of another origin, regardless of the
 * user. Clients other than browsers send neither `Sec-Fetch-Site` nor `Origin`.
 */
export function refuseForeignPages(corsOf: CorsOf, request: ApiRequest): void {
  if (READING.has(request.method) || !isForeign(request)) return;
  if (acceptsChange(corsOf, request)) return;
  const reason =
    "A page from another origin can change data only if [cors] lists that origin and sets credentials = true.";
  throw new ProtocolError(403, "forbidden", reason);
}

/**
 * Throws a ProtocolError 415 for a POST with the content type of an HTML form, as CouchDB does. Old
 * browsers send forms of foreign pages without `Origin`.
 */
export function refuseForms({ method, headers }: ApiRequest): void {
  if (method !== "POST" || headers.get("content-length") === "0") return;
  const header = headers.get("content-type");
  if (header === undefined || !FORM_TYPES.has(parseMediaType(header).type)) return;
  throw new ProtocolError(415, "bad_content_type", "Content-Type must be application/json");
}

/**
 * Whether a page of another origin sent the request. `Sec-Fetch-Site` takes precedence, because a
 * proxy that changes the host does not affect it.
 */
function isForeign({ headers }: ApiRequest): boolean {
  const site = headers.get("sec-fetch-site");
  if (site !== undefined) return site !== "same-origin" && site !== "none";
  const page = headers.get("origin") ?? headers.get("referer");
  if (page === undefined) return false;
  // Successive proxies append to the header; the host used by the client comes first.
  const forwarded = headers.get("x-forwarded-host")?.split(",")[0]?.trim();
  return ![headers.get("host"), forwarded].some((host) => host && isPageOf(page, host));
}

/** Whether the URL or origin of a page has the given host and port. */
function isPageOf(page: string, host: string): boolean {
  const scheme = /^https?:\/\//i.exec(page)?.[0];
  if (scheme === undefined || !URL.canParse(page) || !URL.canParse(scheme + host)) return false;
  // A valid host contains only a name and a port.
  return !/[@/\\?#]/.test(host) && new URL(page).host === new URL(scheme + host).host;
}

/**
 * Against forged requests: a page of another site can make a browser send a request with the session of its user. Such a request may
 * change nothing, unless CORS lets the site in.
 */
import { ProtocolError } from "../../protocol/index.ts";
import { acceptsOrigin, type CorsOf } from "../http/cors.ts";
import type { ApiRequest, User } from "../http/exchange.ts";

const READING = new Set(["GET", "HEAD", "OPTIONS"]);

/**
 * Throws a ProtocolError 403 for a change that a page of another origin asks for with a session, or on a server where everybody is an
 * administrator. Clients that are no browsers say no origin, and send their credentials on purpose.
 */
export function refuseForeignPages(corsOf: CorsOf, request: ApiRequest, user: User): void {
  if (READING.has(request.method)) return;
  const isAmbient = user.handler === "cookie" || (user.handler === undefined && user.isAdmin);
  if (!isAmbient || !isForeign(request) || acceptsOrigin(corsOf, request)) return;
  const reason = "A page of another site may not change anything here with your session.";
  throw new ProtocolError(403, "forbidden", reason);
}

/** Newer browsers say it themselves, which also holds behind a proxy that changes the host. */
function isForeign({ headers }: ApiRequest): boolean {
  const site = headers.get("sec-fetch-site");
  if (site !== undefined) return site !== "same-origin" && site !== "none";
  const origin = headers.get("origin");
  if (origin === undefined) return false;
  const hosts = [headers.get("host"), headers.get("x-forwarded-host")];
  return !hosts.some((host) => host !== undefined && hostOf(origin) === host.toLowerCase());
}

/** With a port that is not the scheme's; undefined for an origin that is none. */
function hostOf(origin: string): string | undefined {
  return /^https?:\/\/([^/]+)$/.exec(origin.toLowerCase())?.[1];
}

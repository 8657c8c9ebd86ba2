/**
 * Cross-origin resource sharing (`chttpd_cors`). As in CouchDB, a request from a forbidden origin
 * is answered, but without the headers that would let a script read the response.
 */
import type { ApiRequest, ApiResponse } from "./exchange.ts";
import type { Headers } from "./responses.ts";

/** The section `[cors]`, overridden by `[cors:HOST]` for the requested host; read on each use. */
export interface CorsSettings {
  /** Allowed origins in lower case; `*` allows all. */
  readonly origins: readonly string[];
  readonly credentials: boolean;
  readonly methods: readonly string[];
  /** Headers that a script is allowed to send; in lower case. */
  readonly headers: readonly string[];
  /**
   * Response headers that a script is allowed to read in addition to those that are always exposed;
   * in lower case.
   */
  readonly exposedHeaders: readonly string[];
  readonly maxAgeSec: number;
}

/** The settings for a host; undefined unless `[chttpd] enable_cors` is set. */
export type CorsOf = (host: string) => CorsSettings | undefined;

export const CORS_HEADERS: readonly string[] = [
  "accept",
  "accept-language",
  "authorization",
  "content-length",
  "content-range",
  "content-type",
  "destination",
  "expires",
  "if-match",
  "last-modified",
  "origin",
  "pragma",
  "x-couch-full-commit",
  "x-couch-id",
  "x-couch-persist",
  "x-couchdb-www-authenticate",
  "x-http-method-override",
  "x-requested-with",
  "x-couchdb-vhost-path",
];

export const CORS_METHODS: readonly string[] = [
  "CONNECT",
  "COPY",
  "DELETE",
  "GET",
  "HEAD",
  "OPTIONS",
  "POST",
  "PUT",
  "TRACE",
];

export const CORS_EXPOSED_HEADERS: readonly string[] = [
  "accept-ranges",
  "etag",
  "server",
  "x-couch-request-id",
  "x-couch-update-newrev",
  "x-couchdb-body-time",
];

/** Response headers that are always exposed if present. */
const SIMPLE_HEADERS = ["cache-control", "content-language", "expires", "last-modified", "pragma"];

/** The response to a CORS preflight, or `undefined` for any other request. */
export function preflight(corsOf: CorsOf, request: ApiRequest): ApiResponse | undefined {
  if (request.method !== "OPTIONS") return undefined;
  const accepted = acceptedOrigin(corsOf, request);
  const method = request.headers.get("access-control-request-method");
  if (accepted === undefined || method === undefined) return undefined;
  const { settings, origin } = accepted;
  if (!settings.methods.includes(method)) return undefined;
  const asked = request.headers.get("access-control-request-headers") ?? "";
  const names = asked.split(",").map((name) => name.trim().toLowerCase());
  if (!names.every((name) => name === "" || settings.headers.includes(name))) return undefined;
  return {
    status: 204,
    headers: {
      ...originHeaders(settings, origin),
      "Access-Control-Max-Age": String(settings.maxAgeSec),
      "Access-Control-Allow-Methods": settings.methods.join(", "),
      "Access-Control-Allow-Headers": asked,
    },
    body: undefined,
  };
}

/** CORS headers of a response with these `headers`. */
export function corsHeaders(corsOf: CorsOf, request: ApiRequest, headers: Headers): Headers {
  const accepted = acceptedOrigin(corsOf, request);
  if (accepted === undefined) return {};
  const { settings, origin } = accepted;
  const present = Object.keys(headers).map((name) => name.toLowerCase());
  const simple = present.filter((name) => SIMPLE_HEADERS.includes(name));
  const exposed = ["content-type", ...simple, ...settings.exposedHeaders];
  return {
    ...originHeaders(settings, origin),
    "Access-Control-Expose-Headers": exposed.join(", "),
  };
}

/** Whether the request comes from a page that is allowed to send it with the user's credentials. */
export function acceptsChange(corsOf: CorsOf, request: ApiRequest): boolean {
  const settings = acceptedOrigin(corsOf, request)?.settings;
  return settings?.credentials === true && settings.methods.includes(request.method);
}

function acceptedOrigin(
  corsOf: CorsOf,
  { headers }: ApiRequest,
): { readonly settings: CorsSettings; readonly origin: string } | undefined {
  const origin = headers.get("origin");
  if (origin === undefined) return undefined;
  const settings = corsOf((headers.get("host") ?? "").replace(/:\d+$/, ""));
  if (settings === undefined) return undefined;
  const { origins } = settings;
  const isAccepted = origins.includes("*") || origins.includes(origin.toLowerCase());
  return isAccepted ? { settings, origin } : undefined;
}

function originHeaders({ credentials }: CorsSettings, origin: string): Headers {
  return {
    "Access-Control-Allow-Origin": origin,
    // Informs caches that the response depends on the origin.
    Vary: "Origin",
    ...(credentials ? { "Access-Control-Allow-Credentials": "true" } : {}),
  };
}

/**
 * `/_dashboard/`: the dashboard, a browser application. Its build provides compressed versions of
 * the files.
 */

import { serverUrl } from "../access/database-access.ts";
import type { Call } from "../http/call.ts";
import { acceptsEncoding } from "../http/compressed-responses.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { type Headers, notModified } from "../http/responses.ts";
import { PAGE } from "../http/route-facts.ts";
import { defineRoute, type Route, splitPath } from "../http/router.ts";
import type { StaticFiles } from "../http/static-files.ts";

/** Content-Security-Policy without external or inline content and without framing. */
const CONTENT_SECURITY_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
  "form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HEADERS: Headers = {
  "Content-Security-Policy": CONTENT_SECURITY_POLICY,
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
};

/** Files in this folder have a hash of their content in the name. */
const HASHED_FOLDER = "assets";
const HASHED_CACHING = "public, max-age=31536000, immutable";
const PAGE_CACHING = "no-cache";

/** Content encodings by ascending file size, with their file suffixes. */
const ENCODINGS = [
  ["br", ".br"],
  ["gzip", ".gz"],
] as const;

/** Defines the routes of the dashboard. `files`: the built dashboard, if any. */
export function dashboardRoutes(files: StaticFiles | undefined): Route[] {
  return [
    defineRoute("GET", "/_dashboard", PAGE, async (call) =>
      call.request.path.endsWith("/") ? serve(files, call) : redirect(call),
    ),
    defineRoute("GET", "/_dashboard/{file...}", PAGE, (call) => serve(files, call)),
  ];
}

/** Redirects to the path with a trailing slash, which relative URLs in a page require. */
function redirect(call: Call): ApiResponse {
  const headers = { ...HEADERS, Location: `${serverUrl(call)}/_dashboard/` };
  return { status: 301, headers, body: undefined };
}

async function serve(files: StaticFiles | undefined, { request }: Call): Promise<ApiResponse> {
  const [, ...asked] = splitPath(request.path);
  const segments = asked.length === 0 ? ["index.html"] : asked;
  const file = await files?.open(segments);
  if (files === undefined || file === undefined) {
    const body = "Not found.";
    return { status: 404, headers: { ...HEADERS, "Content-Type": "text/plain" }, body };
  }
  const found = {
    ...HEADERS,
    "Cache-Control": segments[0] === HASHED_FOLDER ? HASHED_CACHING : PAGE_CACHING,
    "Last-Modified": file.modifiedAt,
    Vary: "Accept-Encoding",
  };
  if (request.headers.get("if-modified-since") === file.modifiedAt) return notModified(found);
  const packed = await compressedFile(files, segments, request.headers.get("accept-encoding"));
  const sent = packed?.file ?? file;
  return {
    status: 200,
    headers: {
      ...found,
      "Content-Type": file.type,
      "Content-Length": String(sent.byteCount),
      ...(packed === undefined ? {} : { "Content-Encoding": packed.encoding }),
    },
    body: sent.read(),
  };
}

/** The compressed file, if it exists and the client accepts its encoding. */
async function compressedFile(
  files: StaticFiles,
  segments: readonly string[],
  accepted: string | undefined,
) {
  for (const [encoding, ending] of ENCODINGS) {
    if (!acceptsEncoding(accepted, encoding)) continue;
    const name = `${segments.at(-1)}${ending}`;
    const file = await files.open([...segments.slice(0, -1), name]);
    if (file !== undefined) return { encoding, file };
  }
  return undefined;
}

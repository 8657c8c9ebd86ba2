/** `/_utils/`: a browser application, such as Fauxton, from a configured folder. */

import { serverUrl } from "../access/database-access.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { type Headers, notModified } from "../http/responses.ts";
import { PAGE, PUBLIC } from "../http/route-facts.ts";
import { defineRoute, type Route, splitPath } from "../http/router.ts";
import type { StaticFiles } from "../http/static-files.ts";

/** CouchDB's policy, which Fauxton requires. */
const CONTENT_SECURITY_POLICY =
  "child-src 'self' data: blob:; default-src 'self'; img-src 'self' data:; font-src 'self'; " +
  "script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; frame-src https://blog.couchdb.org;";

const PAGE_HEADERS: Headers = {
  "Cache-Control": "private, must-revalidate",
  "Content-Security-Policy": CONTENT_SECURITY_POLICY,
};
const ICON_HEADERS: Headers = { "Cache-Control": "public, max-age=31536000" };

/** Defines the routes below `/_utils/`. `files`: the files of the folder, if any. */
export function utilityRoutes(files: StaticFiles | undefined): Route[] {
  const page = async (call: Call) =>
    serve(files, call, {
      segments: splitPath(call.request.path).slice(1),
      headers: PAGE_HEADERS,
    });
  return [
    defineRoute("GET", "/_utils", PAGE, async (call) =>
      call.request.path.endsWith("/") ? page(call) : redirect(call),
    ),
    defineRoute("GET", "/_utils/{file...}", PAGE, page),
    defineRoute("GET", "/favicon.ico", PUBLIC, (call) =>
      serve(files, call, { segments: ["favicon.ico"], headers: ICON_HEADERS }),
    ),
  ];
}

/** Redirects to the path with a trailing slash, which relative URLs in a page require. */
function redirect(call: Call): ApiResponse {
  const location = `${serverUrl(call)}/_utils/`;
  return { status: 301, headers: { Location: location }, body: undefined };
}

async function serve(
  files: StaticFiles | undefined,
  { request }: Call,
  { segments, headers }: { readonly segments: readonly string[]; readonly headers: Headers },
): Promise<ApiResponse> {
  const file = await files?.open(segments);
  if (file === undefined) {
    const body = "Not found.";
    return { status: 404, headers: { ...headers, "Content-Type": "text/plain" }, body };
  }
  const found = { ...headers, "Last-Modified": file.modifiedAt };
  if (request.headers.get("if-modified-since") === file.modifiedAt) return notModified(found);
  return {
    status: 200,
    headers: { ...found, "Content-Type": file.type, "Content-Length": String(file.byteCount) },
    body: file.read(),
  };
}

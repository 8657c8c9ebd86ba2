/** Wraps each request in a tracing span. */
import { inSpan, type Runtime } from "../../base/index.ts";
import { stripCredentials } from "../../protocol/index.ts";
import type { Fetch } from "../fetch.ts";

export function withSpans({ spans }: Pick<Runtime, "spans">, fetch: Fetch): Fetch {
  if (spans === undefined) return fetch;
  return (request) =>
    inSpan(
      spans,
      "http.request",
      () => ({
        "http.request.method": request.method,
        // The query is omitted, because it can contain a token.
        "url.full": stripCredentials(request.url).replace(/\?.*$/s, ""),
      }),
      () => fetch(request),
    );
}

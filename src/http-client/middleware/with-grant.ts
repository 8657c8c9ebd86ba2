/**
 * Adds a shared grant to each request. If the server rejects the grant, the request is repeated
 * with a newer one.
 */
import { utf8Encode } from "../../base/index.ts";
import { type Fetch, type FetchResponse, isStream } from "../fetch.ts";
import type { GrantOutcome, SharedGrant } from "../shared-grant.ts";

export function withGrant(fetch: Fetch, shared: SharedGrant): Fetch {
  return async (request) => {
    const before = await shared.current(request.signal);
    if (before.kind === "refused") return refusal(before);
    const { grant } = before;
    const response = await fetch({ ...request, headers: { ...request.headers, ...grant.headers } });
    shared.observe(response);
    if (response.status !== 401 && response.status !== 403) return response;
    // A body that can be read only once cannot be repeated here; the caller's next request uses the
    // new grant.
    if (!shared.reject(grant) || isStream(request.body)) return response;
    response.discard();
    const after = await shared.current(request.signal);
    if (after.kind === "refused") return refusal(after);
    return fetch({ ...request, headers: { ...request.headers, ...after.grant.headers } });
  };
}

/**
 * Turns the server's rejection of the login into the response to the request, because the server
 * would reject the request as well.
 */
function refusal({ status, text }: GrantOutcome & { readonly kind: "refused" }): FetchResponse {
  return { status, headers: new Map(), body: bodyOf(text), discard: () => {} };
}

async function* bodyOf(text = ""): AsyncIterable<Uint8Array> {
  if (text !== "") yield utf8Encode(text);
}

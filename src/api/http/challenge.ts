/** `WWW-Authenticate` of a 401, by which clients learn that they may send a name and a password (`chttpd:error_headers`). */
import type { ApiRequest, ApiResponse } from "./exchange.ts";

/** How a client says which header it wants: a script of a page keeps its browser from asking for a password. */
const WANTED = "x-couchdb-www-authenticate";

const BASIC = 'Basic realm="server"';

/** A text that is a header's value as it is. */
const HEADER_TEXT = /^[\x20-\x7e]+$/;

export interface ChallengeSettings {
  /** What to say unless the client wants something else. */
  readonly challenge: string | undefined;
  /** Whether nobody comes in unknown: then a client is told by default, too. */
  readonly requireValidUser: boolean;
}

/** The answer to a request that failed, with the header when it is a 401 that needs one. */
export function withChallenge(
  settings: ChallengeSettings,
  { headers }: Pick<ApiRequest, "headers">,
  response: ApiResponse,
): ApiResponse {
  if (response.status !== 401) return response;
  const wanted = headers.get(WANTED);
  const isUsable = wanted !== undefined && HEADER_TEXT.test(wanted);
  const byDefault = settings.requireValidUser ? BASIC : undefined;
  const challenge = (isUsable ? wanted : undefined) ?? settings.challenge ?? byDefault;
  if (challenge === undefined) return response;
  return { ...response, headers: { ...response.headers, "WWW-Authenticate": challenge } };
}

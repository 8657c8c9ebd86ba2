/**
 * `WWW-Authenticate` header of a 401, which asks the client for a name and a password
 * (`chttpd:error_headers`).
 */
import type { ApiRequest, ApiResponse } from "./exchange.ts";

/**
 * Header with which a client chooses the scheme. Scripts in a page use it to keep the browser from
 * prompting for a password.
 */
const WANTED = "x-couchdb-www-authenticate";

const BASIC = 'Basic realm="server"';

/** Matches text that is valid as a header value. */
const HEADER_TEXT = /^[\x20-\x7e]+$/;

export interface ChallengeSettings {
  /** Value of the `WWW-Authenticate` header, unless the client chooses the scheme. */
  readonly challenge: string | undefined;
  /** Whether anonymous requests are rejected; if so, the challenge is sent by default. */
  readonly requireValidUser: boolean;
}

/** Adds `WWW-Authenticate` to an error response if it is a 401 that needs a challenge. */
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

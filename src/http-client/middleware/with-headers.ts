/** Headers sent with every request of an endpoint, including credentials. */
import { base64Encode, utf8Encode } from "../../base/index.ts";
import type { Fetch } from "../fetch.ts";

export interface BasicCredentials {
  readonly username: string;
  readonly password: string;
}

/** Returns the value of an `authorization` header (RFC 7617). */
export function basicAuthorization({ username, password }: BasicCredentials): string {
  return `Basic ${base64Encode(utf8Encode(`${username}:${password}`))}`;
}

/** Adds `headers` (names in lower case); headers of the request take precedence. */
export function withHeaders(fetch: Fetch, headers: Readonly<Record<string, string>>): Fetch {
  return (request) => fetch({ ...request, headers: { ...headers, ...request.headers } });
}

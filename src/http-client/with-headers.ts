/** Headers that go with every request of an endpoint: who asks, and with what right. */
import { base64Encode, utf8Encode } from "../base/index.ts";
import type { Fetch } from "./fetch.ts";

export interface BasicCredentials {
  readonly username: string;
  readonly password: string;
}

/** Adds `headers` (names in lower case) below the request's own, and Basic authorization when there are credentials. */
export function withHeaders(
  fetch: Fetch,
  headers: Readonly<Record<string, string>>,
  basic?: BasicCredentials,
): Fetch {
  const always: Record<string, string> = { ...headers };
  if (basic !== undefined) {
    const pair = utf8Encode(`${basic.username}:${basic.password}`);
    always.authorization = `Basic ${base64Encode(pair)}`;
  }
  return (request) => fetch({ ...request, headers: { ...always, ...request.headers } });
}

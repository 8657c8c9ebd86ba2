/** Remembers the secrets that requests carry, so that they are not shown when an answer repeats them. */
import { percentDecode } from "../protocol/index.ts";
import type { Fetch } from "./fetch.ts";
import type { SecretsInUse } from "./secrets-in-use.ts";

/** Headers that never hold a secret; any other may. */
const PLAIN: ReadonlySet<string> = new Set([
  "accept",
  "accept-encoding",
  "content-length",
  "content-type",
  "if-match",
  "if-none-match",
  "user-agent",
  "x-couch-full-commit",
]);
/** Shortest value of a header of another name that is a secret. Shorter ones are flags, and words of any sentence. */
const LENGTH_MIN = 6;

export function withSecretsNoted(fetch: Fetch, secrets: SecretsInUse): Fetch {
  return (request) => {
    for (const [name, value] of Object.entries(request.headers ?? {})) {
      if (!PLAIN.has(name)) noteHeader(value, secrets);
    }
    const { proxyUrl, tls } = request.connection ?? {};
    if (proxyUrl !== undefined) noteUrl(proxyUrl, secrets);
    secrets.add(tls?.password);
    noteUrl(request.url, secrets);
    return fetch(request);
  };
}

/** The value, and what follows a scheme (`Bearer …`) or a cookie's name in it. */
function noteHeader(value: string, secrets: SecretsInUse): void {
  for (const secret of [value, ...value.split(/[\s=;,]+/)]) {
    if (secret.length >= LENGTH_MIN) secrets.add(secret);
  }
}

/** The password of a URL. */
function noteUrl(url: string, secrets: SecretsInUse): void {
  const [, password] = /^[a-z0-9+.-]+:\/\/[^/@]*?:([^/]*)@/i.exec(url) ?? [];
  if (password === undefined) return;
  secrets.add(password);
  secrets.add(percentDecode(password) ?? password);
}

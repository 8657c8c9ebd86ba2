/** Remembers the secrets in requests, so that they can be masked when a response repeats them. */
import { percentDecode } from "../../protocol/index.ts";
import type { Fetch } from "../fetch.ts";
import type { SecretsInUse } from "../secrets-in-use.ts";

/** Headers that never contain a secret; all others can contain one. */
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
/**
 * Minimum length of a header value, or of a part of it, that counts as a secret. Shorter values are
 * flags or ordinary words.
 */
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

/**
 * Remembers the value, and the parts of it that follow an authentication scheme (`Bearer …`) or the
 * name of a cookie.
 */
function noteHeader(value: string, secrets: SecretsInUse): void {
  for (const secret of [value, ...value.split(/[\s=;,]+/)]) {
    if (secret.length >= LENGTH_MIN) secrets.add(secret);
  }
}

/** Remembers the password of a URL. */
function noteUrl(url: string, secrets: SecretsInUse): void {
  const [, password] = /^[a-z0-9+.-]+:\/\/[^/@]*?:([^/]*)@/i.exec(url) ?? [];
  if (password === undefined) return;
  secrets.add(password);
  secrets.add(percentDecode(password) ?? password);
}

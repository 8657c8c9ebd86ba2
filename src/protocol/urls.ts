/** Names in paths, and the URLs of endpoints without their secrets. */

const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * Percent-encodes any text. Unlike `encodeURIComponent` it does not throw: an unpaired surrogate becomes the three bytes
 * that UTF-8 would have for it, so the server that sent it recognizes it, and any other server refuses it.
 */
export function percentEncode(text: string): string {
  if (!LONE_SURROGATE.test(text)) return encodeURIComponent(text);
  return text.replace(/\p{Surrogate}|\P{Surrogate}+/gu, (part) =>
    LONE_SURROGATE.test(part) ? surrogateBytes(part.charCodeAt(0)) : encodeURIComponent(part),
  );
}

/** Text without its percent-escapes, or `undefined` if an escape is malformed or their bytes are not UTF-8. */
export function percentDecode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** Whether a text has a form in UTF-8. */
export function isWellFormed(text: string): boolean {
  return !LONE_SURROGATE.test(text);
}

function surrogateBytes(code: number): string {
  const bytes = [0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)];
  return bytes.map((byte) => `%${byte.toString(16).toUpperCase()}`).join("");
}

/** A database name as one path segment. */
export function encodeDatabaseName(name: string): string {
  return percentEncode(name);
}

/** A document id in a path: `_design/` and `_local/` keep their slash. */
export function encodeDocumentId(id: string): string {
  for (const prefix of ["_design/", "_local/"]) {
    if (id.startsWith(prefix)) return prefix + percentEncode(id.slice(prefix.length));
  }
  return percentEncode(id);
}

/** An attachment's name in a path; its slashes stay. */
export function encodeAttachmentName(name: string): string {
  return name.split("/").map(percentEncode).join("/");
}

/** Of a mistyped URL the slashes may be missing; of other schemes they tell the scheme from a user. */
const SCHEME = /^\s*(?:(?:[a-z][a-z0-9+.-]*:)?\/\/+|https?(?::\/*|\/+))/i;
/** What stands before the first colon: a user, or a host. The colons of an IPv6 address are in brackets. */
const USER_OR_HOST = /^(?:\[[0-9a-f:.]*\]|[^/?#:])*/i;
const PORT = /^\d*(?:[/?#]|$)/;

/**
 * A URL for people: the password is `*****`, as CouchDB shows it, and so is each value of the query, which may be a token. A text
 * that is no URL may still hold a password: what stands between the first colon, unless that of a port, and the last `@` is taken
 * for one, because it may have slashes and further `@`.
 */
export function maskCredentials(url: string): string {
  const { start, end } = passwordOf(url);
  return maskQuery(start < end ? `${url.slice(0, start)}:*****${url.slice(end)}` : url);
}

/**
 * A URL without user and password, and without the values of its query. Of a text that is not a URL, everything before the last `@` may
 * be a password.
 */
export function stripCredentials(url: string): string {
  const { scheme, start, end } = passwordOf(url);
  const isUrl = /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#]/i.test(url);
  if (!isUrl && url.includes("@")) return maskQuery(scheme + url.slice(url.lastIndexOf("@") + 1));
  const rest = url.slice(start < end ? end + 1 : scheme.length);
  return maskQuery(`${scheme}${start < end ? rest : rest.replace(/^[^/?#]*@/, "")}`);
}

/** The password is between `start`, a colon, and `end`, an `@`; without one they are equal. */
function passwordOf(url: string): { scheme: string; start: number; end: number } {
  const [scheme = ""] = SCHEME.exec(url) ?? [];
  const [user = ""] = USER_OR_HOST.exec(url.slice(scheme.length)) ?? [];
  const start = scheme.length + user.length;
  const end = url.lastIndexOf("@");
  const isPassword = url[start] === ":" && end > start && !PORT.test(url.slice(start + 1));
  return { scheme, start, end: isPassword ? end : start };
}

function maskQuery(url: string): string {
  const mark = url.indexOf("?");
  if (mark < 0) return url;
  const names = url
    .slice(mark + 1)
    .split("&")
    .map((pair) => pair.replace(/=.*$/s, "=*****"));
  return `${url.slice(0, mark)}?${names.join("&")}`;
}

/**
 * Parameters of a query string, in order; the last of a repeated name counts. `undefined` if one is not UTF-8. Semicolons
 * separate parameters as well, as in CouchDB.
 */
export function parseQuery(text: string): ReadonlyMap<string, string> | undefined {
  const escapes = text.match(/(?:%[0-9a-f]{2})+/gi) ?? [];
  if (escapes.some((bytes) => percentDecode(bytes) === undefined)) return undefined;
  return new Map(new URLSearchParams(text.replaceAll(";", "&")));
}

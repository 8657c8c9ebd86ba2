/** Names in paths, and URLs of endpoints without their secrets. */

const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * Percent-encodes any text. Unlike `encodeURIComponent`, it does not throw: an unpaired surrogate
 * becomes its three bytes in generalized UTF-8 (WTF-8). The server that sent the text recognizes
 * these bytes, and any other server refuses them.
 */
export function percentEncode(text: string): string {
  if (!LONE_SURROGATE.test(text)) return encodeURIComponent(text);
  return text.replace(/\p{Surrogate}|\P{Surrogate}+/gu, (part) =>
    LONE_SURROGATE.test(part) ? surrogateBytes(part.charCodeAt(0)) : encodeURIComponent(part),
  );
}

/**
 * Decodes percent-escapes. Returns `undefined` if an escape is malformed or the bytes are not
 * UTF-8.
 */
export function percentDecode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** Whether a text can be encoded as UTF-8. */
export function isWellFormed(text: string): boolean {
  return !LONE_SURROGATE.test(text);
}

function surrogateBytes(code: number): string {
  const bytes = [0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)];
  return bytes.map((byte) => `%${byte.toString(16).toUpperCase()}`).join("");
}

/** Encodes a database name as one path segment. */
export function encodeDatabaseName(name: string): string {
  return percentEncode(name);
}

/** Encodes a document id for a path. `_design/` and `_local/` keep their slash. */
export function encodeDocumentId(id: string): string {
  for (const prefix of ["_design/", "_local/"]) {
    if (id.startsWith(prefix)) return prefix + percentEncode(id.slice(prefix.length));
  }
  return percentEncode(id);
}

/** Encodes an attachment name for a path. Its slashes are kept. */
export function encodeAttachmentName(name: string): string {
  return name.split("/").map(percentEncode).join("/");
}

/**
 * Matches the scheme. In mistyped http URLs the slashes can be missing. Other schemes must have
 * slashes, because text before a colon could otherwise be a user name.
 */
const SCHEME = /^\s*(?:(?:[a-z][a-z0-9+.-]*:)?\/\/+|https?(?::\/*|\/+))/i;
/**
 * Text before the first colon, which is a user or a host. The colons of an IPv6 address are in
 * brackets.
 */
const USER_OR_HOST = /^(?:\[[0-9a-f:.]*\]|[^/?#:])*/i;
const PORT = /^\d*(?:[/?#]|$)/;

/**
 * Masks a URL for display: the password is `*****`, as in CouchDB, and so is each value of the
 * query, which can be a token. Even text that is not a URL can contain a password. Therefore,
 * everything between the first colon, unless it precedes a port, and the last `@` is treated as the
 * password. It can contain slashes and `@`.
 */
export function maskCredentials(url: string): string {
  const { start, end } = passwordOf(url);
  return maskQuery(start < end ? `${url.slice(0, start)}:*****${url.slice(end)}` : url);
}

/**
 * Removes user, password and query values from a URL. In text that is not a URL, everything before
 * the last `@` can be a password.
 */
export function stripCredentials(url: string): string {
  const { scheme, start, end } = passwordOf(url);
  const isUrl = /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#]/i.test(url);
  if (!isUrl && url.includes("@")) return maskQuery(scheme + url.slice(url.lastIndexOf("@") + 1));
  const rest = url.slice(start < end ? end + 1 : scheme.length);
  return maskQuery(`${scheme}${start < end ? rest : rest.replace(/^[^/?#]*@/, "")}`);
}

/**
 * Finds the password in a URL. `start` is the offset of the colon before the password, `end` the
 * offset of the `@` after it. If there is no password, `end` equals `start`.
 */
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

export interface ParsedQuery {
  /** The parameters in order, with the last value of a repeated name. */
  readonly query: ReadonlyMap<string, string>;
  /** The first name that occurs again. */
  readonly repeatedParameter: string | undefined;
}

/**
 * Parses a query string. Returns `undefined` if a parameter is not UTF-8. Semicolons also separate
 * parameters, as in CouchDB.
 */
export function parseQuery(text: string): ParsedQuery | undefined {
  const escapes = text.match(/(?:%[0-9a-f]{2})+/gi) ?? [];
  if (escapes.some((bytes) => percentDecode(bytes) === undefined)) return undefined;
  const query = new Map<string, string>();
  let repeatedParameter: string | undefined;
  for (const [name, value] of new URLSearchParams(text.replaceAll(";", "&"))) {
    if (query.has(name)) repeatedParameter ??= name;
    query.set(name, value);
  }
  return { query, repeatedParameter };
}

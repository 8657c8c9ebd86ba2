/** Parses source and target: address, credentials, proxies and certificates. */
import { base64Decode, utf8Decode } from "../../base/index.ts";
import type { BasicCredentials, TlsSettings } from "../../http-client/index.ts";
import { percentDecode } from "../../protocol/index.ts";
import { PROTOCOLS_DEFAULT, type Protocols } from "../replicator-config.ts";
import {
  AUTHENTICATION_SCHEMES,
  type AuthMembers,
  CLIENT_ASSERTION,
  secretsOf,
} from "./authentication-schemes.ts";
import { parseUrl, schemeOf, validEndpointUrl } from "./endpoint-url.ts";
import {
  decode,
  isObject,
  type Members,
  optionalString,
  ReplicationInvalidError,
} from "./parse-fields.ts";
import { isHeaderReference, isReference } from "./references.ts";
import type { EndpointAddress, HttpAddress, ReferencePlace } from "./replication.ts";

const DATABASE_NAME =
  /^(_users|_replicator|_global_changes|[a-z][a-z0-9_$()+/-]*(\/_users|\/_replicator)?)$/;

/** Names of the schemes, for messages: `basic, iam, oauth2 or bearer`. */
const SCHEME_NAMES = AUTHENTICATION_SCHEMES.map(({ names }) => names[0])
  .join(", ")
  .replace(/, (\w+)$/, " or $1");

export type Side = "source" | "target";

/**
 * Parses an endpoint of a document or body, with the proxies and certificates that are given at the
 * top level.
 */
export function parseEndpoint(
  side: Side,
  members: Members,
  protocols: Protocols = PROTOCOLS_DEFAULT,
): EndpointAddress {
  const value = members[side];
  if (value === undefined || value === null) {
    throw new ReplicationInvalidError(`Missing \`${side}\` field`);
  }
  const proxyUrl = parseProxy(side, members, protocols.proxy);
  const sharedTls = parseTls("", members);
  if (typeof value === "string") {
    const parts = { headers: {}, auth: {}, proxyUrl, tls: sharedTls };
    return parseAddress(side, value, parts, protocols.endpoint);
  }
  if (!isObject(value)) {
    throw new ReplicationInvalidError(`\`${side}\` must be a string or an object`);
  }
  if (typeof value.url !== "string") {
    throw new ReplicationInvalidError(`\`${side}.url\` must be a string`);
  }
  const parts = {
    headers: parseHeaders(side, value.headers),
    auth: parseAuth(side, value.auth),
    proxyUrl,
    tls: { ...sharedTls, ...parseTls(`${side}.`, value) },
  };
  return parseAddress(side, value.url, parts, protocols.endpoint);
}

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** Characters allowed in a header: Latin-1 without control characters. */
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/**
 * Headers for routing and framing. A job must not set them, because that would allow request
 * smuggling.
 */
const CONNECTION_HEADERS: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "expect",
  "host",
  "keep-alive",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

function parseHeaders(field: string, value: unknown): Record<string, string> {
  if (value === undefined || value === null) return {};
  if (!isObject(value)) {
    throw new ReplicationInvalidError(`if defined \`${field}.headers\` must be an object`);
  }
  const headers: Record<string, string> = {};
  for (const [name, text] of Object.entries(value)) {
    if (typeof text !== "string") {
      throw new ReplicationInvalidError(`\`${field}.headers.${name}\` must be a string`);
    }
    if (!HEADER_NAME.test(name) || !HEADER_VALUE.test(text)) {
      throw new ReplicationInvalidError(`\`${field}.headers.${name}\` is not a valid HTTP header`);
    }
    if (CONNECTION_HEADERS.has(name.toLowerCase())) {
      throw new ReplicationInvalidError(
        `\`${field}.headers.${name}\` cannot be set: it belongs to the connection`,
      );
    }
    headers[name] = text;
  }
  return headers;
}

/** Parses `auth`, which names one of the schemes. */
function parseAuth(side: Side, value: unknown): AuthMembers {
  if (value === undefined || value === null) return {};
  if (!isObject(value)) {
    throw new ReplicationInvalidError(`if defined, \`${side}.auth\` must be an object`);
  }
  const auths: AuthMembers[] = [];
  for (const [name, given] of Object.entries(value)) {
    if (given === undefined || given === null) continue;
    const field = `${side}.auth.${name}`;
    const scheme = AUTHENTICATION_SCHEMES.find(({ names }) => names.includes(name));
    if (scheme === undefined) {
      throw new ReplicationInvalidError(`\`${field}\` is not known: use ${SCHEME_NAMES}`);
    }
    auths.push(scheme.parse(field, given));
  }
  if (auths.length > 1) {
    throw new ReplicationInvalidError(
      `\`${side}.auth\` must contain only one authentication scheme`,
    );
  }
  return auths[0] ?? {};
}

/**
 * Parses the proxies. `proxy` applies to both sides, and cannot be combined with `source_proxy` or
 * `target_proxy`.
 */
function parseProxy(
  side: Side,
  members: Members,
  protocols: readonly string[],
): string | undefined {
  const name = `${side}_proxy`;
  const both = optionalString(members, "proxy");
  const one = optionalString(members, name);
  if (both !== undefined && one !== undefined) {
    throw new ReplicationInvalidError(`\`proxy\` is mutually exclusive with \`${name}\``);
  }
  const proxyUrl = both ?? one;
  const field = both === undefined ? name : "proxy";
  if (proxyUrl === undefined || proxyUrl === "") return undefined;
  if (!protocols.includes(schemeOf(proxyUrl))) {
    throw new ReplicationInvalidError(`\`${field}\` must be ${urlsOf(protocols)}`);
  }
  const { username, password } = parseUrl(proxyUrl) as URL;
  if (percentDecode(username) === undefined || percentDecode(password) === undefined) {
    throw new ReplicationInvalidError(
      `\`${field}\` has a percent sign in its user or password: write it as %25`,
    );
  }
  return proxyUrl;
}

/**
 * Parses TLS settings, which have the same names as in `[replicator]`. `prefix` is prepended to
 * names in error messages.
 */
function parseTls(prefix: string, members: Members): Partial<TlsSettings> {
  const text = (name: string): string | undefined => optionalString(members, name, prefix + name);
  const verify = members.verify_ssl_certificates;
  if (verify !== undefined && verify !== null && typeof verify !== "boolean") {
    throw new ReplicationInvalidError(`\`${prefix}verify_ssl_certificates\` must be a boolean`);
  }
  const depthMax = members.ssl_certificate_max_depth;
  const isDepth = typeof depthMax === "number" && Number.isSafeInteger(depthMax) && depthMax >= 0;
  if (depthMax !== undefined && depthMax !== null && !isDepth) {
    throw new ReplicationInvalidError(
      `\`${prefix}ssl_certificate_max_depth\` must be an integer of at least 0`,
    );
  }
  const settings = {
    verify: verify ?? undefined,
    trustedCertificatesFile: text("ssl_trusted_certificates_file") ?? text("cacert_file"),
    depthMax: isDepth ? depthMax : undefined,
    certificateFile: text("cert_file"),
    keyFile: text("key_file"),
    password: text("password"),
  };
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}

/** Returns a phrase for messages, such as `an http://, https:// or socks5:// URL`. */
function urlsOf(protocols: readonly string[]): string {
  const names = protocols.map((name) => `${name}://`);
  const article = names[0]?.startsWith("http:") || names[0]?.startsWith("https:") ? "an" : "a";
  const last = names.pop() ?? "(none is allowed)";
  return `${article} ${names.length === 0 ? last : `${names.join(", ")} or ${last}`} URL`;
}

interface AddressParts {
  readonly headers: Record<string, string>;
  readonly auth: AuthMembers;
  readonly proxyUrl: string | undefined;
  readonly tls: Partial<TlsSettings>;
}

function parseAddress(
  field: string,
  text: string,
  { headers, auth, proxyUrl, tls }: AddressParts,
  protocols: readonly string[],
): EndpointAddress {
  // URL parsers drop some space and control characters, and accept other such characters as part of
  // the host name.
  if (/\s|\p{Cc}/u.test(text)) {
    throw new ReplicationInvalidError(`\`${field}\` has a space or control character in its url`);
  }
  if (!/^https?:\/\//i.test(text)) {
    if (DATABASE_NAME.test(text)) return { kind: "local", database: text };
    throw new ReplicationInvalidError(
      `\`${field}\` must be an http:// or https:// URL, or the name of a database on this server`,
    );
  }
  const { header, rest } = takeBasicHeader(headers);
  // As in CouchDB, a user name that is not followed by a colon is not a credential.
  const [, writtenUsername, writtenPassword] =
    /^https?:\/\/([^/?#:@]*):([^/?#]*)@/i.exec(text) ?? [];
  const userinfo =
    writtenUsername === undefined || writtenPassword === undefined
      ? undefined
      : { username: decode(writtenUsername), password: decode(writtenPassword) };
  // An `auth` with a key or token takes precedence over credentials in the URL or headers.
  const isOther = auth.basic === undefined && Object.keys(auth).length > 0;
  const basic = isOther ? undefined : (auth.basic ?? userinfo ?? header);
  const bare = text.replace(/^(https?:\/\/)[^/?#]*@/i, "$1").replace(/#.*$/s, "");
  const complete = bare.endsWith("/") || bare.includes("?") ? bare : `${bare}/`;
  const { basic: _, headers: authorization, ...credentials } = auth;
  const allHeaders = { ...rest, ...authorization };
  const references = referencesOf({ headers: allHeaders, auth, tls });
  const address: HttpAddress = {
    kind: "http",
    url: complete,
    headers: allHeaders,
    ...(basic === undefined ? {} : { basic }),
    ...(basic !== undefined && basic === userinfo && basic.username !== writtenUsername
      ? { writtenUsername: writtenUsername as string }
      : {}),
    ...credentials,
    ...(proxyUrl === undefined ? {} : { proxyUrl }),
    ...(Object.keys(tls).length === 0 ? {} : { tls }),
    ...(references.length === 0 ? {} : { references }),
  };
  checkUrl(field, address, protocols);
  return address;
}

/**
 * Returns the address with its credentials replaced by those of `auth` (as in a document). Throws a
 * ReplicationInvalidError if `auth` is invalid.
 */
export function withAuth(side: Side, address: HttpAddress, auth: unknown): HttpAddress {
  const { kind, url, proxyUrl, tls = {} } = address;
  const { headers: authorization, ...credentials } = parseAuth(side, auth);
  const others = Object.entries(address.headers).filter(
    ([name]) => name.toLowerCase() !== "authorization",
  );
  const headers = { ...Object.fromEntries(others), ...authorization };
  const references = referencesOf({ headers, auth: credentials, tls });
  return {
    kind,
    url,
    headers,
    ...credentials,
    ...(proxyUrl === undefined ? {} : { proxyUrl }),
    ...(Object.keys(tls).length === 0 ? {} : { tls }),
    ...(references.length === 0 ? {} : { references }),
  };
}

/**
 * Returns the locations of references. These are only recognized in dedicated members, not within a
 * URL.
 */
function referencesOf({ headers, auth, tls }: Omit<AddressParts, "proxyUrl">): ReferencePlace[] {
  const places: ReferencePlace[] = secretsOf(auth)
    .filter(([, secret]) => isReference(secret))
    .map(([place]) => place);
  if (auth.oauth2?.clientAssertion !== undefined) places.push(CLIENT_ASSERTION);
  if (tls.password !== undefined && isReference(tls.password)) places.push("tls.password");
  for (const [name, value] of Object.entries(headers)) {
    if (isHeaderReference(value)) places.push(`headers.${name}`);
  }
  return places;
}

function checkUrl(field: string, address: HttpAddress, protocols: readonly string[]): void {
  const url = validEndpointUrl(address);
  // Reject `http:///name`, which URL parsers treat as host `name`.
  if (url === undefined || url.written.host === "") {
    throw new ReplicationInvalidError(`\`${field}\` has an invalid url`);
  }
  if (!protocols.includes(url.scheme)) {
    throw new ReplicationInvalidError(
      `\`${field}\` must be ${urlsOf(protocols)} (set by [replicator] valid_endpoint_protocols)`,
    );
  }
  const tokenUrl = address.iam?.tokenUrl ?? address.oauth2?.tokenUrl;
  if (tokenUrl !== undefined && !protocols.includes(schemeOf(tokenUrl))) {
    throw new ReplicationInvalidError(
      `the \`token_url\` of \`${field}\` must be ${urlsOf(protocols)} (set by [replicator] valid_endpoint_protocols)`,
    );
  }
}

/** Splits the headers into the Basic credentials, if any, and all other headers. */
function takeBasicHeader(headers: Record<string, string>): {
  header: BasicCredentials | undefined;
  rest: Record<string, string>;
} {
  let header: BasicCredentials | undefined;
  const rest: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const match = name.toLowerCase() === "authorization" ? /^basic\s+(\S+)\s*$/i.exec(value) : null;
    if (match === null) rest[name] = value;
    else header = decodeBasic(match[1] as string);
  }
  return { header, rest };
}

function decodeBasic(encoded: string): BasicCredentials | undefined {
  const bytes = base64Decode(encoded);
  if (bytes === undefined) return undefined;
  try {
    const pair = utf8Decode(bytes);
    const colon = pair.indexOf(":");
    if (colon < 0) return undefined;
    return { username: pair.slice(0, colon), password: pair.slice(colon + 1) };
  } catch {
    return undefined;
  }
}

/**
 * Status pages show secrets as `*****`. When such a mask is written back, the stored secret
 * replaces the mask, provided that the secret is sent to the same place as before. Without this
 * condition, a user who never saw the secret could send it to another server.
 *
 * An endpoint with a masked secret must keep its server, proxies and TLS settings; an `auth` with a
 * masked secret must keep all its members.
 */
import {
  type JsonText,
  joinObject,
  parseJson,
  printJson,
  splitObject,
  Utf8Text,
} from "../../base/index.ts";
import { parseUrl } from "../request/endpoint-url.ts";
import { isObject, type Members } from "../request/parse-fields.ts";

/** Mask of secrets on status pages (`maskCredentials`). */
export const MASK = "*****";
const SIDES = ["source", "target"] as const;
const PROXIES = ["proxy", "source_proxy", "target_proxy"] as const;
/** Members of documents and endpoints that affect how a server is reached. */
const REACH = [
  "verify_ssl_certificates",
  "ssl_certificate_max_depth",
  "ssl_trusted_certificates_file",
  "cacert_file",
  "cert_file",
  "key_file",
] as const;

type Side = (typeof SIDES)[number];

export type Unmasked =
  | { readonly kind: "whole"; readonly body: Utf8Text }
  /**
   * No secret is stored for the mask, or the secret would be sent to a different place than before.
   */
  | { readonly kind: "refused"; readonly reason: string };

/** Thrown for a mask that cannot be replaced; `field` is its location. */
class MaskedSecretError extends Error {
  override readonly name = "MaskedSecretError";

  constructor(field: string) {
    super(
      `\`${field}\` is masked: enter the secret itself; a masked secret is accepted only if the server it belongs to stays the same`,
    );
  }
}

/** Replaces masks in the body by the stored secrets. Everything else is unchanged. */
export function withStoredSecrets(body: Utf8Text, stored: Utf8Text | undefined): Unmasked {
  if (!body.text.includes(MASK)) return { kind: "whole", body };
  const given = parseJson(body.text) as Members;
  const before: Members = stored === undefined ? {} : (parseJson(stored.text) as Members);
  try {
    return { kind: "whole", body: withMembers(body, changedMembers(given, before)) };
  } catch (error) {
    if (error instanceof MaskedSecretError) return { kind: "refused", reason: error.message };
    throw error;
  }
}

function changedMembers(given: Members, before: Members): Map<string, unknown> {
  const changed = new Map<string, unknown>();
  for (const name of PROXIES) {
    if (hasMask(given[name])) changed.set(name, unmaskUrl(name, given[name], before[name]));
  }
  const withProxies = { ...given, ...Object.fromEntries(changed) };
  for (const side of SIDES) {
    if (!hasMask(secretsOf(given[side]))) continue;
    if (!goesWhereItWent(side, withProxies, before)) throw new MaskedSecretError(side);
    changed.set(side, unmaskEndpoint(side, given[side], before[side]));
  }
  if (given.password === MASK) {
    if (!SIDES.every((side) => goesWhereItWent(side, withProxies, before))) {
      throw new MaskedSecretError("password");
    }
    changed.set("password", storedText("password", before.password));
  }
  return changed;
}

/** Returns the members of an endpoint that can contain secrets. */
function secretsOf(endpoint: unknown): unknown {
  if (!isObject(endpoint)) return endpoint;
  const { url, auth, headers, password } = endpoint;
  return [url, auth, headers, password];
}

/** Whether the value contains a mask, or a URL in which a secret is masked. */
function hasMask(value: unknown): boolean {
  if (typeof value === "string") return value === MASK || maskedUrl(value) !== undefined;
  return typeof value === "object" && value !== null && Object.values(value).some(hasMask);
}

interface MaskedUrl {
  readonly hasPassword: boolean;
  /** Names of masked query parameters. */
  readonly names: readonly string[];
}

/** Parses a URL in which secrets are replaced by `*****`. Returns undefined for other strings. */
function maskedUrl(text: string): MaskedUrl | undefined {
  const hasPassword = /^[a-z0-9+.-]+:\/\/[^/@:]*:\*{5}@/i.test(text);
  const names = queryOf(text).flatMap(([name, value]) => (value === MASK ? [name] : []));
  return hasPassword || names.length > 0 ? { hasPassword, names } : undefined;
}

function queryOf(url: string): (readonly [name: string, value: string])[] {
  const mark = url.indexOf("?");
  if (mark < 0) return [];
  return url
    .slice(mark + 1)
    .split("&")
    .map((pair) => {
      const equals = pair.indexOf("=");
      return equals < 0 ? [pair, ""] : [pair.slice(0, equals), pair.slice(equals + 1)];
    });
}

const CREDENTIALS = /^([a-z0-9+.-]+:\/\/)([^/@:]*):([^/]*)@/i;

function unmaskUrl(field: string, given: unknown, stored: unknown): unknown {
  const masked = typeof given === "string" ? maskedUrl(given) : undefined;
  if (typeof given !== "string" || masked === undefined) return given;
  const before = storedText(field, stored);
  const server = serverOf(given);
  if (server === undefined || server !== serverOf(before)) throw new MaskedSecretError(field);
  const [, , user, password = ""] = CREDENTIALS.exec(before) ?? [];
  const withPassword = masked.hasPassword
    ? given.replace(CREDENTIALS, (_, scheme: string, name: string) => {
        if (name !== user) throw new MaskedSecretError(field);
        return `${scheme}${name}:${password}@`;
      })
    : given;
  return masked.names.length === 0 ? withPassword : withStoredQuery(field, withPassword, before);
}

function withStoredQuery(field: string, url: string, stored: string): string {
  const values = new Map(queryOf(stored));
  const pairs = queryOf(url).map(([name, value]) => {
    const kept = value === MASK ? values.get(name) : value;
    if (kept === undefined) throw new MaskedSecretError(field);
    return `${name}=${kept}`;
  });
  return `${url.slice(0, url.indexOf("?"))}?${pairs.join("&")}`;
}

/** Returns scheme, host and port; undefined for an invalid URL. */
function serverOf(url: unknown): string | undefined {
  const parsed = typeof url === "string" ? parseUrl(url) : undefined;
  return parsed && `${parsed.protocol}//${parsed.host}`;
}

function unmaskEndpoint(side: Side, given: unknown, stored: unknown): unknown {
  const storedUrl = isObject(stored) ? stored.url : stored;
  if (!isObject(given)) return unmaskUrl(side, given, storedUrl);
  const before = isObject(stored) ? stored : {};
  const whole: Record<string, unknown> = { ...given, url: unmaskUrl(side, given.url, storedUrl) };
  if (hasMask(given.auth)) whole.auth = unmaskAuth(`${side}.auth`, given.auth, before.auth);
  if (isObject(given.headers)) {
    const headers = isObject(before.headers) ? before.headers : {};
    whole.headers = Object.fromEntries(
      Object.entries(given.headers).map(([name, value]) => [
        name,
        value === MASK ? storedText(`${side}.headers.${name}`, headers[name]) : value,
      ]),
    );
  }
  if (given.password === MASK) whole.password = storedText(`${side}.password`, before.password);
  return whole;
}

/** Returns the stored value if the given value differs from it only by masks. Throws otherwise. */
function unmaskAuth(field: string, given: unknown, stored: unknown): unknown {
  if (given === MASK && typeof stored === "string") return stored;
  if (!isObject(given) || !isObject(stored)) {
    if (given !== stored) throw new MaskedSecretError(field);
    return stored;
  }
  const names = new Set([...Object.keys(given), ...Object.keys(stored)]);
  for (const name of names) unmaskAuth(field, given[name], stored[name]);
  return stored;
}

/** Whether a side has the same server as before, reached in the same way. */
function goesWhereItWent(side: Side, given: Members, before: Members): boolean {
  return reachOf(side, given) === reachOf(side, before);
}

function reachOf(side: Side, members: Members): string {
  const endpoint = members[side];
  const own = isObject(endpoint) ? endpoint : {};
  const server = serverOf(isObject(endpoint) ? endpoint.url : endpoint);
  const proxies = [members.proxy, members[`${side}_proxy`]];
  const settings = [members, own].flatMap((each) => REACH.map((name) => each[name] ?? null));
  return JSON.stringify([server ?? null, proxies.map((proxy) => proxy ?? null), settings]);
}

function storedText(field: string, stored: unknown): string {
  if (typeof stored !== "string") throw new MaskedSecretError(field);
  return stored;
}

function withMembers(body: Utf8Text, changed: ReadonlyMap<string, unknown>): Utf8Text {
  if (changed.size === 0) return body;
  const members = splitObject(body.text).map(({ name, value }) => {
    const text: JsonText = changed.has(name) ? printJson(changed.get(name)) : value;
    return { name, value: text };
  });
  return Utf8Text.of(joinObject(members));
}

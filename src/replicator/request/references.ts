/**
 * References to credentials in jobs: `env:NAME` (an environment variable of the node), `file:/path`
 * (a file on the node's machine) and `identity:NAME` (a file that the operator has bound to
 * servers). References are resolved at the start of each run, and the secrets are never stored.
 * Bearer tokens and client assertions are also read again during the run, because other programs
 * renew them.
 *
 * Whether a credential is a reference is decided when the job is requested, since only server
 * admins are allowed to use references. The password of any other user is never a reference, even
 * if it looks like one.
 */
import { AUTHENTICATION_SCHEMES, CLIENT_ASSERTION } from "./authentication-schemes.ts";
import type { HttpAddress, ReferencePlace, Replication, ResolvedAddress } from "./replication.ts";

const REFERENCE = /^(env:[A-Za-z_][A-Za-z0-9_]*|file:\/.+|identity:[A-Za-z0-9_.-]+)$/;
/** Matches a header's value that is a reference, optionally after an authorization scheme. */
const HEADER = /^((?:bearer|token)\s+)?((?:env|file|identity):.*)$/i;

export function isReference(text: string): boolean {
  return REFERENCE.test(text);
}

/** Whether a header's value is a reference, optionally after a scheme. */
export function isHeaderReference(value: string): boolean {
  const reference = HEADER.exec(value)?.[2];
  return reference !== undefined && isReference(reference);
}

/** Returns why the replication requires a server admin; undefined if it does not. */
export function referencesRefusal({
  source,
  target,
}: Pick<Replication, "source" | "target">): string | undefined {
  for (const [side, address] of Object.entries({ source, target })) {
    if (address.kind !== "http" || address.references === undefined) continue;
    return `\`${side}.${address.references[0]}\` refers to a secret of the server; this requires server admin rights`;
  }
  return undefined;
}

/**
 * Returns the secret to which a reference refers, for a request to this URL. Throws if the
 * reference is unknown, or is not permitted for the URL.
 */
export type ReferenceLookup = (reference: string, url: string) => string;

/** Resolves the references in an address. */
export function resolveReferences(address: HttpAddress, lookUp: ReferenceLookup): ResolvedAddress {
  const { references = [], ...resolved } = address;
  return references.reduce(
    (each: ResolvedAddress, place) => resolveOne(each, place, lookUp),
    resolved,
  );
}

function resolveOne(
  address: ResolvedAddress,
  place: ReferencePlace,
  lookUp: ReferenceLookup,
): ResolvedAddress {
  const { url, tls, headers, oauth2 } = address;
  const stored = AUTHENTICATION_SCHEMES.find(({ secret }) => secret?.place === place)?.secret;
  const reference = stored?.of(address);
  if (stored !== undefined && reference !== undefined) {
    const secret = lookUp(reference, stored.url(address));
    return { ...address, ...stored.replaced(address, secret) };
  }
  if (place === CLIENT_ASSERTION && oauth2?.clientAssertion !== undefined) {
    const { clientAssertion, tokenUrl } = oauth2;
    return { ...address, readAssertion: readNow(() => lookUp(clientAssertion, tokenUrl)) };
  }
  if (place === "tls.password" && tls?.password !== undefined) {
    return { ...address, tls: { ...tls, password: lookUp(tls.password, url) } };
  }
  const name = place.replace(/^headers\./, "");
  const { [name]: written = "", ...others } = headers;
  const [, scheme = "", inHeader = ""] = HEADER.exec(written) ?? [];
  const read = (): string => scheme + lookUp(inHeader, url);
  if (name.toLowerCase() !== "authorization") {
    return { ...address, headers: { ...headers, [name]: read() } };
  }
  return { ...address, headers: others, authorization: { written, read: readNow(read) } };
}

/**
 * Returns `read`, after one call that throws if the secret is missing. The error is thus reported
 * at the start of a run.
 */
function readNow(read: () => string): () => string {
  read();
  return read;
}

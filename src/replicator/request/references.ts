/**
 * References to credentials in jobs: `env:NAME`, an environment variable of the node, and
 * `file:/path`, a file on its machine. They are resolved at the start of each run and never stored.
 *
 * Whether a credential is a reference is decided when the job is requested, since only server
 * admins may use them. Another user's password is never a reference, even if it looks like one.
 */
import { AUTHENTICATION_SCHEMES } from "./authentication-schemes.ts";
import type { HttpAddress, ReferencePlace, Replication } from "./replication.ts";

const REFERENCE = /^(env:[A-Za-z_][A-Za-z0-9_]*|file:\/.+)$/;
/** Matches a header's value that is a reference, optionally after an authorization scheme. */
const HEADER = /^((?:bearer|token)\s+)?((?:env|file):.*)$/i;

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
    return `\`${side}.${address.references[0]}\` refers to a secret of the server, which requires server admin rights`;
  }
  return undefined;
}

/** Resolves the references in an address. `lookUp` throws for an unknown reference. */
export function resolveReferences(
  address: HttpAddress,
  lookUp: (reference: string) => string,
): HttpAddress {
  const { references = [], ...resolved } = address;
  return references.reduce((each: HttpAddress, place) => resolveOne(each, place, lookUp), resolved);
}

function resolveOne(
  address: HttpAddress,
  place: ReferencePlace,
  lookUp: (reference: string) => string,
): HttpAddress {
  const { tls, headers } = address;
  const stored = AUTHENTICATION_SCHEMES.find(({ secret }) => secret?.place === place)?.secret;
  const reference = stored?.of(address);
  if (stored !== undefined && reference !== undefined) {
    return { ...address, ...stored.replaced(address, lookUp(reference)) };
  }
  if (place === "tls.password" && tls?.password !== undefined) {
    return { ...address, tls: { ...tls, password: lookUp(tls.password) } };
  }
  const name = place.replace(/^headers\./, "");
  const [, scheme = "", inHeader = ""] = HEADER.exec(headers[name] ?? "") ?? [];
  return { ...address, headers: { ...headers, [name]: scheme + lookUp(inHeader) } };
}

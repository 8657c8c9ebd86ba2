/**
 * Credentials that a job refers to instead of naming them: `env:NAME`, a variable of the node's environment, and `file:/path`, a file
 * of the node's machine. They are looked up at the start of each run, and never stored.
 *
 * Which credentials are references is decided when a job is asked for, because only server admins may use them: a password that
 * another user gave is no reference, whatever it looks like.
 */
import { AUTHENTICATION_SCHEMES } from "./authentication-schemes.ts";
import type { HttpAddress, ReferencePlace, Replication } from "./replication.ts";

const REFERENCE = /^(env:[A-Za-z_][A-Za-z0-9_]*|file:\/.+)$/;
/** The value of a header, and what may stand before the reference: the scheme of an authorization. */
const HEADER = /^((?:bearer|token)\s+)?((?:env|file):.*)$/i;

export function isReference(text: string): boolean {
  return REFERENCE.test(text);
}

/** Whether a header's value is a reference, or a scheme and a reference. */
export function isHeaderReference(value: string): boolean {
  const reference = HEADER.exec(value)?.[2];
  return reference !== undefined && isReference(reference);
}

/** Why a user who is not a server admin may not have this replication; undefined when they may. */
export function referencesRefusal({
  source,
  target,
}: Pick<Replication, "source" | "target">): string | undefined {
  for (const [side, address] of Object.entries({ source, target })) {
    if (address.kind !== "http" || address.references === undefined) continue;
    return `\`${side}.${address.references[0]}\` refers to a secret of the server: only a server admin may`;
  }
  return undefined;
}

/** The address with what its references stand for. `lookUp` throws when one stands for nothing. */
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

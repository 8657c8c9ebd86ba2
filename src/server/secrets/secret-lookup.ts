/**
 * Resolves secret references of jobs. `env:NAME` refers to an environment variable. `file:/path`
 * refers to the content of a file without its final line break. `identity:NAME` refers to the
 * content of a file that may be sent only to certain servers. Only references that the operator of
 * the machine permits are resolved, because otherwise a server administrator could send any secret
 * of the machine to a server of their own. Keys of this server are never resolved.
 */
import { closeSync, fstatSync, openSync, readFileSync, type Stats, statSync } from "node:fs";
import { normalize } from "node:path";
import type { SecretDestination, SecretLookup } from "../../replicator/index.ts";
import {
  containsSealingKey,
  isForbiddenFile,
  isForbiddenSecret,
  isForbiddenVariable,
  NO_SERVER_KEYS,
  type ServerKeys,
} from "./forbidden-secrets.ts";
import { type Identity, identityRefusal } from "./identity-files.ts";

/** Maximum length of a credential file. References to longer files are not resolved. */
const FILE_BYTES_MAX = 64 * 1024;

type Found = ReturnType<SecretLookup>;

/**
 * Returns a function that resolves secret references. `released` lists the permitted references; a
 * final `*` is a wildcard. Jobs are allowed to use all `identities`, each only for its own servers.
 */
export function secretLookup(
  environment: Readonly<Record<string, string | undefined>>,
  released: readonly string[],
  serverKeys: ServerKeys = NO_SERVER_KEYS,
  identities: ReadonlyMap<string, Identity> = new Map(),
): SecretLookup {
  const lookUp = (kind: string, name: string, reference: string): Found => {
    if (kind === "file") {
      const isForbidden = (status: Stats) => isForbiddenFile(name, status, serverKeys);
      return fromFile(reference, name, isForbidden);
    }
    if (isForbiddenVariable(name)) return missing(reference, FORBIDDEN);
    return fromEnvironment(reference, environment[name]);
  };
  const ofIdentity = (reference: string, name: string, destination?: SecretDestination): Found => {
    const identity = identities.get(name);
    if (identity === undefined) return missing(reference, "is not among [identities] of this node");
    if (destination === undefined)
      return missing(reference, "must be sent only to the servers that [identities] names for it");
    const refusal = identityRefusal(identity, destination);
    if (refusal !== undefined) return missing(reference, refusal);
    // A token of a service account is permitted here, because the operator chose the file.
    const found = fromFile(reference, identity.path, () => false);
    const isKey = found.kind === "found" && containsSealingKey(found.secret, serverKeys);
    return isKey ? missing(reference, FORBIDDEN) : found;
  };
  return (reference, destination) => {
    const [, identity] = /^identity:(.*)$/s.exec(reference) ?? [];
    if (identity !== undefined) return ofIdentity(reference, identity, destination);
    const [, kind, name = ""] = /^(env|file):(.*)$/s.exec(reference) ?? [];
    if (!isReleased(reference, released) || (kind === "file" && normalize(name) !== name)) {
      return missing(reference, "is not among the [secrets] references of this node");
    }
    const found = lookUp(String(kind), name, reference);
    const isForbidden = found.kind === "found" && isForbiddenSecret(found.secret, serverKeys);
    return isForbidden ? missing(reference, FORBIDDEN) : found;
  };
}

const FORBIDDEN = "is never available to jobs: it is a key of this server, or stored next to one";

function isReleased(reference: string, released: readonly string[]): boolean {
  return released.some((pattern) =>
    pattern.endsWith("*") ? reference.startsWith(pattern.slice(0, -1)) : reference === pattern,
  );
}

function fromEnvironment(reference: string, value: string | undefined): Found {
  if (value === undefined || value === "") return missing(reference, "is not set on this node");
  return { kind: "found", secret: value };
}

function fromFile(reference: string, path: string, isForbidden: (status: Stats) => boolean): Found {
  let file: number | undefined;
  try {
    if (!statSync(path).isFile()) return missing(reference, "is not a regular file on this node");
    file = openSync(path, "r");
    const status = fstatSync(file);
    if (isForbidden(status)) return missing(reference, FORBIDDEN);
    if (status.size > FILE_BYTES_MAX) return missing(reference, "is too long");
    const secret = readFileSync(file, "utf8").replace(/\r?\n$/, "");
    return secret === "" ? missing(reference, "is empty") : { kind: "found", secret };
  } catch (error) {
    const { code = "unreadable" } = error as NodeJS.ErrnoException;
    return missing(reference, `cannot be read on this node (${code})`);
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

function missing(reference: string, what: string): Found {
  return { kind: "missing", reason: `${reference} ${what}` };
}

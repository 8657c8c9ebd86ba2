/**
 * What a reference of a job stands for: `env:NAME` a variable of the environment, `file:/path` the content of a file without the line
 * break at its end. Only what the operator of the machine has released is looked up: whoever administers the server over HTTP could
 * send anything else to a server of their own, the keys of the store among it.
 */
import { readFileSync, statSync } from "node:fs";
import { normalize } from "node:path";
import type { SecretLookup } from "../../replicator/index.ts";

/** A credential is short; a longer file is another one. */
const FILE_BYTES_MAX = 64 * 1024;

type Found = ReturnType<SecretLookup>;

/** `released`: references, each whole, or with `*` at its end for all that begin so. */
export function secretLookup(
  environment: Readonly<Record<string, string | undefined>>,
  released: readonly string[],
): SecretLookup {
  return (reference) => {
    const [, kind, name = ""] = /^(env|file):(.*)$/s.exec(reference) ?? [];
    if (!isReleased(reference, released) || (kind === "file" && normalize(name) !== name)) {
      return missing(reference, "is not among [secrets] references of this node");
    }
    return kind === "env"
      ? fromEnvironment(reference, environment[name])
      : fromFile(reference, name);
  };
}

function isReleased(reference: string, released: readonly string[]): boolean {
  return released.some((pattern) =>
    pattern.endsWith("*") ? reference.startsWith(pattern.slice(0, -1)) : reference === pattern,
  );
}

function fromEnvironment(reference: string, value: string | undefined): Found {
  if (value === undefined || value === "") return missing(reference, "is not set on this node");
  return { kind: "found", secret: value };
}

function fromFile(reference: string, path: string): Found {
  try {
    const status = statSync(path);
    if (!status.isFile()) return missing(reference, "is no file on this node");
    if (status.size > FILE_BYTES_MAX) return missing(reference, "is too long");
    const secret = readFileSync(path, "utf8").replace(/\r?\n$/, "");
    return secret === "" ? missing(reference, "is empty") : { kind: "found", secret };
  } catch (error) {
    const { code = "unreadable" } = error as NodeJS.ErrnoException;
    return missing(reference, `cannot be read on this node (${code})`);
  }
}

function missing(reference: string, what: string): Found {
  return { kind: "missing", reason: `${reference} ${what}` };
}

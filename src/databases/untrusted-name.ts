/**
 * Database names supplied by others: listed by a server, reported by its feed, or assembled from
 * such names by a template.
 *
 * Documents of a system database become jobs and accounts, so a name that another server chose must
 * never become the name of a system database. The only way from an `UntrustedName` to a
 * `DatabaseName` is `resolve`, which refuses system names that an operator has not written in full.
 */
import { isDatabaseName } from "./names.ts";

/**
 * Names of the databases that CouchDB or Tandem treats as system databases, also after a prefix
 * (`joe/_replicator`).
 */
const SYSTEM_NAMES: ReadonlySet<string> = new Set([
  "_dbs",
  "_global_changes",
  "_metadata",
  "_nodes",
  "_replicator",
  "_users",
]);
/**
 * Maximum number of times that a path is percent-decoded. Each proxy or server on the way of a
 * request decodes the path once.
 */
const DECODINGS_MAX = 5;

/** Name of a database that the program is allowed to create and to write. */
export type DatabaseName = string & { readonly [resolved]: true };
declare const resolved: unique symbol;

export type ResolvedName =
  | { readonly kind: "name"; readonly name: DatabaseName }
  | { readonly kind: "invalid" | "system"; readonly text: string };

export class UntrustedName {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /**
   * Returns the name that `assemble` derives from this one. System names are refused unless they
   * are in `spelledOut`: names that an operator wrote in full.
   */
  resolve(spelledOut: readonly string[], assemble: (text: string) => string): ResolvedName {
    const text = assemble(this.#text);
    if (isSystemName(text) && !spelledOut.includes(text)) return { kind: "system", text };
    return isDatabaseName(text)
      ? { kind: "name", name: text as DatabaseName }
      : { kind: "invalid", text };
  }
}

/**
 * Whether some server might treat the name as a system database: in upper or lower case,
 * percent-encoded, as a path segment, or with a file suffix.
 */
export function isSystemName(name: string): boolean {
  const first = segmentsOf(name).find((segment) => segment !== "");
  return first?.startsWith("_") === true || namesSystemDatabase(name);
}

/** Whether a segment of the path of a URL is a system database. */
export function namesSystemDatabase(path: string): boolean {
  return segmentsOf(path).some((segment) =>
    SYSTEM_NAMES.has(segment.replace(/[^a-z0-9_$()+-].*$/s, "")),
  );
}

function segmentsOf(path: string): readonly string[] {
  return decoded(path).toLowerCase().split(/[/\\]/);
}

function decoded(name: string): string {
  let text = name;
  for (let round = 0; round < DECODINGS_MAX && text.includes("%"); round++) {
    text = text.replace(/%[0-7][0-9a-f]/gi, (encoded) =>
      String.fromCharCode(Number.parseInt(encoded.slice(1), 16)),
    );
  }
  return text.trim();
}

/**
 * Template for the targets of a rule: an address whose last segment, the database name, contains
 * placeholders. `{db}` is the name of the source database; `{1}`, `{2}` etc. are the pattern's
 * captures.
 */

import { largest } from "../../base/index.ts";
import type { UntrustedName } from "../../databases/index.ts";
import { percentEncode } from "../../protocol/index.ts";
import { Glob } from "../jobs/glob.ts";
import { decode, ReplicationInvalidError } from "../request/parse-fields.ts";

/**
 * Splits an address into its server, including the slash after it, and the database name. Ignores a
 * slash at the end of the address.
 */
const SERVER_AND_NAME = /^(https?:\/\/[^/?#]+\/(?:[^?#]*\/)?)([^/?#]+)\/?$/i;
const PLACEHOLDER = /\{([^{}]*)\}/g;
const CAPTURES_MAX = 9;

/** Part of a name: text, the source's name (`db`), or a capture (from 1). */
type Piece = string | { readonly capture: number | "db" };

/** Result of expanding a template: a URL or the name of a local database, or why it is invalid. */
export type ExpandedTarget =
  | { readonly kind: "target"; readonly url: string }
  | { readonly kind: "invalid"; readonly reason: string };

export class TargetTemplate {
  /** URL of the server, with a trailing slash; undefined for local databases. */
  readonly serverUrl: string | undefined;
  readonly #pieces: readonly Piece[];

  /** Parses a template. Throws a ReplicationInvalidError if it is invalid. */
  constructor(text: string) {
    const [, serverUrl, name = text] = SERVER_AND_NAME.exec(text) ?? [];
    const isUrl = /^[a-z][a-z0-9+.-]*:/i.test(text);
    if (isUrl && (serverUrl === undefined || serverUrl.includes("{"))) {
      throw invalid(text, "an http:// or https:// URL with placeholders only in its last part");
    }
    this.serverUrl = serverUrl;
    this.#pieces = piecesOf(text, isUrl ? decode(name) : name);
    const hasPlaceholder = this.#pieces.some((piece) => typeof piece !== "string");
    if (!hasPlaceholder) {
      throw invalid(
        text,
        "an address that contains {db} or {1}, so that the target depends on the database",
      );
    }
  }

  /** Highest capture number that the template uses; 0 if none. */
  get captureMax(): number {
    const asked = this.#pieces.map((piece) =>
      typeof piece === "string" || piece.capture === "db" ? 0 : piece.capture,
    );
    return largest(asked, 0);
  }

  /** Pattern that matches all names that the template can yield, and perhaps others. */
  get glob(): Glob {
    return new Glob(this.#filled(() => "*"));
  }

  /**
   * Returns the target of a source database. Accepts a system database only if it is in
   * `spelledOut`.
   */
  expand(
    database: UntrustedName,
    captures: readonly string[],
    spelledOut: readonly string[],
  ): ExpandedTarget {
    const resolved = database.resolve(spelledOut, (text) =>
      this.#filled((capture) => (capture === "db" ? text : (captures[capture - 1] ?? ""))),
    );
    if (resolved.kind !== "name")
      return { kind: "invalid", reason: REASONS[resolved.kind](resolved) };
    const { name } = resolved;
    const { serverUrl } = this;
    return { kind: "target", url: serverUrl === undefined ? name : at(serverUrl, name) };
  }

  #filled(textOf: (capture: number | "db") => string): string {
    return this.#pieces
      .map((piece) => (typeof piece === "string" ? piece : textOf(piece.capture)))
      .join("");
  }
}

/** Returns a database's URL. `serverUrl` ends in a slash. */
export function at(serverUrl: string, database: string): string {
  return serverUrl + percentEncode(database);
}

function piecesOf(text: string, name: string): readonly Piece[] {
  // The split alternates between text and the names of placeholders.
  return name.split(PLACEHOLDER).map((part, index): Piece => {
    if (index % 2 === 0) {
      if (/[{}*]/.test(part))
        throw invalid(
          text,
          "an address without *, in which braces occur only in placeholders such as {db}",
        );
      return part;
    }
    if (part === "db") return { capture: "db" };
    const capture = /^[1-9]$/.test(part) ? Number(part) : undefined;
    if (capture === undefined) {
      throw invalid(
        text,
        `an address with the placeholders {db} or {1} to {${CAPTURES_MAX}}, not {${part}}`,
      );
    }
    return { capture };
  });
}

const REASONS = {
  invalid: ({ text }: Refused) =>
    `${JSON.stringify(text)} is not a valid database name, but would be the target`,
  system: ({ text }: Refused) =>
    `${JSON.stringify(text)} would be the target, but is a system database; to permit this, list its full name in \`databases\``,
} as const;
type Refused = { readonly text: string };

function invalid(text: string, wanted: string): ReplicationInvalidError {
  return new ReplicationInvalidError(
    `\`target.url\` must be ${wanted}, but is ${JSON.stringify(maskedForError(text))}`,
  );
}

/** Masks a password in the URL, because the error is displayed. */
function maskedForError(text: string): string {
  return text.replace(/^([a-z0-9+.-]+:\/\/)[^/]*@/i, "$1").slice(0, 200);
}

/**
 * Policies that resolve conflicts. A decision depends only on the policy and the leaves, so servers
 * with the same policy that resolve the same conflict concurrently write the same revisions.
 */
import { isSystemName, type Revision } from "../databases/index.ts";
import { badRequest } from "../protocol/index.ts";

export type ConflictPolicy =
  /** The leaf whose member `field` has the greatest value wins. */
  | { readonly resolve: "last_write"; readonly field: string }
  /** The leaf with the longest history wins: it is CouchDB's winner. */
  | { readonly resolve: "longest_history" }
  /** The replicated revision that caused the conflict wins. */
  | { readonly resolve: "remote" }
  /** A JavaScript function receives the leaves and returns the resolved document. */
  | { readonly resolve: "function"; readonly function: string };

export const RESOLVE_WORDS = ["last_write", "longest_history", "remote", "function"] as const;

const FIELD_LENGTH_MAX = 200;
const FUNCTION_LENGTH_MAX = 60_000;

/** Parses the members of a policy. Throws a ProtocolError 400 that names the invalid member. */
export function parseConflictPolicy(members: ReadonlyMap<string, unknown>): ConflictPolicy {
  const resolve = RESOLVE_WORDS.find((word) => word === members.get("resolve"));
  if (resolve === undefined) throw badRequest(`\`resolve\` must be ${RESOLVE_WORDS.join(", ")}`);
  const argument = { last_write: "field", function: "function" }[resolve as string];
  for (const name of members.keys()) {
    if (name === "resolve" || name === argument) continue;
    throw badRequest(`\`${name}\` is not known with \`resolve\`: "${resolve}"`);
  }
  if (resolve === "last_write") {
    const field = members.get("field");
    if (typeof field === "string" && isField(field)) return { resolve, field };
    const form = `such as "updated_at" or "meta.time", at most ${FIELD_LENGTH_MAX} characters`;
    throw badRequest(`\`field\` must be the path of a member, ${form}`);
  }
  if (resolve !== "function") return { resolve };
  const source = members.get("function");
  if (typeof source === "string" && source !== "" && source.length <= FUNCTION_LENGTH_MAX) {
    return { resolve, function: source };
  }
  const form = `a JavaScript function of at most ${FUNCTION_LENGTH_MAX} characters`;
  throw badRequest(`\`function\` must be the source of ${form}`);
}

/**
 * Whether the path denotes a member of a body. Members that begin with an underscore are not part
 * of a body.
 */
function isField(field: string): boolean {
  if (field.length > FIELD_LENGTH_MAX || field.startsWith("_")) return false;
  return field.split(".").every((segment) => segment !== "");
}

/** Throws a ProtocolError 400 for a system database, whose documents affect the server. */
export function checkConflictDatabase(name: string): void {
  if (!isSystemName(name)) return;
  throw badRequest(`Conflicts in ${name} are not resolved by a policy: it is a system database`);
}

/** The facts about an undeleted leaf that a policy without a function needs. */
export interface RankedLeaf {
  readonly revision: Revision;
  readonly isRemote: boolean;
  /** Value of the policy's `field` in this leaf, if the policy has one. */
  readonly written: WriteTime | undefined;
}

/**
 * Returns the index of the winning leaf among `leaves`, which are in CouchDB's order. Every policy
 * except `remote` ranks all leaves, so the winner also wins in every subset that contains it.
 */
export function winningLeaf(
  { resolve }: Exclude<ConflictPolicy, { resolve: "function" }>,
  leaves: readonly RankedLeaf[],
): number {
  if (resolve === "longest_history") return 0;
  if (resolve === "remote")
    return Math.max(
      0,
      leaves.findIndex(({ isRemote }) => isRemote),
    );
  let best = 0;
  for (let index = 1; index < leaves.length; index++) {
    const { written } = leaves[index] as RankedLeaf;
    if (compareWriteTimes(written, leaves[best]?.written) > 0) best = index;
  }
  return best;
}

/** Value by which writes are ordered: a number, or a time in seconds since the epoch. */
export interface WriteTime {
  readonly kind: "number" | "time";
  readonly units: number;
  /**
   * Digits after the decimal point of the seconds, without trailing zeros. Empty for `kind`
   * "number".
   */
  readonly fraction: string;
}

/** Compares two values of a policy's field. Missing values come first, then numbers, then times. */
export function compareWriteTimes(
  left: WriteTime | undefined,
  right: WriteTime | undefined,
): number {
  const rank = (time: WriteTime | undefined) => [undefined, "number", "time"].indexOf(time?.kind);
  if (left === undefined || right === undefined || left.kind !== right.kind) {
    return rank(left) - rank(right);
  }
  if (left.units !== right.units) return left.units - right.units;
  if (left.fraction === right.fraction) return 0;
  return left.fraction < right.fraction ? -1 : 1;
}

const TIME =
  /^(\d{4}-\d{2}-\d{2})(?:[Tt ](\d{2}:\d{2}(?::\d{2})?)(?:[.,](\d{1,30}))?([Zz]|[+-]\d{2}:?\d{2})?)?$/;

/**
 * Returns the value of a number up to 2^53, or of an ISO 8601 date or time (in UTC if it has no
 * offset); undefined for any other value.
 */
export function writeTimeOf(value: unknown): WriteTime | undefined {
  if (typeof value === "number") {
    const isExact = Math.abs(value) <= Number.MAX_SAFE_INTEGER;
    return isExact ? { kind: "number", units: value, fraction: "" } : undefined;
  }
  const match = typeof value === "string" ? TIME.exec(value) : null;
  if (match === null) return undefined;
  const [, day = "", time = "00:00", fraction = "", offset = "Z"] = match;
  const local = time.length === 5 ? `${day}T${time}:00Z` : `${day}T${time}Z`;
  const localMs = Date.parse(local);
  // `Date.parse` also accepts 24:00:00 and the 31st of any month.
  if (Number.isNaN(localMs) || new Date(localMs).toISOString().slice(0, 19) !== local.slice(0, 19))
    return undefined;
  const offsetSec = offsetSeconds(offset);
  if (offsetSec === undefined) return undefined;
  const units = localMs / 1000 - offsetSec;
  return { kind: "time", units, fraction: fraction.replace(/0+$/, "") };
}

/** Returns `undefined` for an offset of a day or more. */
function offsetSeconds(offset: string): number | undefined {
  if (/^z$/i.test(offset)) return 0;
  const hours = Number(offset.slice(1, 3));
  const minutes = Number(offset.slice(-2));
  if (hours > 23 || minutes > 59) return undefined;
  return (offset.startsWith("-") ? -1 : 1) * (hours * 60 + minutes) * 60;
}

/** Interprets responses to `_revs_diff` from untrusted servers. */
import { isRevision, type MissingRevisions } from "../../../databases/index.ts";
import { asObject } from "./json-answer.ts";

/**
 * Maximum number of ancestors sent as `atts_since`. A few are enough to avoid refetching
 * attachments, and each lengthens the request.
 */
const ANCESTORS_MAX = 1_000;

/**
 * Returns those of the requested revisions that are missing. Returns undefined if the response is
 * malformed or names revisions that were not requested, because the response is then unreliable.
 */
export function missingOf(
  answer: Readonly<Record<string, unknown>>,
  asked: ReadonlyMap<string, readonly string[]>,
): ReadonlyMap<string, MissingRevisions> | undefined {
  const missing = new Map<string, MissingRevisions>();
  for (const [id, row] of Object.entries(answer)) {
    const { missing: named, possible_ancestors: ancestors = [] } = asObject(row) ?? {};
    const lacking = lackingOf(asked.get(id), named);
    if (lacking === undefined || !Array.isArray(ancestors)) return undefined;
    const possibleAncestors = ancestors.slice(0, ANCESTORS_MAX).filter(isRevisionText);
    missing.set(id, { missing: lacking, possibleAncestors });
  }
  return missing;
}

/**
 * Returns the revisions of one document that the response names as missing, spelled as in the
 * request; undefined if it names a revision that was not requested. Letter case is ignored, since a
 * server might change it.
 */
function lackingOf(asked: readonly string[] | undefined, named: unknown): string[] | undefined {
  if (asked === undefined || !Array.isArray(named)) return undefined;
  const exact = new Set(asked);
  let alike: ReadonlyMap<string, readonly string[]> | undefined;
  const lacking = new Set<string>();
  for (const revision of named) {
    if (typeof revision !== "string") return undefined;
    if (exact.has(revision)) {
      lacking.add(revision);
      continue;
    }
    alike ??= bySpelling(asked);
    const meant = alike.get(revision.toLowerCase());
    if (meant === undefined) return undefined;
    for (const each of meant) lacking.add(each);
  }
  return [...lacking];
}

function bySpelling(revisions: readonly string[]): ReadonlyMap<string, readonly string[]> {
  const alike = new Map<string, string[]>();
  for (const revision of revisions) {
    const folded = revision.toLowerCase();
    const known = alike.get(folded);
    if (known === undefined) alike.set(folded, [revision]);
    else known.push(revision);
  }
  return alike;
}

function isRevisionText(value: unknown): value is string {
  return typeof value === "string" && isRevision(value);
}

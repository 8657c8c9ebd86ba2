/** The answer to `_revs_diff`, of servers that may answer anything. */
import { isRevision, type MissingRevisions } from "../../../databases/index.ts";
import { asObject } from "./json-answer.ts";

/** Ancestors spare attachments: a few are enough, and each of them goes into a question. */
const ANCESTORS_MAX = 1_000;

/**
 * What is missing of the revisions that were asked for. Undefined when the answer speaks of others, or its rows are none: then it cannot be
 * told what else is missing.
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
 * The revisions of one document that are named, as they were asked for; undefined when others are, too. A server may write a hash in
 * its own way. Revisions that are no hashes may differ in nothing but that: then each of them may be meant.
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

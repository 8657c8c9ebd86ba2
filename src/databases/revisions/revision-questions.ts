/** Computes `_revs_info` and `_revs_diff` from a document's tree. */
import type { Revision } from "../document.ts";
import { formatRevision, parseRevision } from "./revision.ts";
import type { RevisionNode, RevisionTree } from "./revision-tree.ts";

/** A revision's entry in `_revs_info`. */
export interface RevisionStatus {
  readonly revision: Revision;
  readonly status: "available" | "missing" | "deleted";
}

/** The requested revisions that a database lacks, and leaves that could be their ancestors. */
export interface MissingRevisions {
  readonly missing: readonly Revision[];
  readonly possibleAncestors: readonly Revision[];
}

/**
 * Returns the revision and its known ancestors, with the status of their bodies. `hasOldBody` is
 * called for ancestors.
 */
export async function statusesBelow(
  tree: RevisionTree,
  revision: Revision,
  hasOldBody: (node: RevisionNode) => Promise<boolean>,
): Promise<RevisionStatus[]> {
  const asked: Promise<RevisionStatus>[] = [];
  let node: RevisionNode | undefined = tree.find(parseRevision(revision));
  for (; node !== undefined; node = node.parent) asked.push(statusOf(node, hasOldBody));
  return Promise.all(asked);
}

async function statusOf(
  node: RevisionNode,
  hasOldBody: (node: RevisionNode) => Promise<boolean>,
): Promise<RevisionStatus> {
  const revision = formatRevision(node);
  if (node.leaf?.deleted === true) return { revision, status: "deleted" };
  const isThere = node.leaf !== undefined || (await hasOldBody(node));
  return { revision, status: isThere ? "available" : "missing" };
}

/** Returns the revisions that are not in the tree, and leaves that could be their ancestors. */
export function missingFrom(tree: RevisionTree, revisions: readonly Revision[]): MissingRevisions {
  const missing: Revision[] = [];
  let generationMax = 0;
  for (const revision of revisions) {
    const parts = parseRevision(revision);
    if (tree.find(parts) !== undefined) continue;
    missing.push(revision);
    generationMax = Math.max(generationMax, parts.generation);
  }
  const possibleAncestors: Revision[] = [];
  for (const leaf of tree.leaves) {
    if (leaf.generation < generationMax) possibleAncestors.push(formatRevision(leaf));
  }
  return { missing, possibleAncestors };
}

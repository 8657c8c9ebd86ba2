/**
 * Tells a listed revision that a source has no more from one that it does not deliver. The source has it no more when it was purged, or when
 * the database was made again: then it will never arrive.
 *
 * That the source does not deliver it says too little: a node of a cluster may be away, or a proxy in the way. So the source must not
 * announce it, either, and what it announces of the document in its place must be there, and not descend from it. A leaf in its place has
 * a row of its own in the changes, so it is copied or listed by itself.
 */
import { append, errorCode, OperationalError } from "../../base/index.ts";
import { formatRevision, parseRevision } from "../../protocol/index.ts";
import type { Endpoint, RevisionRequest } from "../endpoints/endpoint.ts";
import { wireOf } from "./omitted.ts";

type Listed = Pick<RevisionRequest, "id" | "revision">;

/** Of a revision that the source has just not delivered. False when in doubt, as when the source fails over the question. */
export async function isGone(
  source: Endpoint,
  listed: Listed,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const leaves = await announcedLeaves(source, listed.id, signal);
    if (leaves.includes(listed.revision)) return false;
    for (const leaf of leaves) {
      if (!(await isOfAnotherBranch(source, listed, leaf, signal))) return false;
    }
    return true;
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof OperationalError) || errorCode(error) === "JOBS_HALTED") throw error;
    return false;
  }
}

async function announcedLeaves(
  source: Endpoint,
  id: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const leaves: string[] = [];
  const request = {
    since: 0,
    continuous: false,
    selection: { kind: "doc-ids", ids: [id] },
    winningRevisionsOnly: false,
  } as const;
  for await (const items of source.changes(request, signal)) {
    for (const item of items) {
      if (item.kind === "change" && item.change.id === id) append(leaves, item.change.revisions);
    }
  }
  return leaves;
}

/** Whether the source has the leaf, or what descends from it, and its history is without the listed revision. */
async function isOfAnotherBranch(
  source: Endpoint,
  { id, revision }: Listed,
  leaf: string,
  signal: AbortSignal,
): Promise<boolean> {
  if (generationOf(leaf) <= generationOf(revision)) return true;
  let isOther = true;
  // It counts as its own ancestor, so that no bytes of attachments are sent.
  const isThere = await source.readRevision(
    { id, revision: leaf, ancestors: [leaf] },
    async (document) => {
      const { start, hashes } = wireOf(document)?.revisions ?? { start: 0, hashes: [] };
      const history = hashes.map((hash, index) => formatRevision(start - index, hash));
      if (history.length === 0 || history.includes(revision)) isOther = false;
    },
    signal,
  );
  return isThere && isOther;
}

function generationOf(revision: string): number {
  return parseRevision(revision)?.generation ?? Number.POSITIVE_INFINITY;
}

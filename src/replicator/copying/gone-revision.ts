/**
 * Examines revisions on the list of failures. Distinguishes revisions that no longer exist on the
 * source, because of a purge or a re-created database, from revisions that the source currently
 * does not deliver, for example because a cluster node or proxy is failing.
 *
 * A revision is gone only if it is no longer in the source's changes, the source delivers all
 * leaves of the document, and no leaf descends from the revision. Each leaf is listed in the
 * changes, and is therefore copied independently.
 */
import { append, errorCode, OperationalError } from "../../base/index.ts";
import { formatRevision, parseRevision } from "../../protocol/index.ts";
import type { Endpoint, RevisionRequest } from "../endpoints/endpoint.ts";
import { wireOf } from "./omitted.ts";

type Listed = Pick<RevisionRequest, "id" | "revision">;

/**
 * Whether a revision no longer exists, after the source has failed to deliver it. Returns false if
 * in doubt, for example after an error.
 */
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
      if (item.id === id) append(leaves, item.revisions);
    }
  }
  return leaves;
}

/**
 * Whether the source delivers `leaf`, or a descendant of it, and the history of the delivered
 * revision does not contain `revision`.
 */
async function isOfAnotherBranch(
  source: Endpoint,
  { id, revision }: Listed,
  leaf: string,
  signal: AbortSignal,
): Promise<boolean> {
  if (generationOf(leaf) <= generationOf(revision)) return true;
  let isOther = true;
  // With the revision itself as a known ancestor, the source omits the attachments.
  const isThere = await source.reader.readRevision(
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

/** `/_tandem/conflicts` and `/_tandem/databases/{db}/conflicts`. CouchDB has no counterpart. */
import { type ConflictCounts, type ConflictPage, QUERIES } from "../../contract/index.ts";
import type { Conflict, Leaf, Unresolved } from "../../databases/index.ts";
import { readDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readQuery } from "../http/query.ts";
import { json } from "../http/responses.ts";
import { CONFLICTS, OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

/** Maximum number of revisions that are listed for a document. */
const LEAVES_MAX = 100;

export function conflictRoutes(parts: DatabaseParts): readonly Route[] {
  return [
    defineRoute("GET", "/_tandem/conflicts", OPERATIONS, (call) => listDatabases(parts, call)),
    defineRoute("GET", "/_tandem/databases/{database}/conflicts", CONFLICTS, (call) =>
      listConflicts(parts, call),
    ),
  ];
}

async function listDatabases({ kv, databases }: DatabaseParts, call: Call): Promise<ApiResponse> {
  const { limit, bookmark: after } = readQuery(call, QUERIES["GET /_tandem/conflicts"]);
  const { entries, stoppedBy } = await kv.read((tx) => {
    return databases.conflictCounts(tx, { after, limit });
  });
  const answer = {
    databases: entries
      .filter(({ count }) => count > 0)
      .map(({ name, count }) => ({ name, conflicts: count })),
    bookmark: stoppedBy === "exhausted" ? null : (entries.at(-1)?.name ?? null),
  } satisfies ConflictCounts;
  return json(200, answer);
}

async function listConflicts(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const { limit, bookmark: afterId } = readQuery(
    call,
    QUERIES["GET /_tandem/databases/{database}/conflicts"],
  );
  return readDatabase(parts, call, async (tx, database) => {
    const { count, isComplete } = await database.conflicts.count(tx);
    const { entries, stoppedBy } = await database.conflicts.page(tx, { afterId, limit });
    const ids = entries.map(({ id }) => id);
    const leaves = await database.documents.leavesOf(tx, ids);
    const unresolved = await database.resolutions.unresolved(tx, ids);
    const answer = {
      total_rows: count,
      complete: isComplete,
      bookmark: stoppedBy === "exhausted" ? null : (entries.at(-1)?.id ?? null),
      conflicts: entries.flatMap((entry, index) => {
        return conflictView(entry, leaves[index] as Leaf[], unresolved[index]);
      }),
    } satisfies ConflictPage;
    return json(200, answer);
  });
}

/**
 * Returns a list with the conflict of one document, or an empty list if the document is hidden from
 * the user.
 */
function conflictView(
  { id, sinceMs, jobId }: Conflict,
  leaves: readonly Leaf[],
  unresolved: Unresolved | undefined,
) {
  const [winner, ...others] = leaves.filter(({ deleted }) => !deleted);
  if (winner === undefined) return [];
  return [
    {
      id,
      winner: winner.revision,
      conflicts: others.slice(0, LEAVES_MAX).map(({ revision }) => revision),
      leaves: others.length + 1,
      since: sinceMs === undefined ? null : new Date(sinceMs).toISOString(),
      job_id: jobId ?? null,
      unresolved: unresolved
        ? { time: new Date(unresolved.timeMs).toISOString(), reason: unresolved.reason }
        : null,
    },
  ];
}

/** Writes the final states of jobs, completed or failed, into `_replicator` documents (RFC 016). */
import {
  type JsonText,
  type JsonValue,
  joinObject,
  outlineJson,
  Utf8Text,
} from "../../base/index.ts";
import type {
  Database,
  DatabaseRegistry,
  Document,
  DocumentEdit,
  WriteContext,
} from "../../databases/index.ts";
import type { Transaction } from "../../kv/index.ts";
import { scheduledStatistics } from "../job-lists/job-views.ts";
import type { JobDocument, ReplicationJobData } from "../jobs/job-data.ts";
import { isoTime } from "../times.ts";

/** Identifies the replicator's own writes. Not exported by the replicator's index. */
export const REPLICATOR: unique symbol = Symbol("replicator");

const CONTEXT: WriteContext = {
  userName: null,
  roles: ["_replicator"],
  isAdmin: true,
  replicator: REPLICATOR,
};

const STATE_MEMBERS = new Set([
  "_replication_state",
  "_replication_state_time",
  "_replication_state_reason",
  "_replication_stats",
  "_replication_id",
]);

/** Writes the state in the transaction that ends the run, unless the document is deleted. */
export async function writeDocumentState(
  tx: Transaction,
  databases: DatabaseRegistry,
  data: ReplicationJobData,
  nowMs: number,
): Promise<void> {
  if (data.document === undefined) return;
  await rewriteDocuments(tx, databases, [data.document], (_, stored) => {
    const before = outlineBody(stored);
    const isSameState = before.member("_replication_state")?.isString(data.state) === true;
    const time = isSameState ? before.member("_replication_state_time")?.string : undefined;
    const members: Record<string, unknown> = {
      _replication_state: data.state,
      _replication_state_time: time || isoTime(nowMs),
    };
    if (data.state === "failed") {
      const { error, reason } = data.failure;
      members._replication_state_reason = `${error}: ${reason}`;
    }
    if (data.state === "completed") {
      members._replication_stats = {
        ...scheduledStatistics({ data, backlog: undefined }),
        start_time: isoTime(data.lastStartMs),
      };
    }
    return withStateMembers(before, members);
  });
}

/** Removes the state from a document whose job starts. */
export async function clearDocumentState(
  tx: Transaction,
  databases: DatabaseRegistry,
  document: JobDocument,
): Promise<void> {
  await rewriteDocuments(tx, databases, [document], (_, stored) => {
    const before = outlineBody(stored);
    const hasState = [...STATE_MEMBERS].some((name) => before.member(name) !== undefined);
    return hasState ? withStateMembers(before, {}) : stored.body.text;
  });
}

/** Scans only the top level of a body, because a body can have two million characters. */
function outlineBody({ body }: Document): JsonValue {
  return outlineJson(body.bytes, { depthMax: 1 });
}

/**
 * Replaces the bodies of documents by those that `bodyOf` returns, keeping the documents' authority
 * and jobs. Returns the documents that have these bodies: all except those that no longer exist,
 * and those whose write was rejected.
 */
export async function rewriteDocuments(
  tx: Transaction,
  databases: DatabaseRegistry,
  documents: readonly JobDocument[],
  bodyOf: (document: JobDocument, stored: Document) => JsonText,
): Promise<ReadonlySet<JobDocument>> {
  const rewritten = new Set<JobDocument>();
  for await (const { database, documents: here, ids } of byDatabase(tx, databases, documents)) {
    const winners = await database.documents.winners(tx, ids);
    const edits = here.flatMap((document, index) => {
      const stored = winners[index];
      if (stored === undefined || stored.deleted) return [];
      const { id, revision: parent, attachments, authority } = stored;
      const body = bodyOf(document, stored);
      rewritten.add(document);
      if (body === stored.body.text) return [];
      const stubs = attachments.map(({ name }) => ({ kind: "stub", name }) as const);
      const content = { body: Utf8Text.of(body), attachments: stubs, authority };
      const edit = { mode: "interactive", id, parent, deleted: false, ...content } as const;
      return [{ document, edit }];
    });
    for (const document of await rejected(tx, database, edits, CONTEXT)) rewritten.delete(document);
  }
  return rewritten;
}

/**
 * Deletes replication documents and their jobs. Returns the deleted documents: all except those
 * that no longer exist, and those whose write was rejected.
 */
export async function removeReplicationDocuments(
  tx: Transaction,
  databases: DatabaseRegistry,
  documents: readonly JobDocument[],
): Promise<ReadonlySet<JobDocument>> {
  // Do not use the replicator's own context: the hook would ignore the deletion, and the job would
  // remain.
  const context: WriteContext = { userName: null, roles: ["_admin"], isAdmin: true };
  const deletion = { deleted: true, body: Utf8Text.of("{}"), attachments: [] } as const;
  const removed = new Set<JobDocument>();
  for await (const { database, documents: here, ids } of byDatabase(tx, databases, documents)) {
    const leaves = await database.documents.leavesOf(tx, ids);
    const edits = here.flatMap((document, index) => {
      const winner = leaves[index]?.[0];
      if (winner === undefined || winner.deleted) return [];
      removed.add(document);
      const { revision: parent } = winner;
      const edit = { mode: "interactive", id: document.id, parent, ...deletion } as const;
      return [{ document, edit }];
    });
    for (const document of await rejected(tx, database, edits, context)) removed.delete(document);
  }
  return removed;
}

/** Yields the documents of each database, without those of databases that no longer exist. */
async function* byDatabase(
  tx: Transaction,
  databases: DatabaseRegistry,
  documents: readonly JobDocument[],
) {
  for (const uuid of new Set(documents.map(({ databaseUuid }) => databaseUuid))) {
    const here = documents.filter(({ databaseUuid }) => databaseUuid === uuid);
    const database = await databases.find(tx, (here[0] as JobDocument).database);
    if (database?.uuid !== uuid) continue;
    yield { database, documents: here, ids: here.map(({ id }) => id) };
  }
}

/** Writes the edits in one batch. Returns the documents that are not written. */
async function rejected(
  tx: Transaction,
  database: Database,
  edits: readonly { readonly document: JobDocument; readonly edit: DocumentEdit }[],
  context: WriteContext,
): Promise<readonly JobDocument[]> {
  const written = await database.writeMany(
    tx,
    edits.map(({ edit }) => edit),
    context,
  );
  return edits.flatMap(({ document }, index) =>
    written[index]?.kind === "written" ? [] : [document],
  );
}

/** Replaces the state members; the user's members are unchanged. */
function withStateMembers(body: JsonValue, members: Readonly<Record<string, unknown>>): JsonText {
  const kept = body.members().filter(({ name }) => !STATE_MEMBERS.has(name));
  const added = Object.entries(members).map(([name, value]) => ({
    name,
    value: JSON.stringify(value),
  }));
  return joinObject([...kept, ...added]);
}

/** Returns the state in a document's body. */
export function documentState(members: Readonly<Record<string, unknown>>): string | undefined {
  const state = members._replication_state;
  return typeof state === "string" ? state : undefined;
}

/** Writes the final states of jobs, completed or failed, into `_replicator` documents (RFC 016). */
import {
  errorCode,
  type JsonText,
  type JsonValue,
  joinObject,
  outlineJson,
  Utf8Text,
} from "../../base/index.ts";
import type { Database, DatabaseRegistry, Document, WriteContext } from "../../databases/index.ts";
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
  const found = data.document && (await findDocument(tx, databases, data.document));
  if (found === undefined) return;
  const { database, stored } = found;
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
  await rewrite(tx, database, stored, withStateMembers(before, members));
}

/** Removes the state from a document whose job starts. */
export async function clearDocumentState(
  tx: Transaction,
  databases: DatabaseRegistry,
  document: JobDocument,
): Promise<void> {
  const found = await findDocument(tx, databases, document);
  if (found === undefined) return;
  const { database, stored } = found;
  const before = outlineBody(stored);
  const hasState = [...STATE_MEMBERS].some((name) => before.member(name) !== undefined);
  if (hasState) await rewrite(tx, database, stored, withStateMembers(before, {}));
}

/** Scans only the top level of a body, because a body can have two million characters. */
function outlineBody({ body }: Document): JsonValue {
  return outlineJson(body.bytes, { depthMax: 1 });
}

/**
 * Replaces a document's body, keeping the document's authority and job. Returns false if the write
 * is rejected.
 */
export async function rewrite(
  tx: Transaction,
  database: Database,
  { id, revision: parent, body: before, attachments, authority }: Document,
  body: JsonText,
): Promise<boolean> {
  if (body === before.text) return true;
  const stubs = attachments.map(({ name }) => ({ kind: "stub", name }) as const);
  const edit = {
    mode: "interactive",
    id,
    parent,
    deleted: false,
    body: Utf8Text.of(body),
    attachments: stubs,
    authority,
  } as const;
  return (await database.write(tx, edit, CONTEXT)).kind === "written";
}

/** Deletes a replication document and its job. Returns false if the document no longer exists. */
export async function removeReplicationDocument(
  tx: Transaction,
  databases: DatabaseRegistry,
  document: JobDocument,
): Promise<boolean> {
  const found = await findDocument(tx, databases, document);
  if (found === undefined) return false;
  const { database, stored } = found;
  const { id, revision: parent } = stored;
  const edit = {
    mode: "interactive",
    id,
    parent,
    deleted: true,
    body: Utf8Text.of("{}"),
    attachments: [],
  } as const;
  // Do not use the replicator's own context: the hook would ignore the deletion, and the job would
  // remain.
  const context: WriteContext = { userName: null, roles: ["_admin"], isAdmin: true };
  return (await database.write(tx, edit, context)).kind === "written";
}

/** Finds a job's document and its database. Returns `undefined` if one of them no longer exists. */
async function findDocument(
  tx: Transaction,
  databases: DatabaseRegistry,
  { database: name, databaseUuid, id }: JobDocument,
): Promise<{ readonly database: Database; readonly stored: Document } | undefined> {
  const database = await databases.open(tx, name).catch((error: unknown) => {
    if (errorCode(error) === "STORE_DATABASE_NOT_FOUND") return undefined;
    throw error;
  });
  if (database?.uuid !== databaseUuid) return undefined;
  const stored = await database.documents.read(tx, id);
  return stored === undefined || stored.deleted ? undefined : { database, stored };
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

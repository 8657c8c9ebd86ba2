/**
 * Authority of the leaves of replication documents. A write notes it in the new leaf, and the job of a document has that of the
 * winning leaf, whatever made that leaf win: an edit, a deletion, a purge, a replication, or an update of the replicator's own.
 */
import {
  type Authority,
  authorityOf,
  type DocumentEdit,
  type HookedDatabase,
  type WriteContext,
} from "../../databases/index.ts";
import type { Job } from "../../jobs/index.ts";
import type { ReadTransaction } from "../../kv/index.ts";
import type { ReplicationFailure } from "../jobs/failing.ts";
import { decodeJob } from "../jobs/job-data-record.ts";
import type { Members } from "../request/parse-fields.ts";
import { ownerOnceWritten } from "./replication-document-access.ts";

/** Why a leaf without a recorded author has no job. */
export const UNRECORDED: ReplicationFailure = {
  error: "forbidden",
  reason:
    "An older version stored this revision without the rights of its author: save the document again",
};

/**
 * Returns the authority of the leaf that the edit makes. Only server admins write in the name of another user: he keeps the rights
 * that his document or its job has, and otherwise has those of our own directory.
 */
export async function authorityOfEdit(
  tx: ReadTransaction,
  database: HookedDatabase,
  edit: DocumentEdit,
  writer: WriteContext,
  job: () => Promise<Job | undefined>,
): Promise<Authority> {
  const isCopy = edit.mode === "replicated";
  const own: Authority = { ...authorityOf(writer), ...(isCopy ? { isCopy } : {}) };
  if (writer.bringsCopies || edit.deleted) return own;
  const { owner } = JSON.parse(edit.body.text) as Members;
  const userName = ownerOnceWritten(owner, writer);
  if (userName === writer.userName) return own;
  const before = (await parentAuthority(tx, database, edit)) ?? authorityOfJob(await job());
  if (before?.userName !== userName) return { ...own, userName, vouched: undefined };
  return isCopy ? { ...before, isCopy } : before;
}

async function parentAuthority(
  tx: ReadTransaction,
  database: HookedDatabase,
  edit: DocumentEdit,
): Promise<Authority | undefined> {
  if (edit.mode === "replicated" || edit.parent === undefined) return undefined;
  const [parent] = await database.readRevision(tx, edit.id, edit.parent);
  return parent?.authority;
}

/** Returns what is known of a winner whose authority is not recorded: it may keep the job that is there, and get no other. */
export function unrecordedAuthority({ owner }: Members, job: Job | undefined): Authority {
  const userName = typeof owner === "string" ? owner : null;
  const before = authorityOfJob(job);
  return before?.userName === userName ? before : { userName, wasAdmin: false };
}

function authorityOfJob(job: Job | undefined): Authority | undefined {
  if (job === undefined) return undefined;
  const { userName, vouched, wasAdmin, isCopy } = decodeJob(job);
  return { userName, vouched, wasAdmin, isCopy };
}

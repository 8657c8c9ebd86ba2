/**
 * Authority (author and rights) of the leaf revisions of replication documents. Each write records
 * the authority in the new leaf. A document's job has the authority of the winning leaf, no matter
 * how this leaf won: by an edit, deletion, purge, replication or an update by the replicator.
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

/** Failure shown for a document whose winning revision was stored without its author. */
export const UNRECORDED: ReplicationFailure = {
  error: "forbidden",
  reason:
    "An older version of Tandem stored this revision without recording its author's rights; save the document again",
};

/**
 * Returns the authority for a new leaf: usually that of the writer. A server admin can write a
 * document that belongs to another user. The document then keeps that user's authority, as stored
 * with the replaced revision or with the job. If it is stored with neither, the user's rights are
 * looked up in the local directory.
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
  const [parent] = await database.documents.readRevision(tx, edit.id, edit.parent);
  return parent?.authority;
}

/**
 * Returns the authority for a winning revision whose author was not stored: that of the existing
 * job if document and job have the same owner, otherwise an authority without rights.
 */
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

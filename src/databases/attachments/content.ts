/** Stored attachment content: finds content identical to staged content, and deletes content. */
import { assert, OperationalError } from "../../base/index.ts";
import { type ReadTransaction, removeInBackground, type Transaction } from "../../kv/index.ts";
import type { StagedContent } from "../document.ts";
import { digestBytes } from "../records/body-record.ts";
import { decodeContentId, decodeContentRecord } from "../records/content-record.ts";
import { contentElement, type DatabaseKeys } from "../records/database-keys.ts";

/**
 * Returns for each staged item, in order, the item itself or earlier content with the same bytes.
 * Reads the content records, so that the transaction conflicts with a concurrent reclaim. Throws
 * STORE_ATTACHMENT_CONTENT_GONE if content has been reclaimed.
 */
export async function sharedContents(
  tx: ReadTransaction,
  keys: DatabaseKeys,
  staged: readonly StagedContent[],
): Promise<StagedContent[]> {
  const sharedIds = await tx.getMany(
    staged.map(({ digest, encoding, encodedLength }) =>
      keys.contentByDigest.key({
        digest: digestBytes(digest),
        encoding: encoding ?? "",
        length: encodedLength,
      }),
    ),
  );
  const contentIds = staged.map(({ contentId }, index) => {
    const sharedId = sharedIds[index];
    return sharedId === undefined ? contentId : decodeContentId(sharedId);
  });
  const records = await tx.getMany(
    contentIds.map((contentId) => keys.content.key(contentElement(contentId))),
  );
  return staged.map(({ digest, encoding, length, encodedLength }, index) => {
    const contentId = contentIds[index] as string;
    const record = records[index];
    if (record === undefined) throw contentGone(contentId);
    assert(
      decodeContentRecord(record).digest === digest,
      "The digest of the content must match the document",
    );
    return { contentId, digest, encoding, length, encodedLength };
  });
}

/**
 * Content up to this size is deleted in the transaction; larger content is removed in the
 * background.
 */
const CLEARED_BYTES_MAX = 262_144;

/** The database that stores the content: its keys, and its name for operators. */
export interface ContentDatabase {
  readonly keys: DatabaseKeys;
  readonly name: string;
}

/**
 * Deletes the bytes of stored content, or queues their removal. `encodedLength` is undefined if the
 * upload was never completed.
 */
export function clearChunks(
  tx: Transaction,
  { keys, name: subject }: ContentDatabase,
  { contentId, encodedLength }: { readonly contentId: string; readonly encodedLength?: number },
  nowMs: number,
): void {
  const chunks = keys.contentChunk.range(contentElement(contentId));
  if (encodedLength !== undefined && encodedLength <= CLEARED_BYTES_MAX) tx.clearRange(chunks);
  else removeInBackground(tx, chunks, { kind: "attachment", subject, nowMs });
}

/** Deletes unreferenced content. */
export async function clearContent(
  tx: Transaction,
  database: ContentDatabase,
  contentId: string,
  nowMs: number,
): Promise<void> {
  const { keys } = database;
  const value = await tx.get(keys.content.key(contentElement(contentId)));
  const record = value && decodeContentRecord(value);
  clearChunks(tx, database, { ...record, contentId }, nowMs);
  // An upload that was never completed has no record.
  if (record === undefined) return;
  tx.clear(keys.content.key(contentElement(contentId)));
  const { digest, encoding, encodedLength } = record;
  const digestKey = keys.contentByDigest.key({
    digest: digestBytes(digest),
    encoding: encoding ?? "",
    length: encodedLength,
  });
  const sharedId = await tx.get(digestKey);
  if (sharedId !== undefined && decodeContentId(sharedId) === contentId) tx.clear(digestKey);
}

export function contentGone(contentId: string): OperationalError {
  return new OperationalError(
    "STORE_ATTACHMENT_CONTENT_GONE",
    "The bytes of the attachment no longer exist",
    { contentId },
  );
}

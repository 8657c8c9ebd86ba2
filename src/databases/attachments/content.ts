/** A stored content as a whole: finds the content that equals staged bytes, and clears contents. */
import { assert, OperationalError } from "../../base/index.ts";
import type { ReadTransaction, Transaction } from "../../kv/index.ts";
import type { StagedContent } from "../document.ts";
import { digestBytes } from "../records/body-record.ts";
import { decodeContentId, decodeContentRecord } from "../records/content-record.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";

/**
 * The contents that stand for the staged ones, in their order: each itself, or an earlier one with the same bytes. Reading its record makes
 * the transaction conflict with a reclaim of it. Throws STORE_ATTACHMENT_CONTENT_GONE when one was reclaimed already.
 */
export async function sharedContents(
  tx: ReadTransaction,
  keys: DatabaseKeys,
  staged: readonly StagedContent[],
): Promise<StagedContent[]> {
  const sharedIds = await tx.getMany(
    staged.map(({ digest, encoding, encodedLength }) =>
      keys.contentByDigest(digestBytes(digest), encoding, encodedLength),
    ),
  );
  const contentIds = staged.map(({ contentId }, index) => {
    const sharedId = sharedIds[index];
    return sharedId === undefined ? contentId : decodeContentId(sharedId);
  });
  const records = await tx.getMany(contentIds.map((contentId) => keys.content(contentId)));
  return staged.map(({ digest, encoding, length, encodedLength }, index) => {
    const contentId = contentIds[index] as string;
    const record = records[index];
    if (record === undefined) throw contentGone(contentId);
    assert(
      decodeContentRecord(record).digest === digest,
      "A content has the digest of its document",
    );
    return { contentId, digest, encoding, length, encodedLength };
  });
}

/** Clears a content that nothing refers to. */
export async function clearContent(
  tx: Transaction,
  keys: DatabaseKeys,
  contentId: string,
): Promise<void> {
  const record = await tx.get(keys.content(contentId));
  tx.clearRange(keys.contentChunks(contentId));
  // An upload that was never finished has no record.
  if (record === undefined) return;
  tx.clear(keys.content(contentId));
  const { digest, encoding, encodedLength } = decodeContentRecord(record);
  const digestKey = keys.contentByDigest(digestBytes(digest), encoding, encodedLength);
  const sharedId = await tx.get(digestKey);
  if (sharedId !== undefined && decodeContentId(sharedId) === contentId) tx.clear(digestKey);
}

export function contentGone(contentId: string): OperationalError {
  return new OperationalError(
    "STORE_ATTACHMENT_CONTENT_GONE",
    "The bytes of the attachment are gone",
    { contentId },
  );
}

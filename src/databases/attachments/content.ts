/** A stored content as a whole: finds the content that equals staged bytes, and clears contents. */
import { assert, OperationalError } from "../../base/index.ts";
import type { ReadTransaction, Transaction } from "../../kv/index.ts";
import type { StagedContent } from "../document.ts";
import { digestBytes } from "../records/body-record.ts";
import { decodeContentId, decodeContentRecord } from "../records/content-record.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";

/**
 * The content that stands for the staged one: itself, or an earlier one with the same bytes. Reading its record makes the
 * transaction conflict with a reclaim of it. Throws STORE_ATTACHMENT_CONTENT_GONE when it was reclaimed already.
 */
export async function sharedContent(
  tx: ReadTransaction,
  keys: DatabaseKeys,
  staged: StagedContent,
): Promise<StagedContent> {
  const { digest, encoding, length, encodedLength } = staged;
  const sharedId = await tx.get(keys.contentByDigest(digestBytes(digest), encoding, encodedLength));
  const contentId = sharedId === undefined ? staged.contentId : decodeContentId(sharedId);
  const record = await tx.get(keys.content(contentId));
  if (record === undefined) throw contentGone(contentId);
  assert(decodeContentRecord(record).digest === digest, "A content has the digest of its document");
  return { contentId, digest, encoding, length, encodedLength };
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

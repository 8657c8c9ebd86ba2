/** Compares the inline attachments of a document with the digests stated in it. */
import { base64Encode, type Digests } from "../../base/index.ts";
import { inlineBytes, isMd5Digest, type WireDocument } from "../../protocol/index.ts";
import type { WriteFailure } from "./endpoint.ts";

/**
 * Returns a failure, worded as in CouchDB, if an inline attachment does not match its MD5 digest.
 * Digests of compressed attachments are not compared, because the bytes received are not those from
 * which the digest was computed.
 */
export function digestFailure(
  { attachments }: Pick<WireDocument, "attachments">,
  { id, revision }: { readonly id: string; readonly revision: string },
  digests: Digests,
): WriteFailure | undefined {
  for (const { name, content, digest, encoding } of attachments) {
    if (content.kind !== "inline" || encoding !== undefined || !isMd5Digest(digest)) continue;
    const bytes = inlineBytes(content);
    if (bytes === undefined || digest === `md5-${base64Encode(digests.md5(bytes))}`) continue;
    return { id, revision, ...digestMismatch(name) };
  }
  return undefined;
}

/** CouchDB's error for an attachment whose bytes do not match the stated digest. */
export const DIGEST_MISMATCH = "content_md5_mismatch";

/** Returns the failure of a document with an attachment whose bytes do not match its digest. */
export function digestMismatch(name: string): Omit<WriteFailure, "id" | "revision"> {
  const reason = `the attachment ${JSON.stringify(name)} does not match the digest in its document`;
  return { status: 400, error: DIGEST_MISMATCH, reason };
}

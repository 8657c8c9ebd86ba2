/** Decides which revisions a replication omits on purpose (`Omissions`). */
import { ProtocolError, parseWireDocument, type WireDocument } from "../../protocol/index.ts";
import type { ChangedDocument, PlainDocument, StreamedDocument } from "../endpoints/endpoint.ts";
import type { Omissions } from "../request/replication.ts";

type Judged = Pick<PlainDocument, "text" | "wire"> | Pick<StreamedDocument, "text">;

/**
 * Whether a change can be omitted before its documents are read, because all its revisions are
 * marked as deleted.
 */
export function isChangeOmitted(
  omissions: Omissions | undefined,
  change: Partial<Pick<ChangedDocument, "isDeleted">>,
): boolean {
  return omissions?.deleted === true && change.isDeleted === true;
}

export function isOmitted(omissions: Omissions | undefined, document: Judged): boolean {
  if (omissions === undefined) return false;
  const wire = wireOf(document);
  if (wire === undefined) return false;
  const { deleted, attachmentBytesMax, documentBytesMax } = omissions;
  if (deleted === true && wire.deleted) return true;
  if (documentBytesMax !== undefined && wire.body.exceedsBytes(documentBytesMax)) return true;
  if (attachmentBytesMax === undefined) return false;
  return wire.attachments.some((attachment) => bytesOf(attachment) > attachmentBytesMax);
}

/**
 * Returns the parsed document; undefined if it is invalid. The error of an invalid document is
 * reported when the document is written.
 */
export function wireOf(document: Judged): WireDocument | undefined {
  try {
    if ("wire" in document && document.wire !== undefined) return document.wire;
    return parseWireDocument(document.text);
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}

/**
 * Returns the attachment's size in bytes, decoded from base64. The size of a compressed attachment
 * is its uncompressed size.
 */
function bytesOf({ content, length = 0 }: WireDocument["attachments"][number]): number {
  if (content.kind !== "inline") return length;
  if (content.data instanceof Uint8Array) return content.data.length;
  const data = content.data.string ?? "";
  const paddingCount = data.endsWith("==") ? 2 : data.endsWith("=") ? 1 : 0;
  return Math.floor(((data.length - paddingCount) * 3) / 4);
}

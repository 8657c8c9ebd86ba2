/**
 * The stored form of the remains of a superseded revision:
 *
 *   format (1), number of chunks of the body, number of chunks of the list of attachments,
 *   number of attachments, then for each: content (16), name; in format 2 also: bytes
 *
 * Format 1 is written in stores of format 2.
 */
import { assert, hexDecode, hexEncode } from "../../base/index.ts";
import type { Attachment } from "../document.ts";
import type { LeafState } from "../revisions/revision-tree.ts";
import { RecordReader, RecordWriter } from "./record-bytes.ts";

const FORMAT = 2;
const FORMAT_WITHOUT_BYTES = 1;
const CONTENT_ID_BYTES = 16;

export interface OldBodyRecord extends Pick<LeafState, "bodyChunkCount" | "attachmentChunkCount"> {
  readonly attachments: readonly AttachmentReference[];
  /**
   * Number of bytes included in the counter of superseded bytes: the body, and attachments that the
   * next revision does not have. Undefined in format 1.
   */
  readonly bytes: number | undefined;
}

export type AttachmentReference = Pick<Attachment, "contentId" | "name">;

export function encodeOldBody(record: OldBodyRecord): Uint8Array {
  const { bodyChunkCount, attachmentChunkCount, attachments, bytes } = record;
  const format = bytes === undefined ? FORMAT_WITHOUT_BYTES : FORMAT;
  const writer = new RecordWriter().byte(format).integer(bodyChunkCount);
  writer.integer(attachmentChunkCount).integer(attachments.length);
  for (const { contentId, name } of attachments) {
    writer.raw(hexDecode(contentId) as Uint8Array).text(name);
  }
  if (bytes !== undefined) writer.integer(bytes);
  return writer.finish();
}

export function decodeOldBody(value: Uint8Array): OldBodyRecord {
  const reader = new RecordReader(value);
  const format = reader.byte();
  assert(
    format === FORMAT || format === FORMAT_WITHOUT_BYTES,
    "The record of an old body must have a supported format version",
  );
  const bodyChunkCount = reader.integer();
  const attachmentChunkCount = reader.integer();
  const attachments = Array.from({ length: reader.integer() }, () => ({
    contentId: hexEncode(reader.raw(CONTENT_ID_BYTES)),
    name: reader.text(),
  }));
  const bytes = format === FORMAT ? reader.integer() : undefined;
  return { bodyChunkCount, attachmentChunkCount, attachments, bytes };
}

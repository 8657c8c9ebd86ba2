/**
 * The stored form of the remains of a superseded revision:
 *
 *   format (1), number of chunks of the body, number of chunks of the list of attachments,
 *   number of attachments, then for each: content (16), name
 */
import { assert, hexDecode, hexEncode } from "../../base/index.ts";
import type { Attachment } from "../document.ts";
import type { LeafState } from "../revisions/revision-tree.ts";
import { RecordReader, RecordWriter } from "./record-bytes.ts";

const FORMAT = 1;
const CONTENT_ID_BYTES = 16;

export interface OldBodyRecord extends Pick<LeafState, "bodyChunkCount" | "attachmentChunkCount"> {
  readonly attachments: readonly AttachmentReference[];
}

export type AttachmentReference = Pick<Attachment, "contentId" | "name">;

export function encodeOldBody(record: OldBodyRecord): Uint8Array {
  const { bodyChunkCount, attachmentChunkCount, attachments } = record;
  const writer = new RecordWriter().byte(FORMAT).integer(bodyChunkCount);
  writer.integer(attachmentChunkCount).integer(attachments.length);
  for (const { contentId, name } of attachments) {
    writer.raw(hexDecode(contentId) as Uint8Array).text(name);
  }
  return writer.finish();
}

export function decodeOldBody(value: Uint8Array): OldBodyRecord {
  const reader = new RecordReader(value);
  assert(
    reader.byte() === FORMAT,
    "The record of an old body must have a supported format version",
  );
  return {
    bodyChunkCount: reader.integer(),
    attachmentChunkCount: reader.integer(),
    attachments: Array.from({ length: reader.integer() }, () => ({
      contentId: hexEncode(reader.raw(CONTENT_ID_BYTES)),
      name: reader.text(),
    })),
  };
}

/**
 * The stored form of an attachment's bytes: format (1), digest (16), encoding (1), length, encoded
 * length.
 */
import { assert, hexDecode, hexEncode } from "../../base/index.ts";
import type { StagedContent } from "../document.ts";
import { digestBytes, digestText } from "./body-record.ts";
import { RecordReader, RecordWriter } from "./record-bytes.ts";

const FORMAT = 1;
const DIGEST_BYTES = 16;
const IDENTITY = 0;
const GZIP = 1;

export type ContentRecord = Omit<StagedContent, "contentId">;

export function encodeContentRecord(record: ContentRecord): Uint8Array {
  return new RecordWriter()
    .byte(FORMAT)
    .raw(digestBytes(record.digest))
    .byte(record.encoding === "gzip" ? GZIP : IDENTITY)
    .integer(record.length)
    .integer(record.encodedLength)
    .finish();
}

export function decodeContentRecord(value: Uint8Array): ContentRecord {
  const reader = new RecordReader(value);
  assert(reader.byte() === FORMAT, "The content record must have a supported format version");
  return {
    digest: digestText(reader.raw(DIGEST_BYTES)),
    encoding: reader.byte() === GZIP ? "gzip" : undefined,
    length: reader.integer(),
    encodedLength: reader.integer(),
  };
}

/** Encodes the content id stored in the index by digest. */
export function encodeContentId(contentId: string): Uint8Array {
  return hexDecode(contentId) as Uint8Array;
}

export function decodeContentId(value: Uint8Array): string {
  return hexEncode(value);
}

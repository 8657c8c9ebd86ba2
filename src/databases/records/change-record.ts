/**
 * The records of a document in the update sequence and in the all-docs index. Each record contains
 * everything that a row of its feed needs, so no other record is read.
 */
import { assert } from "../../base/index.ts";
import { isDigest, type RevisionParts } from "../revisions/revision.ts";
import { readHash, writeHash } from "./document-record.ts";
import { RecordReader, RecordWriter } from "./record-bytes.ts";

const FORMAT = 1;
/** Format of changes whose document id is 32 hexadecimal digits, stored as 16 bytes. */
const FORMAT_HEX_ID = 2;
const ID_BYTES = 16;
const DELETED = 1;

/**
 * Maximum number of leaves listed in the record, because of the store's limit for a value. Readers
 * get the other leaves from the tree.
 */
const LEAVES_MAX = 100;

export interface ChangedLeaf extends RevisionParts {
  readonly deleted: boolean;
}

export interface ChangeRecord {
  readonly id: string;
  /** Leaves, winner first. */
  readonly leaves: readonly ChangedLeaf[];
  /** False if only the first leaves are listed. */
  readonly complete: boolean;
}

/**
 * Encodes the record of a change. `leaves` begins with the winner. The record is valid until
 * another record is begun.
 */
export function encodeChangeRecord(id: string, leaves: readonly ChangedLeaf[]): Uint8Array {
  const listed = leaves.slice(0, LEAVES_MAX);
  const writer = new RecordWriter();
  if (isDigest(id)) writer.byte(FORMAT_HEX_ID).hex(id);
  else writer.byte(FORMAT).text(id);
  writer.byte(listed.length === leaves.length ? 1 : 0).integer(listed.length);
  for (const { generation, hash, deleted } of listed) {
    writer.integer(generation).byte(deleted ? DELETED : 0);
    writeHash(writer, hash);
  }
  return writer.finishBriefly();
}

export function decodeChangeRecord(value: Uint8Array): ChangeRecord {
  const reader = new RecordReader(value);
  const format = reader.byte();
  assert(
    format === FORMAT || format === FORMAT_HEX_ID,
    "The change record must have a supported format version",
  );
  const id = format === FORMAT ? reader.text() : reader.hex(ID_BYTES);
  const complete = reader.byte() === 1;
  const leafCount = reader.integer();
  assert(leafCount > 0, "A changed document must have a leaf");
  const leaves = new Array<ChangedLeaf>(leafCount);
  for (let index = 0; index < leafCount; index++) {
    const generation = reader.integer();
    const deleted = (reader.byte() & DELETED) !== 0;
    leaves[index] = { generation, hash: readHash(reader), deleted };
  }
  return { id, leaves, complete };
}

/** Encodes the winner. The record is valid until another record is begun. */
export function encodeWinnerRecord({ generation, hash }: RevisionParts): Uint8Array {
  const writer = new RecordWriter().byte(FORMAT).integer(generation);
  writeHash(writer, hash);
  return writer.finishBriefly();
}

export function decodeWinnerRecord(value: Uint8Array): RevisionParts {
  const reader = new RecordReader(value);
  assert(reader.byte() === FORMAT, "The winner record must have a supported format version");
  return { generation: reader.integer(), hash: readHash(reader) };
}

/**
 * The stored form of a database in the registry: format, uuid (16), time of creation, revision
 * limit; and in format 2, used only by databases with indexes, their index set. A program without
 * support for indexes refuses format 2. Otherwise it would write documents without updating the
 * index entries.
 */
import { assert, hexDecode, hexEncode } from "../../base/index.ts";
import { RecordReader, RecordWriter } from "./record-bytes.ts";

const FORMAT = 1;
const FORMAT_WITH_INDEXES = 2;
const UUID_BYTES = 16;

export interface DatabaseRecord {
  /** 32 hex digits. */
  readonly uuid: string;
  /** Microseconds since the epoch; the last three digits are random. */
  readonly instanceStartTime: number;
  readonly revisionLimit: number;
  /**
   * Identifies the set of indexes that every write keeps up to date. A new random id is assigned
   * whenever the set changes; 0 without indexes.
   */
  readonly indexSet: number;
}

export function encodeDatabaseRecord(record: DatabaseRecord): Uint8Array {
  const { uuid, instanceStartTime, revisionLimit, indexSet } = record;
  const writer = new RecordWriter()
    .byte(indexSet === 0 ? FORMAT : FORMAT_WITH_INDEXES)
    .raw(hexDecode(uuid) as Uint8Array)
    .integer(instanceStartTime)
    .integer(revisionLimit);
  if (indexSet !== 0) writer.integer(indexSet);
  return writer.finish();
}

export function decodeDatabaseRecord(value: Uint8Array): DatabaseRecord {
  const reader = new RecordReader(value);
  const format = reader.byte();
  const isKnown = format === FORMAT || format === FORMAT_WITH_INDEXES;
  assert(isKnown, "The database record must have a supported format version");
  return {
    uuid: hexEncode(reader.raw(UUID_BYTES)),
    instanceStartTime: reader.integer(),
    revisionLimit: reader.integer(),
    indexSet: format === FORMAT ? 0 : reader.integer(),
  };
}

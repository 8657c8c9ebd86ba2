/** The stored form of a database in the registry: format (1), uuid (16), birth, revision limit. */
import { assert, hexDecode, hexEncode } from "../../base/index.ts";
import { RecordReader, RecordWriter } from "./record-bytes.ts";

const FORMAT = 1;
const UUID_BYTES = 16;

export interface DatabaseRecord {
  /** 32 hex digits. */
  readonly uuid: string;
  /** Microseconds since the epoch, the last three digits drawn by chance. */
  readonly instanceStartTime: number;
  readonly revisionLimit: number;
}

export function encodeDatabaseRecord(record: DatabaseRecord): Uint8Array {
  const { uuid, instanceStartTime, revisionLimit } = record;
  return new RecordWriter()
    .byte(FORMAT)
    .raw(hexDecode(uuid) as Uint8Array)
    .integer(instanceStartTime)
    .integer(revisionLimit)
    .finish();
}

export function decodeDatabaseRecord(value: Uint8Array): DatabaseRecord {
  const reader = new RecordReader(value);
  assert(reader.byte() === FORMAT, "The database record has a format of this version");
  return {
    uuid: hexEncode(reader.raw(UUID_BYTES)),
    instanceStartTime: reader.integer(),
    revisionLimit: reader.integer(),
  };
}

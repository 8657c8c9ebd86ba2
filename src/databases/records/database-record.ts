/**
 * The stored form of a database in the registry: format, uuid (16), time of creation, revision
 * limit; from format 2 on the index set; and in format 4 the number.
 *
 *   1   with winner rows, without indexes
 *   2   with winner rows and indexes. A program without support for indexes refuses this format.
 *       Otherwise it would write documents without updating the index entries
 *   3   without winner rows
 *   4   without winner rows, and with a number in its keys instead of the uuid
 */
import { assert, hexDecode, hexEncode } from "../../base/index.ts";
import { RecordReader, RecordWriter } from "./record-bytes.ts";

const FORMAT = 1;
const FORMAT_WITH_INDEXES = 2;
const FORMAT_WITHOUT_WINNERS = 3;
const FORMAT_WITH_NUMBER = 4;
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
  /**
   * Whether the database has winner rows (`document-rows.ts`): if it was created in a store of
   * format 2. Never changes.
   */
  readonly hasWinnerRows: boolean;
  /**
   * Identifies the database in its keys, from 1, and is never reused. Undefined if its keys contain
   * the uuid instead: if an earlier program or a store of format 2 created the database.
   */
  readonly number: number | undefined;
}

export function encodeDatabaseRecord(record: DatabaseRecord): Uint8Array {
  const { uuid, instanceStartTime, revisionLimit, indexSet, number } = record;
  const format = formatOf(record);
  const writer = new RecordWriter()
    .byte(format)
    .raw(hexDecode(uuid) as Uint8Array)
    .integer(instanceStartTime)
    .integer(revisionLimit);
  if (format !== FORMAT) writer.integer(indexSet);
  if (number !== undefined) writer.integer(number);
  return writer.finish();
}

function formatOf({ hasWinnerRows, indexSet, number }: DatabaseRecord): number {
  if (number !== undefined) {
    assert(!hasWinnerRows, "A database with a number has no winner rows");
    return FORMAT_WITH_NUMBER;
  }
  if (!hasWinnerRows) return FORMAT_WITHOUT_WINNERS;
  return indexSet === 0 ? FORMAT : FORMAT_WITH_INDEXES;
}

export function decodeDatabaseRecord(value: Uint8Array): DatabaseRecord {
  const reader = new RecordReader(value);
  const format = reader.byte();
  assert(
    format >= FORMAT && format <= FORMAT_WITH_NUMBER,
    "The database record must have a supported format version",
  );
  return {
    uuid: hexEncode(reader.raw(UUID_BYTES)),
    instanceStartTime: reader.integer(),
    revisionLimit: reader.integer(),
    indexSet: format === FORMAT ? 0 : reader.integer(),
    hasWinnerRows: format < FORMAT_WITHOUT_WINNERS,
    number: format === FORMAT_WITH_NUMBER ? reader.integer() : undefined,
  };
}

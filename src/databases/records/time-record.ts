/**
 * The record of the store's versions at earlier times.
 *
 *   TimeTable   format (1), number of entries, then for each entry: milliseconds since 1970, and
 *               the versionstamp after all changes that were committed before that time (12)
 */
import { assert } from "../../base/index.ts";
import { VERSIONSTAMP_BYTES, Versionstamp } from "../../kv/index.ts";
import { RecordReader, RecordWriter } from "./record-bytes.ts";

const FORMAT = 1;

/** An entry states that all changes up to the versionstamp were committed before the time. */
export interface TimeEntry {
  readonly timeMs: number;
  readonly versionstamp: Versionstamp;
}

export function encodeTimeTable(entries: readonly TimeEntry[]): Uint8Array {
  const writer = new RecordWriter().byte(FORMAT).integer(entries.length);
  for (const { timeMs, versionstamp } of entries) writer.integer(timeMs).raw(versionstamp.bytes);
  return writer.finish();
}

export function decodeTimeTable(value: Uint8Array): TimeEntry[] {
  const reader = new RecordReader(value);
  assert(reader.byte() === FORMAT, "The table of times must have a supported format version");
  return Array.from({ length: reader.integer() }, () => {
    const timeMs = reader.integer();
    return { timeMs, versionstamp: Versionstamp.fromBytes(reader.raw(VERSIONSTAMP_BYTES)) };
  });
}

/**
 * The records of conflicts.
 *
 *   ConflictRecord   format (1), milliseconds since 1970 at which the conflict began (0 if
 *                    unknown), id of the replication job that wrote the revision ("" if none), the
 *                    revision (absent if unknown and in older rows; ignored by older programs)
 *   ConflictSearch   format (1), 0 and the versionstamp of the last change searched (12); or 1 if
 *                    all changes have been searched
 */
import { assert, utf8Decode, utf8Encode } from "../../base/index.ts";
import { VERSIONSTAMP_BYTES, Versionstamp } from "../../kv/index.ts";
import type { Revision } from "../document.ts";
import { RecordReader, RecordWriter } from "./record-bytes.ts";

const FORMAT = 1;

export interface ConflictRecord {
  /** Undefined for a conflict that an older program wrote. */
  readonly sinceMs: number | undefined;
  /** The replication job that wrote the conflicting revision; undefined for other writers. */
  readonly jobId: string | undefined;
  /** The revision that began the conflict, if known. */
  readonly revision?: Revision | undefined;
}

export function encodeConflict({ sinceMs, jobId, revision }: ConflictRecord): Uint8Array {
  const writer = new RecordWriter().byte(FORMAT).integer(Math.floor(sinceMs ?? 0));
  return writer
    .text(jobId ?? "")
    .raw(utf8Encode(revision ?? ""))
    .finish();
}

export function decodeConflict(value: Uint8Array): ConflictRecord {
  const reader = begun(value);
  const sinceMs = reader.integer();
  const jobId = reader.text();
  const revision = utf8Decode(reader.rest());
  return {
    sinceMs: sinceMs === 0 ? undefined : sinceMs,
    jobId: jobId === "" ? undefined : jobId,
    ...(revision === "" ? {} : { revision }),
  };
}

/** The last change searched, or "done". */
export type ConflictSearch = Versionstamp | "done";

export function encodeConflictSearch(search: ConflictSearch): Uint8Array {
  const writer = new RecordWriter().byte(FORMAT).byte(search === "done" ? 1 : 0);
  return (search === "done" ? writer : writer.raw(search.bytes)).finish();
}

export function decodeConflictSearch(value: Uint8Array): ConflictSearch {
  const reader = begun(value);
  return reader.byte() === 1 ? "done" : Versionstamp.fromBytes(reader.raw(VERSIONSTAMP_BYTES));
}

function begun(value: Uint8Array): RecordReader {
  const reader = new RecordReader(value);
  assert(reader.byte() === FORMAT, "The conflict record must have a supported format version");
  return reader;
}

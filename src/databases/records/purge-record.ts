/**
 * The records of purges.
 *
 *   PurgeRecord    format (1), versionstamp of the purge (12), id, number of revisions, each as a
 *                  string, sorted
 *   PurgeLimit     format (1), maximum number of remembered purges
 */
import { assert } from "../../base/index.ts";
import { VERSIONSTAMP_BYTES, Versionstamp, type VersionstampedBytes } from "../../kv/index.ts";
import type { Revision } from "../document.ts";
import { compareHashes, parseRevision } from "../revisions/revision.ts";
import { RecordReader, RecordWriter } from "./record-bytes.ts";

const FORMAT = 1;
const VERSIONSTAMP_OFFSET = 1;

export interface PurgeRecord {
  readonly versionstamp: Versionstamp;
  readonly id: string;
  readonly revisions: readonly Revision[];
}

/** Encodes a purge. The commit completes its versionstamp. */
export function encodePurgeRecord(id: string, revisions: readonly Revision[]): VersionstampedBytes {
  const writer = new RecordWriter().byte(FORMAT).raw(Versionstamp.incomplete(0).bytes).text(id);
  const sorted = [...new Set(revisions)].sort(compareRevisions);
  writer.integer(sorted.length);
  for (const revision of sorted) writer.text(revision);
  return { bytes: writer.finish(), offset: VERSIONSTAMP_OFFSET };
}

export function decodePurgeRecord(value: Uint8Array): PurgeRecord {
  const reader = new RecordReader(value);
  assert(reader.byte() === FORMAT, "The purge record must have a supported format version");
  const versionstamp = Versionstamp.fromBytes(reader.raw(VERSIONSTAMP_BYTES));
  const id = reader.text();
  const count = reader.integer();
  return { versionstamp, id, revisions: Array.from({ length: count }, () => reader.text()) };
}

export function encodePurgeLimit(limit: number): Uint8Array {
  return new RecordWriter().byte(FORMAT).integer(limit).finish();
}

export function decodePurgeLimit(value: Uint8Array): number {
  const reader = new RecordReader(value);
  assert(reader.byte() === FORMAT, "The purge limit must have a supported format version");
  return reader.integer();
}

function compareRevisions(left: Revision, right: Revision): number {
  const [one, other] = [parseRevision(left), parseRevision(right)];
  return one.generation - other.generation || compareHashes(one.hash, other.hash);
}

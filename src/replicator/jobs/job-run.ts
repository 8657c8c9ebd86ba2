/** A run of a job that has ended, as it is remembered: when it was, why it ended, and what it did. Pure. */
import { assert, utf8Decode, utf8Encode } from "../../base/index.ts";
import { packTuple, unpackTuple } from "../../kv/index.ts";
import type { SourceSequence } from "../endpoints/endpoint.ts";
import type { RunEnding } from "./decide.ts";
import type { ReplicationStatistics } from "./replication-statistics.ts";

/** How it ended. `lost`: its node died, or lost the job. */
export type RunCause = RunEnding["kind"] | "lost";

export interface JobRun {
  readonly startMs: number;
  /** Of a lost run, its last sign of life. */
  readonly endMs: number;
  readonly cause: RunCause;
  /** Why it failed or stalled; undefined for any other run. */
  readonly reason: string | undefined;
  /** What this run alone did; undefined for a lost one. */
  readonly counts: (ReplicationStatistics & { readonly bytes: number }) | undefined;
  /** How far behind the job was when the run ended, as `Backlog` counts; undefined: nobody knew, or it was not stored yet. */
  readonly lagSec: number | undefined;
  /** Up to where the source's changes have been recorded as done. */
  readonly checkpoint: SourceSequence;
}

/** A row holds a sequence and this text, and stays far below the store's limit of a value. */
const REASON_LENGTH_MAX = 1000;

/**
 * The stored form; the first element is the format's version. Rows of older versions have no `lagSec`, and these versions pass over
 * it: so nodes of both can read the runs of each other.
 */
const FORMAT = 1;

export function encodeJobRun({ reason, ...run }: JobRun): Uint8Array {
  const stored = { ...run, reason: reason?.slice(0, REASON_LENGTH_MAX) };
  return packTuple([FORMAT, utf8Encode(JSON.stringify(stored))]);
}

export function decodeJobRun(value: Uint8Array): JobRun {
  const [format, text] = unpackTuple(value);
  assert(format === FORMAT && text instanceof Uint8Array, "A run has a format of this version");
  const run = JSON.parse(utf8Decode(text)) as JobRun;
  return { ...run, reason: run.reason, counts: run.counts, lagSec: run.lagSec };
}

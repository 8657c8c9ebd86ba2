/** Record of an ended run: when it ran, why it ended, and what it did. Pure. */
import { packJson, unpackJson } from "../../kv/index.ts";
import type { SourceSequence } from "../endpoints/endpoint.ts";
import type { RunEnding } from "../jobs/decide.ts";
import type { ReplicationStatistics } from "../jobs/replication-statistics.ts";

/** Why a run ended. `lost`: the node died, or the run lost the job. */
export type RunCause = RunEnding["kind"] | "lost";

export interface JobRun {
  readonly startMs: number;
  /** End of the run. For a lost run, its last heartbeat. */
  readonly endMs: number;
  readonly cause: RunCause;
  /** Reason why the run failed or stalled, if it did. */
  readonly reason: string | undefined;
  /** Statistics of this run alone; undefined for a lost run. */
  readonly counts: (ReplicationStatistics & { readonly bytes: number }) | undefined;
  /** Lag of the job at the end of the run (see `Backlog`); undefined if unknown. */
  readonly lagSec: number | undefined;
  /** Source sequence of the last checkpoint. */
  readonly checkpoint: SourceSequence;
}

/**
 * Maximum length of a stored reason. A row, which also contains a sequence, thus stays far below
 * the store's limit for values.
 */
const REASON_LENGTH_MAX = 1000;

/**
 * Format version, stored as the first element. Older versions write rows without `lagSec`, and
 * ignore `lagSec` in newer rows, so that old and new versions can read each other's rows.
 */
const FORMAT = 1;

export function encodeJobRun({ reason, ...run }: JobRun): Uint8Array {
  const stored = { ...run, reason: reason?.slice(0, REASON_LENGTH_MAX) };
  return packJson(FORMAT, stored);
}

export function decodeJobRun(value: Uint8Array): JobRun {
  const run = unpackJson(value, FORMAT, "A run must have a supported format version") as JobRun;
  return { ...run, reason: run.reason, counts: run.counts, lagSec: run.lagSec };
}

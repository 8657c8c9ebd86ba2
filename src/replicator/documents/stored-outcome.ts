/**
 * Parses the untrusted state members of a replication document that another replicator has written.
 */
import { membersOf } from "../../base/index.ts";
import { type JobOutcome, jobOutcome } from "../jobs/job-data.ts";
import { type ReplicationStatistics, statisticsOfShown } from "../jobs/replication-statistics.ts";
import type { Members } from "../request/parse-fields.ts";
import { documentState } from "./replication-document.ts";

export interface StoredOutcome {
  readonly outcome: JobOutcome;
  readonly statistics: ReplicationStatistics;
  readonly checkpointedSequence: string;
  /** Start of the run; undefined if the document does not contain it. */
  readonly startedMs: number | undefined;
  readonly endedMs: number | undefined;
}

/** Maximum length of a stored reason. More text does not help users. */
const REASON_LENGTH_MAX = 10_000;
const SEQUENCE_LENGTH_MAX = 10_000;

/** Parses the state members. Returns undefined for a document whose job has yet to run. */
export function storedOutcome(members: Members): StoredOutcome | undefined {
  const outcome = outcomeOf(members);
  if (outcome === undefined) return undefined;
  const stats = membersOf(members._replication_stats);
  const sequence = stats.checkpointed_source_seq;
  const isText = typeof sequence === "string" && sequence.length <= SEQUENCE_LENGTH_MAX;
  return {
    outcome,
    statistics: statisticsOfShown((name) => count(stats[name])),
    checkpointedSequence: isText ? sequence : "0",
    startedMs: timeOf(stats.start_time),
    endedMs: timeOf(members._replication_state_time),
  };
}

function outcomeOf(members: Members): JobOutcome | undefined {
  const state = documentState(members);
  if (state === "completed") return jobOutcome(state);
  if (state !== "failed") return undefined;
  const stored = members._replication_state_reason;
  const isSaid = typeof stored === "string" && stored !== "";
  const text = isSaid ? stored.slice(0, REASON_LENGTH_MAX) : "the document contains no reason";
  const [, error = "error", reason = text] = /^(\w+): (.*)$/s.exec(text) ?? [];
  return jobOutcome(state, { error, reason });
}

function count(value: unknown): number {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : 0;
}

/**
 * Parses a time in CouchDB's format. Versions of CouchDB before 3 write seconds since the epoch.
 */
function timeOf(value: unknown): number | undefined {
  const timeMs = typeof value === "number" ? value * 1000 : Date.parse(String(value));
  return Number.isSafeInteger(timeMs) && timeMs >= 0 && timeMs < YEAR_9999_MS ? timeMs : undefined;
}

const YEAR_9999_MS = Date.UTC(9999, 0);

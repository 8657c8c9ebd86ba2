/**
 * The replication log: the `_local` document, one on each side, that says how far a replication came (CouchDB's
 * replication protocol, "Find Common Ancestry"). Pure: parsing a log, the common ancestry of two logs, and the next
 * log.
 */
import type { SourceSequence } from "../endpoints/endpoint.ts";
import { NO_STATISTICS, type ReplicationStatistics } from "../jobs/replication-statistics.ts";
import { REPLICATION_ID_VERSION } from "../request/replication-id.ts";
import { httpDate } from "../times.ts";

/** CouchDB keeps as many entries. */
const HISTORY_LENGTH_MAX = 50;

/** An entry of the history, as on the wire. */
export interface ReplicationLogEntry {
  readonly session_id: string;
  /** RFC 1123 dates. */
  readonly start_time: string;
  readonly end_time: string;
  readonly start_last_seq: SourceSequence;
  readonly end_last_seq: SourceSequence;
  readonly recorded_seq: SourceSequence;
  readonly missing_checked: number;
  readonly missing_found: number;
  readonly docs_read: number;
  readonly docs_written: number;
  readonly doc_write_failures: number;
  readonly bulk_get_docs?: number;
  readonly bulk_get_attempts?: number;
}

export interface ReplicationLog {
  readonly session_id?: string;
  readonly source_last_seq?: SourceSequence;
  readonly replication_id_version?: number;
  readonly history?: readonly ReplicationLogEntry[];
  /** Kept by CouchDB for replications by document ids. */
  readonly start_time?: string;
  readonly end_time?: string;
  readonly docs_read?: number;
  readonly docs_written?: number;
  readonly doc_write_failures?: number;
}

/** Where a run begins, and what the history says of the runs before. */
export interface CommonAncestry {
  readonly sequence: SourceSequence;
  readonly history: readonly ReplicationLogEntry[];
}

const NOTHING: CommonAncestry = { sequence: 0, history: [] };

/** What both sides agree on. `undefined` stands for a side without a log. */
export function commonAncestry(
  source: ReplicationLog | undefined,
  target: ReplicationLog | undefined,
): CommonAncestry {
  if (source === undefined || target === undefined) return NOTHING;
  if (source.session_id === target.session_id) {
    return { sequence: source.source_last_seq ?? 0, history: source.history ?? [] };
  }
  let sourceHistory = source.history ?? [];
  let targetHistory = target.history ?? [];
  for (;;) {
    const [sourceHead, ...sourceRest] = sourceHistory;
    const [targetHead, ...targetRest] = targetHistory;
    if (sourceHead === undefined || targetHead === undefined) return NOTHING;
    if (targetHistory.some(({ session_id }) => session_id === sourceHead.session_id)) {
      return { sequence: sourceHead.recorded_seq, history: sourceRest };
    }
    if (sourceRest.some(({ session_id }) => session_id === targetHead.session_id)) {
      return { sequence: targetHead.recorded_seq, history: targetRest };
    }
    sourceHistory = sourceRest;
    targetHistory = targetRest;
  }
}

/** Whether a run that the log remembers passed a document that did not arrive. */
export function passedFailures(log: ReplicationLog | undefined): boolean {
  return log?.history?.some((entry) => entry.doc_write_failures > 0) ?? false;
}

/** One run, as its checkpoints record it. */
export interface RecordedRun {
  readonly sessionId: string;
  readonly startTimeMs: number;
  readonly nowMs: number;
  readonly startSequence: SourceSequence;
  readonly throughSequence: SourceSequence;
  readonly statistics: ReplicationStatistics;
  /** The history as it was read at the run's start: a run owns one entry, however often it writes. */
  readonly earlier: readonly ReplicationLogEntry[];
  readonly byDocumentIds: boolean;
}

export function nextLog(run: RecordedRun): ReplicationLog {
  const { statistics } = run;
  const start = httpDate(run.startTimeMs);
  const end = httpDate(run.nowMs);
  const entry: ReplicationLogEntry = {
    session_id: run.sessionId,
    start_time: start,
    end_time: end,
    start_last_seq: run.startSequence,
    end_last_seq: run.throughSequence,
    recorded_seq: run.throughSequence,
    missing_checked: statistics.missingChecked,
    missing_found: statistics.missingFound,
    docs_read: statistics.docsRead,
    docs_written: statistics.docsWritten,
    doc_write_failures: statistics.docWriteFailures,
    bulk_get_docs: statistics.bulkGetDocs,
    bulk_get_attempts: statistics.bulkGetAttempts,
  };
  const legacy = run.byDocumentIds
    ? {
        start_time: start,
        end_time: end,
        docs_read: statistics.docsRead,
        docs_written: statistics.docsWritten,
        doc_write_failures: statistics.docWriteFailures,
      }
    : {};
  return {
    session_id: run.sessionId,
    source_last_seq: run.throughSequence,
    replication_id_version: REPLICATION_ID_VERSION,
    ...legacy,
    history: [entry, ...run.earlier].slice(0, HISTORY_LENGTH_MAX),
  };
}

/** The figures that the latest recorded run had reached. */
export function recordedStatistics(history: readonly ReplicationLogEntry[]): ReplicationStatistics {
  const [latest] = history;
  if (latest === undefined) return NO_STATISTICS;
  return {
    missingChecked: latest.missing_checked,
    missingFound: latest.missing_found,
    docsRead: latest.docs_read,
    docsWritten: latest.docs_written,
    docWriteFailures: latest.doc_write_failures,
    bulkGetAttempts: latest.bulk_get_attempts ?? 0,
    bulkGetDocs: latest.bulk_get_docs ?? 0,
  };
}

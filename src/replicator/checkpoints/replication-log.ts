/**
 * The replication log: the `_local` document on each side that records the progress of a
 * replication (CouchDB's replication protocol, "Find Common Ancestry"). The functions are pure:
 * they parse logs, and compute the common ancestry and the next log.
 */
import {
  hasJsonNumber,
  type JsonText,
  jsonKind,
  keepsForm,
  membersOf,
  parseJson,
  printJson,
  splitArray,
  splitObject,
} from "../../base/index.ts";
import { isSameSequence, type SourceSequence } from "../endpoints/endpoint.ts";
import { NO_STATISTICS, type ReplicationStatistics } from "../jobs/replication-statistics.ts";
import { REPLICATION_ID_VERSION } from "../request/replication-id.ts";
import { SEQUENCE_LENGTH_MAX } from "../request/start-sequence.ts";
import { httpDate } from "../times.ts";
import { type EarlierCheckpoint, parseEarlierCheckpoints } from "./earlier-checkpoints.ts";

/** Maximum number of history entries, as in CouchDB. */
const HISTORY_LENGTH_MAX = 50;
/** Maximum length of a session id or time. */
const TEXT_LENGTH_MAX = 100;

/** A history entry, as stored in logs. */
export interface ReplicationLogEntry {
  readonly session_id: string;
  /** Start and end of the run, as RFC 1123 dates. */
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
  /** Tandem extension, present only if the replication omits revisions on purpose (`Omissions`). */
  readonly docs_left_out?: number;
}

export interface ReplicationLog {
  readonly session_id?: string;
  readonly source_last_seq?: SourceSequence;
  /** Tandem extension: earlier checkpoints of the same session. */
  readonly earlier_checkpoints?: readonly EarlierCheckpoint[];
  readonly replication_id_version?: number;
  readonly history?: readonly ReplicationLogEntry[];
  /**
   * As in CouchDB, this member and the following ones are written only for replications by document
   * ids.
   */
  readonly start_time?: string;
  readonly end_time?: string;
  readonly docs_read?: number;
  readonly docs_written?: number;
  readonly doc_write_failures?: number;
}

/** The position at which a run starts, and the history of earlier runs. */
export interface CommonAncestry {
  readonly sequence: SourceSequence;
  readonly history: readonly ReplicationLogEntry[];
}

const NOTHING: CommonAncestry = { sequence: 0, history: [] };

/** Parses a `_local` document from an untrusted source. Invalid members are skipped. */
export function parseReplicationLog(text: JsonText): ReplicationLog | undefined {
  const log = withExactSequences(membersOf(JSON.parse(text)), text);
  const { replication_id_version, history } = log;
  const session_id = textOf(log.session_id);
  const source_last_seq = sequenceOf(log.source_last_seq);
  if (session_id === undefined || !isSequence(source_last_seq ?? 0)) return undefined;
  const entries: readonly unknown[] = Array.isArray(history) ? history : [];
  const earlier = parseEarlierCheckpoints(log.earlier_checkpoints, isSequence);
  return {
    session_id,
    ...(source_last_seq === undefined ? {} : { source_last_seq }),
    ...(earlier.length === 0 ? {} : { earlier_checkpoints: earlier }),
    ...(typeof replication_id_version === "number" ? { replication_id_version } : {}),
    ...parseLegacy(log),
    history: entries.slice(0, HISTORY_LENGTH_MAX).flatMap(parseEntry),
  };
}

/** Restores sequences whose numbers were changed by `JSON.parse`. */
function withExactSequences(log: Members, text: JsonText): Members {
  if (keepsForm(text) || jsonKind(text) !== "object") return log;
  const exact: Record<string, unknown> = {};
  for (const { name, value } of splitObject(text)) {
    if (name === "source_last_seq") exact[name] = parseJson(value);
    if (name !== "history" || jsonKind(value) !== "array") continue;
    exact[name] = splitArray(value).slice(0, HISTORY_LENGTH_MAX).map(parseJson);
  }
  return { ...log, ...exact };
}

/** Parses the members that only replications by document ids have. */
function parseLegacy(log: Members): Partial<ReplicationLog> {
  const start_time = textOf(log.start_time);
  const end_time = textOf(log.end_time);
  if (start_time === undefined || end_time === undefined) return {};
  return {
    start_time,
    end_time,
    docs_read: countOf(log.docs_read),
    docs_written: countOf(log.docs_written),
    doc_write_failures: countOf(log.doc_write_failures),
  };
}

/** Returns the parsed history entry in an array, which is empty if the entry is invalid. */
function parseEntry(json: unknown): ReplicationLogEntry[] {
  const entry = membersOf(json);
  const session_id = textOf(entry.session_id);
  const { start_last_seq: start = 0, end_last_seq: end = 0, recorded_seq: recorded } = entry;
  const sequences = [start, end, recorded].map(sequenceOf);
  const [start_last_seq, end_last_seq, recorded_seq] = sequences;
  if (session_id === undefined || !sequences.every(isSequence)) return [];
  return [
    {
      session_id,
      start_time: textOf(entry.start_time) ?? "",
      end_time: textOf(entry.end_time) ?? "",
      start_last_seq,
      end_last_seq,
      recorded_seq,
      missing_checked: countOf(entry.missing_checked),
      missing_found: countOf(entry.missing_found),
      docs_read: countOf(entry.docs_read),
      docs_written: countOf(entry.docs_written),
      doc_write_failures: countOf(entry.doc_write_failures),
      ...(entry.bulk_get_docs === undefined ? {} : { bulk_get_docs: countOf(entry.bulk_get_docs) }),
      ...(entry.bulk_get_attempts === undefined
        ? {}
        : { bulk_get_attempts: countOf(entry.bulk_get_attempts) }),
      ...(entry.docs_left_out === undefined ? {} : { docs_left_out: countOf(entry.docs_left_out) }),
    },
  ];
}

type Members = Readonly<Record<string, unknown>>;

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value.length <= TEXT_LENGTH_MAX ? value : undefined;
}

function countOf(value: unknown): number {
  return Number.isSafeInteger(value) ? Math.max(0, value as number) : 0;
}

/**
 * Converts a parsed sequence to the form in which runs compare and send it. If the sequence
 * contains numbers that JavaScript would change, this form is JSON text, as in `parseSequence`;
 * otherwise it is the value itself.
 */
function sequenceOf(value: unknown): SourceSequence {
  try {
    return hasJsonNumber(value) ? printJson(value) : value;
  } catch {
    // The value is nested too deeply to be serialized. Return it as it is; `isSequence` rejects it.
    return value;
  }
}

function isSequence(value: unknown): boolean {
  if (value === undefined) return false;
  try {
    return JSON.stringify(value).length <= SEQUENCE_LENGTH_MAX;
  } catch {
    // The value is nested too deeply to be serialized.
    return false;
  }
}

/**
 * Returns the sequence up to which both sides have all changes, and the history up to this
 * sequence. An argument is `undefined` if its side has no log.
 *
 * Two logs of one session can differ because writing one of them failed, or because one database
 * was restored to an earlier state. Their sequences, which are opaque, do not show which log is
 * older. This function uses a position that both logs contain. CouchDB uses the sequence in the
 * source's log; if the target's log is older, it never copies the changes that the target lost.
 */
export function commonAncestry(
  source: ReplicationLog | undefined,
  target: ReplicationLog | undefined,
): CommonAncestry {
  if (source === undefined || target === undefined) return NOTHING;
  if (source.session_id === target.session_id) return placeInSession(source, target);
  let sourceHistory = source.history ?? [];
  let targetHistory = target.history ?? [];
  for (;;) {
    const [sourceHead, ...sourceRest] = sourceHistory;
    const [targetHead, ...targetRest] = targetHistory;
    if (sourceHead === undefined || targetHead === undefined) return NOTHING;
    const atTarget = entryOf(targetHistory, sourceHead.session_id);
    if (atTarget !== undefined) return placeOfEntries(sourceHead, atTarget, sourceRest);
    const atSource = entryOf(sourceRest, targetHead.session_id);
    if (atSource !== undefined) return placeOfEntries(targetHead, atSource, targetRest);
    sourceHistory = sourceRest;
    targetHistory = targetRest;
  }
}

/** Returns the latest common position in two logs of one session. */
function placeInSession(source: ReplicationLog, target: ReplicationLog): CommonAncestry {
  const placesAtTarget = placesOf(target);
  const common = placesOf(source).find((place) =>
    placesAtTarget.some((other) => isSameSequence(place, other)),
  );
  if (common !== undefined) {
    const ending = [source, target].find((log) => isSameSequence(log.source_last_seq, common));
    // If neither log ends at the common position, drop the source's first history entry: it belongs
    // to this session, and ends after the common position.
    return { sequence: common, history: ending?.history ?? source.history?.slice(1) ?? [] };
  }
  const [[head, ...earlier], [headAtTarget]] = [source.history ?? [], target.history ?? []];
  return head === undefined || headAtTarget === undefined
    ? NOTHING
    : placeOfEntries(head, headAtTarget, earlier);
}

/** Returns the positions that a log records for its session, latest first. */
function placesOf(log: ReplicationLog): readonly SourceSequence[] {
  const earlier = log.earlier_checkpoints ?? [];
  return [log.source_last_seq ?? 0, ...earlier.map(({ seq }) => seq)];
}

/**
 * Returns the common position of two entries of the same session: their common end, or else their
 * common start. `earlier` contains the history before these entries.
 */
function placeOfEntries(
  one: ReplicationLogEntry,
  other: ReplicationLogEntry,
  earlier: readonly ReplicationLogEntry[],
): CommonAncestry {
  if (isSameSequence(one.recorded_seq, other.recorded_seq)) {
    return { sequence: one.recorded_seq, history: earlier };
  }
  return isSameSequence(one.start_last_seq, other.start_last_seq)
    ? { sequence: one.start_last_seq, history: earlier }
    : NOTHING;
}

function entryOf(
  history: readonly ReplicationLogEntry[],
  sessionId: string,
): ReplicationLogEntry | undefined {
  return history.find(({ session_id }) => session_id === sessionId);
}

/** Whether a run in the log skipped a failed document. */
export function passedFailures(log: ReplicationLog | undefined): boolean {
  return log?.history?.some((entry) => entry.doc_write_failures > 0) ?? false;
}

/** One run, as recorded in its checkpoints. */
export interface RecordedRun {
  readonly sessionId: string;
  readonly startTimeMs: number;
  readonly nowMs: number;
  readonly startSequence: SourceSequence;
  readonly throughSequence: SourceSequence;
  /**
   * Earlier checkpoints of the same session, as computed by `earlierCheckpoints`; empty for the
   * first checkpoint.
   */
  readonly earlierCheckpoints: readonly EarlierCheckpoint[];
  readonly statistics: ReplicationStatistics;
  /**
   * The history at the start of the run. A run adds a single entry, even if it writes several
   * checkpoints.
   */
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
    ...(statistics.docsLeftOut === 0 ? {} : { docs_left_out: statistics.docsLeftOut }),
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
    ...(run.earlierCheckpoints.length === 0 ? {} : { earlier_checkpoints: run.earlierCheckpoints }),
    replication_id_version: REPLICATION_ID_VERSION,
    ...legacy,
    history: [entry, ...run.earlier].slice(0, HISTORY_LENGTH_MAX),
  };
}

/** Whether the history is a single entry that ends at the log's own sequence. */
export function isOfOneRun({ session_id, source_last_seq, history = [] }: ReplicationLog): boolean {
  const [entry, ...earlier] = history;
  return (
    entry?.session_id === session_id &&
    source_last_seq !== undefined &&
    isSameSequence(entry?.recorded_seq, source_last_seq) &&
    earlier.length === 0
  );
}

/**
 * Returns the log that replaces `stored`: `next`, with the history of `stored` added. Returns
 * undefined if `stored` is not a log, or if it is the log of another run and does not end where
 * `next` begins. The history of `next` must contain only one entry, for its own run.
 */
export function continuedLog(stored: JsonText, next: ReplicationLog): ReplicationLog | undefined {
  const before = parseReplicationLog(stored);
  const [entry] = next.history ?? [];
  if (before === undefined || entry === undefined) return undefined;
  const isOwn = before.session_id === next.session_id;
  if (!isOwn && !isSameSequence(before.source_last_seq, entry.start_last_seq)) return undefined;
  const [latest, ...rest] = before.history ?? [];
  const isRenewed = latest?.session_id === entry.session_id;
  const earlier = latest === undefined || isRenewed ? rest : [latest, ...rest];
  return { ...next, history: [entry, ...earlier].slice(0, HISTORY_LENGTH_MAX) };
}

/** Returns the statistics of the latest recorded run. */
export function recordedStatistics(history: readonly ReplicationLogEntry[]): ReplicationStatistics {
  const [latest] = history;
  if (latest === undefined) return NO_STATISTICS;
  return {
    ...NO_STATISTICS,
    missingChecked: latest.missing_checked,
    missingFound: latest.missing_found,
    docsRead: latest.docs_read,
    docsWritten: latest.docs_written,
    docWriteFailures: latest.doc_write_failures,
    bulkGetAttempts: latest.bulk_get_attempts ?? 0,
    bulkGetDocs: latest.bulk_get_docs ?? 0,
    docsLeftOut: latest.docs_left_out ?? 0,
  };
}

/**
 * Formats jobs as CouchDB 3.5 does in `_scheduler/jobs`, `_scheduler/docs` and `_active_tasks`.
 * Pure.
 */
import type { Worker } from "../../jobs/index.ts";
import { maskCredentials, percentEncode, stripCredentials } from "../../protocol/index.ts";
import { sequenceText } from "../endpoints/endpoint.ts";
import {
  failureOf,
  hasEnded,
  type ReplicationJobData,
  type ReplicationState,
  statisticsOf,
} from "../jobs/job-data.ts";
import { shownStatistics } from "../jobs/replication-statistics.ts";
import type { EndpointAddress } from "../request/replication.ts";
import { noNodeReason } from "../request/run-on.ts";
import { isoTime } from "../times.ts";
import { type Backlog, isUnread } from "./backlog.ts";

/** Why a job waits for other jobs (`after`). */
export interface AwaitReason {
  /** Problem that prevents the job from ever starting, if any. */
  readonly error: "cycle" | "no_job" | "failed_job" | undefined;
  readonly reason: string;
}

/** A job for display. */
export interface JobEntry {
  readonly jobId: string;
  readonly data: ReplicationJobData;
  readonly state: ReplicationState;
  /** The worker that runs the job; undefined if it is not running. */
  readonly worker: Pick<Worker, "node" | "processId"> | undefined;
  /** Due time of a waiting job, in seconds since the epoch. */
  readonly scheduledAtSec: number;
  /** Pending changes of the job; undefined if unknown. */
  readonly backlog: Backlog | undefined;
  /** Whether the job waits because no node that accepts jobs has the labels in `run_on`. */
  readonly isUnplaced: boolean;
  /** Why the job waits for other jobs; undefined if it does not wait. */
  readonly awaits: AwaitReason | undefined;
}

/** Returns the number of pending changes at the last check; null if unknown. */
export function changesPendingOf({
  data,
  backlog,
}: Pick<JobEntry, "data" | "backlog">): number | null {
  // If a parked job has no backlog, its source does not respond.
  const isSilent = backlog === undefined && data.state === "parked";
  if (isSilent || isUnread(backlog, data.failing)) return null;
  const isAskedSince = backlog !== undefined && backlog.seenMs >= data.lastUpdatedMs;
  const pending = isAskedSince ? backlog.pending : data.changesPending;
  return pending ?? null;
}

type Json = Readonly<Record<string, unknown>>;

/**
 * Returns the statistics of a job, with the member names of `_scheduler` and `_replication_stats`.
 * The numbers of a pair include both directions; its sequences are those of the forward direction.
 */
export function scheduledStatistics(entry: Pick<JobEntry, "data" | "backlog">): Json {
  const { checkpointedSequence, sourceSequence, throughSequence, reverse } = entry.data;
  const { docs_left_out, ...counts } = shownStatistics(statisticsOf(entry.data));
  const isPartial = entry.data.replication?.omissions !== undefined;
  return {
    ...counts,
    changes_pending: changesPendingOf(entry),
    // Absent unless the replication is configured to omit data.
    docs_left_out: isPartial ? docs_left_out : undefined,
    checkpointed_source_seq: sequenceText(checkpointedSequence),
    source_seq: sequenceText(sourceSequence),
    through_seq: sequenceText(throughSequence),
    // Absent unless the job replicates in both directions.
    reverse: reverse && {
      id: reverse.replicationId,
      docs_written: reverse.statistics.docsWritten,
      doc_write_failures: reverse.statistics.docWriteFailures,
      checkpointed_source_seq: sequenceText(reverse.checkpointedSequence),
      source_seq: sequenceText(reverse.sourceSequence),
      through_seq: sequenceText(reverse.throughSequence),
    },
  };
}

/** Returns an element of `_scheduler/jobs`. */
export function jobView(entry: JobEntry, serverUrl: string): Json {
  const { jobId, data, state, worker } = entry;
  return {
    database: data.document?.database ?? null,
    id: data.replicationId ?? jobId,
    pid: worker?.processId ?? null,
    source: shownAddress(data.replication?.source, serverUrl),
    target: shownAddress(data.replication?.target, serverUrl),
    user: data.userName,
    doc_id: data.document?.id ?? null,
    state,
    info: info(entry),
    history: data.history.map(({ type, timeMs, reason }) => ({
      timestamp: isoTime(timeMs),
      type,
      reason,
    })),
    node: worker?.node ?? null,
    start_time: isoTime(data.addedTimeMs),
  };
}

/** Returns an element of `_scheduler/docs`. */
export function documentView(entry: JobEntry, serverUrl: string): Json {
  const { data, state, worker } = entry;
  return {
    database: data.document?.database ?? null,
    doc_id: data.document?.id ?? null,
    id: hasEnded(state) ? null : (data.replicationId ?? null),
    node: worker?.node ?? null,
    source: shownAddress(data.replication?.source, serverUrl),
    target: shownAddress(data.replication?.target, serverUrl),
    state,
    info: info(entry),
    error_count: data.errorCount,
    last_updated: isoTime(data.lastUpdatedMs),
    start_time: isoTime(data.addedTimeMs),
    source_proxy: shownProxy(data.replication?.source),
    target_proxy: shownProxy(data.replication?.target),
  };
}

/** Returns an element of `_active_tasks`. */
export function taskView(entry: JobEntry, serverUrl: string): Json {
  const { jobId, data, worker } = entry;
  const { replication } = data;
  return {
    node: worker?.node ?? null,
    pid: worker?.processId ?? null,
    process_status: "waiting",
    ...scheduledStatistics(entry),
    checkpoint_interval: replication?.options.checkpointIntervalMs ?? null,
    continuous: replication?.continuous ?? false,
    database: data.document?.database ?? null,
    doc_id: data.document?.id ?? null,
    replication_id: data.replicationId ?? jobId,
    source: shownAddress(replication?.source, serverUrl),
    target: shownAddress(replication?.target, serverUrl),
    started_on: Math.floor(data.lastStartMs / 1000),
    updated_on: Math.floor(data.lastUpdatedMs / 1000),
    type: "replication",
    user: data.userName,
  };
}

/**
 * Returns the member `info`. A job that no node is allowed to run shows why. A job that waits for
 * other jobs shows which. A job with a failure shows the failure, unless it is running. Any other
 * job shows its statistics.
 */
function info(entry: JobEntry): Json {
  const { data, state, isUnplaced, awaits } = entry;
  if (isUnplaced) return { error: `no_node: ${noNodeReason(data.replication?.runOn ?? [])}` };
  if (awaits?.error !== undefined) return { error: `${awaits.error}: ${awaits.reason}` };
  if (awaits !== undefined) return { ...scheduledStatistics(entry), after: awaits.reason };
  const failure = failureOf(data);
  if (failure === undefined || state === "running") return scheduledStatistics(entry);
  return { error: `${failure.error}: ${failure.reason}` };
}

/** Formats an endpoint for display without credentials, as in CouchDB 3.5. */
function shownAddress(address: EndpointAddress | undefined, serverUrl: string): string | null {
  if (address === undefined) return null;
  if (address.kind === "http") return stripCredentials(address.url);
  return `${serverUrl}${percentEncode(address.database)}/`;
}

function shownProxy(address: EndpointAddress | undefined): string | null {
  const proxyUrl = address?.kind === "http" ? address.proxyUrl : undefined;
  return proxyUrl === undefined ? null : maskCredentials(proxyUrl);
}

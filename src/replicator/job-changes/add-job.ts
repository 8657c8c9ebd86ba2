/** Adds a job to the queue with all its records, due now or according to its schedule. */

import type { Clock } from "../../base/index.ts";
import type { Authority } from "../../databases/index.ts";
import { type Jobs, NO_LABELS } from "../../jobs/index.ts";
import type { Transaction } from "../../kv/index.ts";
import type { Chains } from "../chains/chains.ts";
import { AWAITING_SEC, NEVER_SEC } from "../jobs/decide.ts";
import {
  type Asked,
  type JobOutcome,
  newJobData,
  REPLICATION_JOB_TYPE,
  type ReplicationJobData,
} from "../jobs/job-data.ts";
import { encodeProgress, encodeRequest } from "../jobs/job-data-record.ts";
import { groupOf } from "../jobs/replication-group.ts";
import type { StoredLoginGates } from "../logins/stored-login-gates.ts";
import { knownReplicationId, type ReplicationIdContext } from "../request/replication-id.ts";
import { firstRunSec, scheduleOf } from "../request/schedule.ts";
import type { ReplicationOwnership } from "./replication-ownership.ts";

export interface AddJobParts {
  readonly runtime: { readonly clock: Clock };
  readonly jobs: Jobs;
  readonly ownership: ReplicationOwnership;
  readonly ids: ReplicationIdContext;
  readonly loginGates: Pick<StoredLoginGates, "open">;
  readonly chains: Chains;
}

/** The requested replication, its requester, and the document or rule it comes from. */
export type JobOrigin = Asked & Authority & Pick<ReplicationJobData, "document" | "rule">;

/** Outcome of a job that ended in another replicator. */
export type EndedElsewhere = JobOutcome &
  Pick<
    ReplicationJobData,
    "statistics" | "checkpointedSequence" | "throughSequence" | "sourceSequence"
  > & {
    /** Start of the run, in milliseconds since the epoch. */
    readonly lastStartMs: number;
    readonly lastUpdatedMs: number;
  };

/**
 * Adds an ended job with an unused id. The job neither runs nor owns its replication until it is
 * retried.
 */
export async function addEndedJob(
  { runtime, jobs, chains }: Pick<AddJobParts, "runtime" | "jobs" | "chains">,
  tx: Transaction,
  jobId: string,
  origin: JobOrigin,
  ended: EndedElsewhere,
): Promise<void> {
  const fresh = newJobData({ ...origin, replicationId: undefined }, runtime.clock.nowMs());
  const errorCount = ended.state === "failed" ? 1 : 0;
  const data: ReplicationJobData = { ...fresh, ...ended, errorCount };
  await jobs.addFinished(tx, { type: REPLICATION_JOB_TYPE, id: jobId }, encodeProgress(data), {
    request: encodeRequest(data),
    group: groupOf(data),
    labels: data.replication?.runOn ?? NO_LABELS,
  });
  await chains.noteReached(tx, jobId, data, undefined);
}

interface AddOptions {
  readonly isPaused?: boolean;
  /** Members copied from the job that is replaced. */
  readonly kept?: Pick<ReplicationJobData, "hasCreatedTarget">;
}

/**
 * Adds a job with an unused id, and returns its data. With `isPaused`, the job is not scheduled.
 */
export async function addJob(
  { runtime, jobs, ownership, ids, loginGates, chains }: AddJobParts,
  tx: Transaction,
  jobId: string,
  origin: JobOrigin,
  { isPaused = false, kept = {} }: AddOptions = {},
): Promise<ReplicationJobData> {
  const nowMs = runtime.clock.nowMs();
  const { replication, userName, vouched } = origin;
  const replicationId = replication && knownReplicationId(ids, replication);
  const data = { ...newJobData({ ...origin, replicationId }, nowMs), ...kept };
  if (replication !== undefined) {
    await loginGates.open(tx, replication.source, false);
    await loginGates.open(tx, replication.target, false);
  }
  ownership.register(tx, replicationId, { jobId, userName, vouched });
  const awaits = await chains.begin(tx, jobId, data);
  const nowSec = Math.floor(nowMs / 1000);
  const firstSec = awaits ? AWAITING_SEC : firstRunSec(scheduleOf(replication), nowSec);
  await jobs.add(tx, { type: REPLICATION_JOB_TYPE, id: jobId }, encodeProgress(data), {
    request: encodeRequest(data),
    group: groupOf(data),
    labels: replication?.runOn ?? NO_LABELS,
    // An unpaused job is due now rather than at time 0: its waiting time counts from its due time,
    // and jobs that have been due for longer run first.
    scheduledAtSec: isPaused ? NEVER_SEC : firstSec,
  });
  return data;
}

/** Adds a job to the queue, with everything that is stored beside it: due now, or when its schedule says. */

import type { Clock } from "../../base/index.ts";
import type { Authority } from "../../databases/index.ts";
import type { Jobs } from "../../jobs/index.ts";
import type { Transaction } from "../../kv/index.ts";
import type { StoredLoginGates } from "../logins/stored-login-gates.ts";
import { knownReplicationId, type ReplicationIdContext } from "../request/replication-id.ts";
import { firstRunSec, scheduleOf } from "../request/schedule.ts";
import { NEVER_SEC } from "./decide.ts";
import {
  type Asked,
  type JobOutcome,
  newJobData,
  REPLICATION_JOB_TYPE,
  type ReplicationJobData,
} from "./job-data.ts";
import { encodeProgress, encodeRequest } from "./job-data-record.ts";
import { groupOf } from "./replication-group.ts";
import type { ReplicationOwnership } from "./replication-ownership.ts";

export interface AddJobParts {
  readonly runtime: { readonly clock: Clock };
  readonly jobs: Jobs;
  readonly ownership: ReplicationOwnership;
  readonly ids: ReplicationIdContext;
  readonly loginGates: Pick<StoredLoginGates, "open">;
}

/** What is asked for, by whom, and by which document or rule. */
export type JobOrigin = Asked & Authority & Pick<ReplicationJobData, "document" | "rule">;

/** What is known of a job that has ended elsewhere. */
export type EndedElsewhere = JobOutcome &
  Pick<
    ReplicationJobData,
    "statistics" | "checkpointedSequence" | "throughSequence" | "sourceSequence"
  > & {
    /** When it began, and when it ended, in milliseconds since the epoch. */
    readonly lastStartMs: number;
    readonly lastUpdatedMs: number;
  };

/** There is no job of this id. It runs when it is asked for; until then it owns no replication. */
export async function addEndedJob(
  { runtime, jobs }: Pick<AddJobParts, "runtime" | "jobs">,
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
  });
}

interface AddOptions {
  readonly isPaused?: boolean;
  /** Taken over from the job that it replaces. */
  readonly kept?: Pick<ReplicationJobData, "hasCreatedTarget">;
}

/** There is no job of this id. Returns what the new one keeps. One that `isPaused` is never due; the caller notes who decided that. */
export async function addJob(
  { runtime, jobs, ownership, ids, loginGates }: AddJobParts,
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
    await loginGates.open(tx, replication.source, "untried");
    await loginGates.open(tx, replication.target, "untried");
  }
  ownership.register(tx, replicationId, { jobId, userName, vouched });
  await jobs.add(tx, { type: REPLICATION_JOB_TYPE, id: jobId }, encodeProgress(data), {
    request: encodeRequest(data),
    group: groupOf(data),
    // Not due since ever: how long it waits counts from here, and it takes no turn before those that wait.
    scheduledAtSec: isPaused
      ? NEVER_SEC
      : firstRunSec(scheduleOf(replication), Math.floor(nowMs / 1000)),
  });
  return data;
}

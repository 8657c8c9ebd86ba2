/**
 * The replicator as the rest of the program sees it: start and cancel transient jobs, wait for them, look at all jobs.
 * Running them is the scheduler's, on whichever node.
 */
import { OperationalError, type Runtime } from "../base/index.ts";
import type { DatabaseRegistry } from "../databases/index.ts";
import type { Job, Jobs } from "../jobs/index.ts";
import type { KeyValueStore, ReadTransaction } from "../kv/index.ts";
import type { AbandonedReplications } from "./abandoned-replications.ts";
import type { FailureList } from "./failure-list.ts";
import { JobCommands } from "./job-commands.ts";
import type { JobControls } from "./job-control.ts";
import {
  fromJobData,
  newJobData,
  persistentJobId,
  REPLICATION_JOB_TYPE,
  type ReplicationFailure,
  toJobData,
} from "./job-data.ts";
import { JobFailures } from "./job-failures.ts";
import type { JobEntry } from "./job-views.ts";
import { removeJob } from "./remove-job.ts";
import type { Replication } from "./replication.ts";
import { groupOf, sharesOfGroups } from "./replication-group.ts";
import { sameReplication } from "./replication-hook.ts";
import { type ReplicationIdContext, transientJobId } from "./replication-id.ts";
import type { ReplicationOwnership } from "./replication-ownership.ts";
import type { ReplicatorConfig } from "./replicator-config.ts";

/** Jobs read in one transaction. */
const PAGE_ROWS_MAX = 200;

/** The job belongs to somebody else, or to a document; `reason` is CouchDB's. */
export class JobNotYoursError extends OperationalError {
  override readonly name = "JobNotYoursError";

  constructor(reason: string) {
    super("REPLICATOR_JOB_NOT_YOURS", "The job belongs to another", { reason });
  }
}

export interface Requester {
  readonly userName: string | null;
  readonly isAdmin: boolean;
}

/** How a transient job ended. `removed`: somebody cancelled it meanwhile. */
export type TransientOutcome =
  | { readonly kind: "completed"; readonly result: Readonly<Record<string, unknown>> }
  | { readonly kind: "failed"; readonly failure: ReplicationFailure }
  | { readonly kind: "removed" };

export interface ReplicatorParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly ownership: ReplicationOwnership;
  readonly failureList: FailureList;
  readonly controls: JobControls;
  readonly abandoned: AbandonedReplications;
  readonly databases: DatabaseRegistry;
  readonly ids: ReplicationIdContext;
  readonly config: ReplicatorConfig;
}

export class Replicator {
  /** What jobs left behind. */
  readonly failures: JobFailures;
  /** What an operator can do to a job. */
  readonly commands: JobCommands;
  readonly #parts: ReplicatorParts;

  constructor(parts: ReplicatorParts) {
    this.#parts = parts;
    this.failures = new JobFailures(parts);
    this.commands = new JobCommands(parts);
  }

  get config(): ReplicatorConfig {
    return this.#parts.config;
  }

  /** Registers the job type, so that jobs can be added. Once, at the start of every node. */
  async prepare(): Promise<void> {
    const { kv, jobs, config } = this.#parts;
    await kv.transact(
      (tx) => jobs.setTypeTimeout(tx, REPLICATION_JOB_TYPE, config.activityTimeoutSec),
      { whenUnknown: "retry" },
    );
    await this.setShares(config);
  }

  /** Shares the slots in this way from now on, on all nodes. */
  async setShares({
    fairShare,
    shares,
  }: Pick<ReplicatorConfig, "fairShare" | "shares">): Promise<void> {
    const { kv, jobs } = this.#parts;
    await kv.transact(
      async (tx) => {
        await jobs.groups.setFairShare(tx, REPLICATION_JOB_TYPE, fairShare);
        await jobs.groups.setAllShares(tx, REPLICATION_JOB_TYPE, sharesOfGroups(shares));
      },
      { whenUnknown: "retry" },
    );
  }

  /** Accepts a transient job; the same one, asked for again by the same user, is the one that is there. Returns its id. */
  async start(replication: Replication, requester: Requester): Promise<string> {
    const { kv, jobs, ids, runtime } = this.#parts;
    const { userName } = requester;
    const id = transientJobId(ids, replication, userName);
    await kv.transact(async (tx) => {
      const existing = await jobs.get(tx, jobName(id));
      if (existing !== undefined) {
        const { state, replication: earlier } = fromJobData(existing.data);
        const active = state === "pending" || state === "running";
        if (active && sameReplication(earlier, replication)) return;
        await removeJob(this.#parts, tx, existing);
      }
      const origin = { replication, document: undefined, userName };
      const nowMs = runtime.clock.nowMs();
      const data = newJobData(origin, nowMs);
      const plan = { group: groupOf(data), scheduledAtSec: Math.floor(nowMs / 1000) };
      await jobs.add(tx, jobName(id), toJobData(data), plan);
    });
    return id;
  }

  /** The id under which a body with `cancel` names a transient job: its own, or the one that its parameters give. */
  transientId(replication: Replication, requester: Requester): string {
    return transientJobId(this.#parts.ids, replication, requester.userName);
  }

  /** Cancels a transient job by replication id or job id; returns the id that `_replicate` answers, undefined if none is there. */
  async cancel(id: string, requester: Requester): Promise<string | undefined> {
    const { kv, jobs, ownership } = this.#parts;
    return kv.transact(async (tx) => {
      const jobId = await ownership.jobOf(tx, id);
      const job = await jobs.get(tx, jobName(jobId));
      if (job === undefined || job.state === "finished") return undefined;
      const data = fromJobData(job.data);
      if (data.document !== undefined) {
        throw new JobNotYoursError("Persistent replication collision");
      }
      if (data.userName !== requester.userName && !requester.isAdmin) {
        throw new JobNotYoursError("You are not a server admin.");
      }
      await removeJob(this.#parts, tx, job);
      return data.replicationId ?? jobId;
    });
  }

  /** Waits until a one-shot job has ended, on whichever node. */
  async ended(jobId: string, signal: AbortSignal): Promise<TransientOutcome> {
    return this.#when(jobId, signal, (job): TransientOutcome | undefined => {
      if (job === undefined) return { kind: "removed" };
      const { state, result, failure } = fromJobData(job.data);
      if (state === "completed") return { kind: "completed", result: result ?? {} };
      if (state !== "failed") return undefined;
      return { kind: "failed", failure: failure ?? { error: "error", reason: "" } };
    });
  }

  /** Waits until a job has its replication id, which is known once it ran; or until it failed before that. */
  async started(jobId: string, signal: AbortSignal): Promise<string | ReplicationFailure> {
    return this.#when(jobId, signal, (job): string | ReplicationFailure | undefined => {
      if (job === undefined) return { error: "not_found", reason: "missing" };
      const { state, replicationId, failure } = fromJobData(job.data);
      if (state === "failed") return failure ?? { error: "error", reason: "" };
      return replicationId ?? (state === "crashing" ? jobId : undefined);
    });
  }

  /** A job by replication id or job id. */
  async find(id: string): Promise<JobEntry | undefined> {
    const { kv, jobs, ownership } = this.#parts;
    const job = await kv.read(async (tx) => jobs.get(tx, jobName(await ownership.jobOf(tx, id))));
    return job && entryOf(job);
  }

  /** The job of a replication document. */
  async findDocument(databaseUuid: string, documentId: string): Promise<JobEntry | undefined> {
    const { kv, jobs } = this.#parts;
    const name = jobName(persistentJobId(databaseUuid, documentId));
    const job = await kv.read((tx) => jobs.get(tx, name));
    return job && entryOf(job);
  }

  /** Every job in order of its id; those of one `_replicator` database if its uuid is given. */
  async *entries(databaseUuid?: string): AsyncIterable<JobEntry> {
    const { kv, jobs } = this.#parts;
    const prefix = databaseUuid === undefined ? "" : persistentJobId(databaseUuid, "");
    let afterId: string | undefined = prefix === "" ? undefined : prefix;
    for (;;) {
      const from = afterId === undefined ? {} : { afterId };
      const page = await kv.read((tx: ReadTransaction) =>
        jobs.list(tx, REPLICATION_JOB_TYPE, { ...from, limit: PAGE_ROWS_MAX }),
      );
      for (const job of page.entries) {
        if (!job.id.startsWith(prefix)) return;
        yield entryOf(job);
      }
      if (page.stoppedBy === "exhausted") return;
      afterId = page.entries.at(-1)?.id;
    }
  }

  /** Forgets what is too old to be asked for. Now and then, on any node. */
  async cleanUp(): Promise<void> {
    await this.removeOldTransients();
    await this.#parts.abandoned.prune(this.#parts.config.abandonedSecMax);
  }

  /** Removes transient jobs that ended so long ago that nobody will ask for them. */
  async removeOldTransients(): Promise<void> {
    const { kv, jobs, config, runtime } = this.#parts;
    const before = runtime.clock.nowMs() - config.transientJobAgeSecMax * 1000;
    for await (const { jobId, data } of this.entries()) {
      const ended = data.state === "completed" || data.state === "failed";
      if (data.document !== undefined || !ended || data.lastUpdatedMs > before) continue;
      await kv.transact(async (tx) => {
        const job = await jobs.get(tx, jobName(jobId));
        if (job?.state === "finished") await removeJob(this.#parts, tx, job);
      });
    }
  }

  /** Looks at the job each time it changes, until `decide` has an answer. */
  async #when<T>(
    jobId: string,
    signal: AbortSignal,
    decide: (job: Job | undefined) => T | undefined,
  ): Promise<T> {
    const { kv, jobs } = this.#parts;
    for (;;) {
      signal.throwIfAborted();
      const { job, watch } = await kv.transact(async (tx) => ({
        job: await jobs.get(tx, jobName(jobId)),
        watch: jobs.watch(tx, jobName(jobId)),
      }));
      const answer = decide(job);
      if (answer !== undefined) {
        watch.cancel();
        return answer;
      }
      await watch.fired(signal);
    }
  }
}

function jobName(id: string): { type: string; id: string } {
  return { type: REPLICATION_JOB_TYPE, id };
}

function entryOf(job: Job): JobEntry {
  return { jobId: job.id, data: fromJobData(job.data), scheduledAtSec: job.scheduledAtSec };
}

/**
 * Records which jobs want a replication, and which of them owns it. Jobs that copy the same have the same replication
 * id, and only the owner runs (`couch_replicator_job`'s check of ownership).
 */

import { EMPTY_BYTES, utf8Decode, utf8Encode } from "../../base/index.ts";
import { type Authority, ownerKey } from "../../databases/index.ts";
import type { Job, Jobs } from "../../jobs/index.ts";
import type { KeyRange, ReadTransaction, Subspace, Transaction } from "../../kv/index.ts";
import { ReplicatorKeys } from "../replicator-keys.ts";
import { baseIdOf } from "../request/replication-id.ts";
import { encodeMark } from "./abandoned-replications.ts";
import { REPLICATION_JOB_TYPE, replicationState } from "./job-data.ts";
import { decodeJob } from "./job-data-record.ts";
import { isOfRemovedDatabase } from "./removed-marks.ts";

/** `duplicate`: another job runs it, or is about to. */
export type Claim =
  | { readonly kind: "owner" }
  | {
      readonly kind: "duplicate";
      readonly otherJobId: string;
      readonly otherIsPersistent: boolean;
    };

/** A job, and on whose behalf it runs. */
export interface ReplicatingJob extends Authority {
  readonly jobId: string;
}

export class ReplicationOwnership {
  readonly #keys: ReplicatorKeys;
  readonly #jobs: Jobs;

  constructor(subspace: Subspace, jobs: Jobs) {
    this.#keys = new ReplicatorKeys(subspace);
    this.#jobs = jobs;
  }

  /**
   * The job that an id names: a job id, or a replication id. Of several jobs that want the replication it is one of `asker`'s, if
   * there is one, and otherwise the owner.
   */
  async jobOf(tx: ReadTransaction, id: string, asker?: Authority): Promise<string> {
    const owner = await this.#ownerOf(tx, id);
    if (asker !== undefined) {
      const own = await this.#jobsIn(tx, this.#keys.replicationJobsOf(id, ownerKey(asker)));
      if (own.length > 0 && (owner === undefined || !own.includes(owner))) return own[0] as string;
    }
    return owner ?? (await this.#jobsIn(tx, this.#keys.replicationJobs(id), 1))[0] ?? id;
  }

  /** The jobs that want a replication of this base id, each once. */
  async jobsOfBase(tx: ReadTransaction, baseId: string): Promise<readonly string[]> {
    return [...new Set(await this.#jobsIn(tx, this.#keys.replicationJobsBelow(baseId)))];
  }

  async #jobsIn(tx: ReadTransaction, range: KeyRange, limit?: number): Promise<string[]> {
    const { entries } = await tx.getRangePage(range, limit === undefined ? {} : { limit });
    return entries.map(({ key }) => this.#keys.replicationJobId(key));
  }

  /** A job that will run this replication is found by its id from now on. */
  register(tx: Transaction, replicationId: string | undefined, job: ReplicatingJob): void {
    if (replicationId === undefined) return;
    tx.set(this.#keys.replicationJob(replicationId, ownerKey(job), job.jobId), EMPTY_BYTES);
  }

  /** Makes the job the owner, unless another one that is alive and well has it. A job that crashes, has ended or belongs to a deleted database gives way. */
  async claim(tx: Transaction, replicationId: string, job: ReplicatingJob): Promise<Claim> {
    const { jobId } = job;
    const owner = await this.#ownerOf(tx, replicationId);
    if (owner !== undefined && owner !== jobId) {
      const other = await this.#jobs.get(tx, { type: REPLICATION_JOB_TYPE, id: owner });
      const isGone = await isOfRemovedDatabase(tx, this.#keys, owner);
      if (other !== undefined && !isGone && isAliveAndWell(other)) {
        const otherIsPersistent = decodeJob(other).document !== undefined;
        return { kind: "duplicate", otherJobId: owner, otherIsPersistent };
      }
    }
    tx.set(this.#keys.replicationId(replicationId), utf8Encode(jobId));
    this.register(tx, replicationId, job);
    return { kind: "owner" };
  }

  /** Whether the job is the owner already, so that it need not claim the replication. */
  async isOwner(tx: ReadTransaction, replicationId: string, jobId: string): Promise<boolean> {
    return (await this.#ownerOf(tx, replicationId)) === jobId;
  }

  /** The job is not one of this replication any more. If it was the owner, another one takes its place. */
  async release(
    tx: Transaction,
    replicationId: string | undefined,
    job: ReplicatingJob,
  ): Promise<void> {
    if (replicationId === undefined) return;
    const { jobId } = job;
    tx.clear(this.#keys.replicationJob(replicationId, ownerKey(job), jobId));
    if ((await this.#ownerOf(tx, replicationId)) !== jobId) return;
    const [other] = await this.#jobsIn(tx, this.#keys.replicationJobs(replicationId), 1);
    if (other !== undefined) {
      tx.set(this.#keys.replicationId(replicationId), utf8Encode(other));
      return;
    }
    tx.clear(this.#keys.replicationId(replicationId));
    tx.set(this.#keys.abandonedMark(baseIdOf(replicationId)), encodeMark());
  }

  async #ownerOf(tx: ReadTransaction, replicationId: string): Promise<string | undefined> {
    const value = await tx.get(this.#keys.replicationId(replicationId));
    return value && utf8Decode(value);
  }
}

function isAliveAndWell(job: Job): boolean {
  const state = replicationState(job, decodeJob(job));
  return state === "running" || state === "pending";
}

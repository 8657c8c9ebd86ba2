/**
 * Which job runs a replication. Two jobs that copy the same thing have the same replication id; only one of them runs
 * (`couch_replicator_job`'s check of ownership).
 */
import { utf8Decode, utf8Encode } from "../base/index.ts";
import type { Jobs } from "../jobs/index.ts";
import type { ReadTransaction, Subspace, Transaction } from "../kv/index.ts";
import { encodeMark } from "./abandoned-replications.ts";
import { fromJobData, REPLICATION_JOB_TYPE } from "./job-data.ts";
import { baseIdOf } from "./replication-id.ts";
import { ReplicatorKeys } from "./replicator-keys.ts";

/** `duplicate`: another job runs it, or is about to. */
export type Claim =
  | { readonly kind: "owner" }
  | {
      readonly kind: "duplicate";
      readonly otherJobId: string;
      readonly otherIsPersistent: boolean;
    };

export class ReplicationOwnership {
  readonly #keys: ReplicatorKeys;
  readonly #jobs: Jobs;

  constructor(subspace: Subspace, jobs: Jobs) {
    this.#keys = new ReplicatorKeys(subspace);
    this.#jobs = jobs;
  }

  /** The job that a replication id, or a job id, names. */
  async jobOf(tx: ReadTransaction, id: string): Promise<string> {
    const value = await tx.get(this.#keys.replicationId(id));
    return value === undefined ? id : utf8Decode(value);
  }

  /** Makes the job the owner, unless another one that is alive and well has it. A job that crashes or ended gives way. */
  async claim(tx: Transaction, replicationId: string, jobId: string): Promise<Claim> {
    const owner = await this.jobOf(tx, replicationId);
    if (owner !== replicationId && owner !== jobId) {
      const other = await this.#jobs.get(tx, { type: REPLICATION_JOB_TYPE, id: owner });
      const data = other && fromJobData(other.data);
      if (data?.state === "running" || data?.state === "pending") {
        const otherIsPersistent = data.document !== undefined;
        return { kind: "duplicate", otherJobId: owner, otherIsPersistent };
      }
    }
    tx.set(this.#keys.replicationId(replicationId), utf8Encode(jobId));
    return { kind: "owner" };
  }

  /** Gives a replication id up, if the job has it. */
  async release(tx: Transaction, replicationId: string | undefined, jobId: string): Promise<void> {
    if (replicationId === undefined) return;
    const owner = await this.jobOf(tx, replicationId);
    if (owner !== jobId) return;
    tx.clear(this.#keys.replicationId(replicationId));
    tx.set(this.#keys.abandonedMark(baseIdOf(replicationId)), encodeMark());
  }
}

/**
 * Records which jobs want a replication, and which one owns it. Jobs with the same replication id
 * would copy the same revisions, so only the owner runs (as in `couch_replicator_job`).
 */

import { EMPTY_BYTES, utf8Decode, utf8Encode } from "../../base/index.ts";
import { type Authority, ownerKey } from "../../databases/index.ts";
import type { Job, Jobs } from "../../jobs/index.ts";
import type {
  KeyRange,
  RangeOptions,
  ReadTransaction,
  Subspace,
  Transaction,
} from "../../kv/index.ts";
import { isOfRemovedDatabase } from "../job-log/removed-marks.ts";
import { isProven, REPLICATION_JOB_TYPE, replicationState } from "../jobs/job-data.ts";
import { decodeJob } from "../jobs/job-data-record.ts";
import { jobName } from "../jobs/job-name.ts";
import { idsOfBase, type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import { baseIdOf } from "../request/replication-id.ts";
import { encodeMark } from "./abandoned-replications.ts";

/**
 * Time for which a job with unverified credentials blocks other users' jobs for the same
 * replication. Long enough for distant servers to respond for the first time.
 */
export const UNPROVEN_MS_MAX = 60_000;

/** Result of a claim. `duplicate`: another job runs the replication, or will soon run it. */
export type Claim =
  | { readonly kind: "owner" }
  | {
      readonly kind: "duplicate";
      readonly otherJobId: string;
      readonly otherIsPersistent: boolean;
      readonly otherState: "running" | "parked" | "pending";
      /**
       * Name of the other job. If it belongs to another user, its replication id instead, because
       * the names of other users' jobs are not disclosed.
       */
      readonly otherName: string;
      /**
       * Whether both servers have accepted the other job's credentials. Present only if the other
       * job belongs to another user.
       */
      readonly rival?: "proven" | "unproven";
    };

export interface ClaimOptions {
  readonly nowMs?: number;
  /** Whether both servers have answered the claiming job, and so have accepted its credentials. */
  readonly hasAnswered?: boolean;
}

/** A job, and the user it runs for. */
export interface ReplicatingJob extends Authority {
  readonly jobId: string;
}

export class ReplicationOwnership {
  readonly #keys: ReplicatorKeys;
  readonly #jobs: Jobs;

  constructor(subspace: Subspace, jobs: Jobs) {
    this.#keys = replicatorKeys(subspace);
    this.#jobs = jobs;
  }

  /**
   * Resolves a job id or replication id to a job. A replication id is resolved to a job of `asker`
   * if there is one, otherwise to the job that owns the replication.
   */
  async jobOf(tx: ReadTransaction, id: string, asker?: Authority): Promise<string> {
    const owner = await this.#ownerOf(tx, id);
    if (asker !== undefined) {
      const own = await this.#jobsIn(
        tx,
        this.#keys.replicationJob.range({ replicationId: id, owner: ownerKey(asker) }),
      );
      if (own.length > 0 && (owner === undefined || !own.includes(owner))) return own[0] as string;
    }
    return (
      owner ??
      (
        await this.#jobsIn(tx, this.#keys.replicationJob.range({ replicationId: id }), { limit: 1 })
      )[0] ??
      id
    );
  }

  /** Returns the distinct jobs that want a replication with this base id. */
  async jobsOfBase(tx: ReadTransaction, baseId: string): Promise<readonly string[]> {
    return [...new Set(await this.#jobsIn(tx, idsOfBase(this.#keys.replicationJob, baseId)))];
  }

  async #jobsIn(
    tx: ReadTransaction,
    range: KeyRange,
    options: RangeOptions = {},
  ): Promise<string[]> {
    const { entries } = await tx.getRangePage(range, options);
    return entries.map(({ key }) => this.#keys.replicationJob.unpack(key).jobId);
  }

  /** Registers the job, so that it can be found by the replication id. */
  register(tx: Transaction, replicationId: string | undefined, job: ReplicatingJob): void {
    if (replicationId === undefined) return;
    tx.set(
      this.#keys.replicationJob.key({ replicationId, owner: ownerKey(job), jobId: job.jobId }),
      EMPTY_BYTES,
    );
  }

  /**
   * Makes the job the owner of its replications, unless another job keeps one of them. An owner
   * yields if it is crashing, has ended or belongs to a deleted database. It also yields if it
   * belongs to a different user and has unverified credentials.
   */
  async claim(
    tx: Transaction,
    replicationIds: readonly string[],
    job: ReplicatingJob,
    options: ClaimOptions = {},
  ): Promise<Claim> {
    for (const id of replicationIds) {
      const claim = await this.#claim(tx, id, job, options);
      if (claim.kind !== "owner") return claim;
    }
    return { kind: "owner" };
  }

  async #claim(
    tx: Transaction,
    replicationId: string,
    job: ReplicatingJob,
    options: ClaimOptions,
  ): Promise<Claim> {
    const { jobId } = job;
    const owner = await this.#ownerOf(tx, replicationId);
    if (owner !== undefined && owner !== jobId) {
      const other = await this.#jobs.get(tx, { type: REPLICATION_JOB_TYPE, id: owner });
      const isGone = await isOfRemovedDatabase(tx, this.#keys, owner);
      const duplicate = isGone
        ? undefined
        : other && duplicateOf(replicationId, other, job, options);
      if (duplicate !== undefined) return duplicate;
    }
    tx.set(this.#keys.replicationId.key({ replicationId }), utf8Encode(jobId));
    this.register(tx, replicationId, job);
    return { kind: "owner" };
  }

  /** Whether other jobs, possibly of other users, want one of the replications. */
  async isWantedByOthers(
    tx: ReadTransaction,
    replicationIds: readonly string[],
    jobId: string,
  ): Promise<boolean> {
    for (const replicationId of replicationIds) {
      const range = this.#keys.replicationJob.range({ replicationId });
      const jobs = await this.#jobsIn(tx, range, { limit: 2 });
      if (jobs.some((id) => id !== jobId)) return true;
    }
    return false;
  }

  /** Whether the job owns all of the replications. */
  async isOwner(
    tx: ReadTransaction,
    replicationIds: readonly string[],
    jobId: string,
  ): Promise<boolean> {
    for (const id of replicationIds) if ((await this.#ownerOf(tx, id)) !== jobId) return false;
    return true;
  }

  /**
   * Withdraws the job's claims to its replications. If another job claims a replication that this
   * job owned, that job becomes the owner.
   */
  async release(
    tx: Transaction,
    replicationIds: readonly string[],
    job: ReplicatingJob,
  ): Promise<void> {
    for (const id of replicationIds) await this.#release(tx, id, job);
  }

  async #release(tx: Transaction, replicationId: string, job: ReplicatingJob): Promise<void> {
    const { jobId } = job;
    tx.clear(this.#keys.replicationJob.key({ replicationId, owner: ownerKey(job), jobId }));
    if ((await this.#ownerOf(tx, replicationId)) !== jobId) return;
    const [other] = await this.#jobsIn(tx, this.#keys.replicationJob.range({ replicationId }), {
      limit: 1,
    });
    if (other !== undefined) {
      tx.set(this.#keys.replicationId.key({ replicationId }), utf8Encode(other));
      return;
    }
    tx.clear(this.#keys.replicationId.key({ replicationId }));
    tx.set(this.#keys.abandoned.key({ baseId: baseIdOf(replicationId) }), encodeMark());
  }

  async #ownerOf(tx: ReadTransaction, replicationId: string): Promise<string | undefined> {
    const value = await tx.get(this.#keys.replicationId.key({ replicationId }));
    return value && utf8Decode(value);
  }
}

/** Returns the claim if `other` keeps the replication; undefined if `other` yields it to `job`. */
function duplicateOf(
  replicationId: string,
  other: Job,
  job: ReplicatingJob,
  { nowMs = 0, hasAnswered = false }: ClaimOptions,
): Claim | undefined {
  const data = decodeJob(other);
  const state = replicationState(other, data);
  if (state !== "running" && state !== "pending") return undefined;
  const isSameOwner = ownerKey(data) === ownerKey(job);
  const duplicate = {
    kind: "duplicate",
    otherJobId: other.id,
    otherIsPersistent: data.document !== undefined,
    otherState: data.state === "parked" && other.state !== "running" ? "parked" : state,
    otherName: isSameOwner ? jobName(other.id, data) : replicationId,
  } as const;
  if (isSameOwner) return duplicate;
  if (isProven(data)) return { ...duplicate, rival: "proven" };
  const isLate = state === "pending" || nowMs - data.lastStartMs > UNPROVEN_MS_MAX;
  return hasAnswered || isLate ? undefined : { ...duplicate, rival: "unproven" };
}

/** Stores the backlogs of jobs (`backlog.ts`) and their rows in the job index. */
import type { ReadTransaction, Subspace, Transaction } from "../../kv/index.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import { type Backlog, decodeBacklog, encodeBacklog } from "./backlog.ts";
import type { JobIndex } from "./job-index.ts";

export class Backlogs {
  readonly #keys: ReplicatorKeys;
  readonly #index: JobIndex;

  constructor(subspace: Subspace, index: JobIndex) {
    this.#keys = replicatorKeys(subspace);
    this.#index = index;
  }

  async get(tx: ReadTransaction, jobId: string): Promise<Backlog | undefined> {
    const value = await tx.get(this.#keys.backlog.key({ jobId }));
    return value && decodeBacklog(value);
  }

  /** Returns the backlog of each job, in the order of `jobIds`; undefined if unknown. */
  async getMany(
    tx: ReadTransaction,
    jobIds: readonly string[],
  ): Promise<readonly (Backlog | undefined)[]> {
    const values = await tx.getMany(jobIds.map((jobId) => this.#keys.backlog.key({ jobId })));
    return values.map((value) => value && decodeBacklog(value));
  }

  /** Stores the backlog of an existing job. */
  async set(tx: Transaction, jobId: string, backlog: Backlog): Promise<void> {
    tx.set(this.#keys.backlog.key({ jobId }), encodeBacklog(backlog));
    await this.#index.behind(tx, jobId, backlog.sinceMs);
  }

  /** Removes the backlog of a job. Must be called after the job was removed. */
  remove(tx: Transaction, jobId: string): void {
    tx.clear(this.#keys.backlog.key({ jobId }));
  }
}

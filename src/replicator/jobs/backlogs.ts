/** Stores the backlogs of jobs (`backlog.ts`), with their rows in the index of jobs. */
import type { ReadTransaction, Subspace, Transaction } from "../../kv/index.ts";
import { ReplicatorKeys } from "../replicator-keys.ts";
import { type Backlog, decodeBacklog, encodeBacklog } from "./backlog.ts";
import type { JobIndex } from "./job-index.ts";

export class Backlogs {
  readonly #keys: ReplicatorKeys;
  readonly #index: JobIndex;

  constructor(subspace: Subspace, index: JobIndex) {
    this.#keys = new ReplicatorKeys(subspace);
    this.#index = index;
  }

  /** Undefined while nothing is known. */
  async get(tx: ReadTransaction, jobId: string): Promise<Backlog | undefined> {
    const value = await tx.get(this.#keys.backlog(jobId));
    return value && decodeBacklog(value);
  }

  /** Those of several jobs, in their order. */
  async getMany(
    tx: ReadTransaction,
    jobIds: readonly string[],
  ): Promise<readonly (Backlog | undefined)[]> {
    const values = await tx.getMany(jobIds.map((jobId) => this.#keys.backlog(jobId)));
    return values.map((value) => value && decodeBacklog(value));
  }

  /** In a transaction that knows that the job is there. */
  async set(tx: Transaction, jobId: string, backlog: Backlog): Promise<void> {
    tx.set(this.#keys.backlog(jobId), encodeBacklog(backlog));
    await this.#index.behind(tx, jobId, backlog.sinceMs);
  }

  /** After the job was removed. */
  remove(tx: Transaction, jobId: string): void {
    tx.clear(this.#keys.backlog(jobId));
  }
}

/** The last runs of each job: a ring of rows, written in the transactions that end the runs. */
import type { ReadTransaction, Subspace, Transaction } from "../../kv/index.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import { decodeJobRun, encodeJobRun, type JobRun } from "./job-run.ts";

/** Maximum number of runs kept per job. */
export const RUNS_MAX = 50;

export class JobRuns {
  readonly #keys: ReplicatorKeys;

  constructor(subspace: Subspace) {
    this.#keys = replicatorKeys(subspace);
  }

  /** Returns the last runs of a job, newest first. */
  async list(tx: ReadTransaction, jobId: string): Promise<readonly JobRun[]> {
    const runs: JobRun[] = [];
    const range = this.#keys.jobRun.range({ jobId });
    for await (const { value } of tx.getRange(range, { limit: RUNS_MAX, reverse: true })) {
      runs.push(decodeJobRun(value));
    }
    return runs;
  }

  /** Adds runs, given oldest first. Deletes the oldest rows beyond `RUNS_MAX`. */
  async add(tx: Transaction, jobId: string, runs: readonly JobRun[]): Promise<void> {
    if (runs.length === 0) return;
    const range = this.#keys.jobRun.range({ jobId });
    const { entries } = await tx.getRangePage(range, { limit: 1, reverse: true });
    let number = entries[0] === undefined ? 0 : this.#keys.jobRun.unpack(entries[0].key).number;
    for (const run of runs)
      tx.set(this.#keys.jobRun.key({ jobId, number: ++number }), encodeJobRun(run));
    if (number <= RUNS_MAX) return;
    tx.clearRange({
      begin: range.begin,
      end: this.#keys.jobRun.key({ jobId, number: number - RUNS_MAX + 1 }),
    });
  }

  remove(tx: Transaction, jobId: string): void {
    tx.clearRange(this.#keys.jobRun.range({ jobId }));
  }
}

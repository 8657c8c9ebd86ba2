/**
 * Stores the backlogs of jobs (`backlog.ts`) and their rows in the job index. The backlog of a
 * parked job is unknown while its source does not respond to the watcher.
 */
import type { ReadTransaction, Subspace, Transaction } from "../../kv/index.ts";
import { decodeSources } from "../jobs/parked-record.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import { type Backlog, decodeBacklog, encodeBacklog } from "./backlog.ts";
import type { JobIndex } from "./job-index.ts";

/** Maximum number of unresponsive sources read per transaction. */
const SILENT_MAX = 1_000;
/** Maximum number of parked jobs with unresponsive sources that are counted. */
const COUNTED_MAX = 10_000;

export class Backlogs {
  readonly #keys: ReplicatorKeys;
  readonly #index: JobIndex;

  constructor(subspace: Subspace, index: JobIndex) {
    this.#keys = replicatorKeys(subspace);
    this.#index = index;
  }

  async get(tx: ReadTransaction, jobId: string): Promise<Backlog | undefined> {
    const [backlog] = await this.getMany(tx, [jobId]);
    return backlog;
  }

  /** Returns the backlog of each job, in the order of `jobIds`; undefined if unknown. */
  async getMany(
    tx: ReadTransaction,
    jobIds: readonly string[],
  ): Promise<readonly (Backlog | undefined)[]> {
    const values = await tx.getMany(jobIds.map((jobId) => this.#keys.backlog.key({ jobId })));
    const unwatched = await this.unwatched(
      tx,
      jobIds.filter((_, index) => values[index] !== undefined),
    );
    return values.map((value, index) =>
      value === undefined || unwatched.has(jobIds[index] ?? "") ? undefined : decodeBacklog(value),
    );
  }

  /** Returns the sources that do not respond to the watchers of their parked jobs. */
  async silentSources(tx: ReadTransaction): Promise<ReadonlySet<string>> {
    const { entries } = await tx.getRangePage(this.#keys.silentSource.range(), {
      limit: SILENT_MAX,
    });
    return new Set(entries.map(({ key }) => this.#keys.silentSource.unpack(key).source));
  }

  /** Counts the parked jobs whose sources do not respond, up to `COUNTED_MAX`. */
  async unwatchedCount(tx: ReadTransaction): Promise<number> {
    let count = 0;
    for (const source of await this.silentSources(tx)) {
      const limit = COUNTED_MAX - count;
      if (limit === 0) break;
      count += (await tx.getRangePage(this.#keys.watched.range({ source }), { limit })).entries
        .length;
    }
    return count;
  }

  /**
   * Returns the ids of the jobs among `jobIds` that are parked and whose source does not respond.
   */
  async unwatched(tx: ReadTransaction, jobIds: readonly string[]): Promise<ReadonlySet<string>> {
    if (jobIds.length === 0) return new Set();
    const silent = await this.silentSources(tx);
    if (silent.size === 0) return silent;
    const rows = await tx.getMany(jobIds.map((jobId) => this.#keys.parkedJob.key({ jobId })));
    return new Set(
      jobIds.filter((_, index) => {
        const row = rows[index];
        return row !== undefined && decodeSources(row).some(({ source }) => silent.has(source));
      }),
    );
  }

  /** Stores the backlog of an existing job. */
  async set(tx: Transaction, jobId: string, backlog: Backlog): Promise<void> {
    tx.set(this.#keys.backlog.key({ jobId }), encodeBacklog(backlog));
    await this.#index.behind(tx, jobId, backlog);
  }

  /** Removes the backlog of a job. Must be called after the job was removed. */
  remove(tx: Transaction, jobId: string): void {
    tx.clear(this.#keys.backlog.key({ jobId }));
  }
}

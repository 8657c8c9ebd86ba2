/**
 * Jobs of deleted `_replicator` databases and rules. The deleting transaction writes a marker and
 * queues the removal. From then on, no node starts these jobs, and running ones are halted. The
 * jobs, and finally the marker, are removed in the background, page by page.
 */
import { type Runtime, utf8Encode } from "../../base/index.ts";
import type { HeldJob, Job } from "../../jobs/index.ts";
import {
  getRemoval,
  type KeyValueStore,
  keyAfter,
  type ReadTransaction,
  type RemovedPage,
  removeInBackground,
  type Subspace,
  type Transaction,
} from "../../kv/index.ts";
import { type RemoveJobParts, removeJob } from "../job-changes/remove-job.ts";
import { isOfRemovedDatabase } from "../job-log/removed-marks.ts";
import { persistentJobId, REPLICATION_JOB_TYPE } from "../jobs/job-data.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";

/**
 * Number of jobs removed per transaction. Each has about twenty keys in the store, plus those of
 * its runs.
 */
const PAGE_ROWS_MAX = 25;
/** Number of markers read per transaction. */
const MARKS_MAX = 100;

export interface RemovedDatabasesParts extends RemoveJobParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly subspace: Subspace;
}

/** Callback that ends the runs of all jobs with this id prefix, without further writes. */
export type HaltJobs = (idPrefix: string) => void;

export class RemovedDatabases {
  readonly name = "replicator.removed-databases";
  readonly #parts: RemovedDatabasesParts;
  readonly #keys: ReplicatorKeys;
  #haltJobs: HaltJobs = () => {};

  constructor(parts: RemovedDatabasesParts) {
    this.#parts = parts;
    this.#keys = replicatorKeys(parts.subspace);
  }

  /** Sets the callback that ends runs, on nodes that run jobs. */
  set haltJobs(haltJobs: HaltJobs) {
    this.#haltJobs = haltJobs;
  }

  /**
   * Marks the database or rule with this uuid as deleted, and queues the removal of its jobs. Must
   * be called in the transaction that deletes the database or rule.
   */
  mark(tx: Transaction, databaseUuid: string): void {
    tx.set(this.#keys.removedDatabase.key({ uuid: databaseUuid }), utf8Encode("1"));
    tx.add(this.#keys.databasesRemoved.key({}), 1n);
    this.#queue(tx, databaseUuid);
    this.#parts.halted.noteDatabase(tx, databaseUuid);
    tx.afterCommit(() => this.#haltJobs(persistentJobId(databaseUuid, "")));
  }

  /**
   * Removes a job that was halted because its database or rule was deleted. Throws if the job is
   * lost.
   */
  async removeHalted(held: HeldJob): Promise<void> {
    const { kv, jobs } = this.#parts;
    await kv.transact(async (tx) => {
      await jobs.verify(tx, held);
      const job = await jobs.get(tx, held);
      if (job !== undefined && (await this.has(tx, held.id))) await removeJob(this.#parts, tx, job);
    });
  }

  /** Whether the job's database or rule was deleted. If true, the job must not run. */
  has(tx: ReadTransaction, jobId: string): Promise<boolean> {
    return isOfRemovedDatabase(tx, this.#keys, jobId);
  }

  /** Halts jobs of databases deleted by other nodes, until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { kv } = this.#parts;
    let known: ReadonlySet<string> = new Set();
    while (!signal.aborted) {
      const { uuids, watch } = await kv.transact(async (tx) => {
        const page = await tx.snapshot.getRangePage(this.#keys.removedDatabase.range(), {
          limit: MARKS_MAX,
        });
        const marked = page.entries.map(({ key }) => this.#keys.removedDatabase.unpack(key).uuid);
        // Queue the removals that older versions did not queue: they only wrote the marker.
        for (const uuid of marked) {
          const removal = await getRemoval(tx.snapshot, this.#markRange(uuid));
          if (removal === undefined) this.#queue(tx, uuid);
        }
        return { uuids: marked, watch: tx.watch(this.#keys.databasesRemoved.key({})) };
      });
      try {
        for (const uuid of uuids) {
          if (!known.has(uuid)) this.#haltJobs(persistentJobId(uuid, ""));
        }
        known = new Set(uuids);
        await watch.fired(signal);
      } finally {
        watch.cancel();
      }
    }
  }

  /** Removes a page of jobs of a deleted database. */
  async removePage(
    tx: Transaction,
    { subject: uuid, keyCount }: { readonly subject: string; readonly keyCount: number },
  ): Promise<RemovedPage> {
    const jobs = await this.#page(tx, uuid);
    for (const job of jobs) await removeJob(this.#parts, tx, job);
    const isLast = jobs.length === 0;
    if (isLast) {
      tx.clear(this.#keys.removedDatabase.key({ uuid }));
      const { trace } = this.#parts.runtime;
      const fields = { uuid, removedCount: keyCount };
      tx.afterCommit(() => trace.event("replication.database-removed", fields));
    }
    return { keyCount: jobs.length, byteCount: 0, isLast };
  }

  #queue(tx: Transaction, uuid: string): void {
    const nowMs = this.#parts.runtime.clock.nowMs();
    const origin = { kind: "replication-jobs", subject: uuid, nowMs } as const;
    removeInBackground(tx, this.#markRange(uuid), origin);
  }

  #markRange(uuid: string) {
    const begin = this.#keys.removedDatabase.key({ uuid });
    return { begin, end: keyAfter(begin) };
  }

  async #page(tx: ReadTransaction, uuid: string): Promise<readonly Job[]> {
    const prefix = persistentJobId(uuid, "");
    const page = await this.#parts.jobs.list(tx, REPLICATION_JOB_TYPE, {
      afterId: prefix,
      limit: PAGE_ROWS_MAX,
    });
    return page.entries.filter(({ id }) => id.startsWith(prefix));
  }
}

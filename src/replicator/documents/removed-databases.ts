/**
 * Removes the jobs of `_replicator` databases and of rules that were deleted. They may be too many for one transaction, so the
 * deletion leaves a mark in its own transaction, and the nodes remove the jobs page by page. Any node does it, and the
 * mark stays until the last job is removed.
 */
import { type Runtime, utf8Encode } from "../../base/index.ts";
import type { Job } from "../../jobs/index.ts";
import type { KeyValueStore, ReadTransaction, Subspace, Transaction } from "../../kv/index.ts";
import { persistentJobId, REPLICATION_JOB_TYPE } from "../jobs/job-data.ts";
import { type RemoveJobParts, removeJob } from "../jobs/remove-job.ts";
import { ReplicatorKeys } from "../replicator-keys.ts";

/** Jobs removed in one transaction. */
const PAGE_ROWS_MAX = 50;
/** Databases looked at in one. */
const MARKS_MAX = 100;

export interface RemovedDatabasesParts extends RemoveJobParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly subspace: Subspace;
}

export class RemovedDatabases {
  readonly name = "replicator.removed-databases";
  readonly #parts: RemovedDatabasesParts;
  readonly #keys: ReplicatorKeys;

  constructor(parts: RemovedDatabasesParts) {
    this.#parts = parts;
    this.#keys = new ReplicatorKeys(parts.subspace);
  }

  /** In the transaction that deletes the database, or the rule, whose uuid the ids of its jobs begin with. */
  mark(tx: Transaction, databaseUuid: string): void {
    tx.set(this.#keys.removedDatabase(databaseUuid), utf8Encode("1"));
    tx.add(this.#keys.databasesRemoved(), 1n);
  }

  /** Removes the jobs of marked databases until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { kv } = this.#parts;
    while (!signal.aborted) {
      const { uuids, watch } = await kv.transact(async (tx) => {
        const page = await tx.snapshot.getRangePage(this.#keys.removedDatabases(), {
          limit: MARKS_MAX,
        });
        return {
          uuids: page.entries.map(({ key }) => this.#keys.removedDatabaseUuid(key)),
          watch: tx.watch(this.#keys.databasesRemoved()),
        };
      });
      try {
        for (const uuid of uuids) await this.#removeJobs(uuid, signal);
        if (uuids.length === 0) await watch.fired(signal);
      } finally {
        watch.cancel();
      }
    }
  }

  async #removeJobs(uuid: string, signal: AbortSignal): Promise<void> {
    const { kv, runtime } = this.#parts;
    let removedCount = 0;
    for (let isDone = false; !isDone; ) {
      signal.throwIfAborted();
      const found = await kv.transact(
        async (tx) => {
          const jobs = await this.#page(tx, uuid);
          for (const job of jobs) await removeJob(this.#parts, tx, job);
          if (jobs.length === 0) tx.clear(this.#keys.removedDatabase(uuid));
          return jobs.length;
        },
        { whenUnknown: "retry" },
      );
      removedCount += found;
      isDone = found === 0;
    }
    runtime.trace.event("replication.database-removed", { uuid, removedCount });
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

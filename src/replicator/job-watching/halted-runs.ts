/**
 * Runs whose jobs were removed. A run can continue briefly after its job has been removed. The
 * removing transaction therefore adds a row, which the worker deletes when the run has ended. Until
 * then, no other run of the replication starts, and the response to the removal is delayed.
 *
 * Rows of former workers are ignored: a worker ends its runs before it can be expelled.
 */
import { EMPTY_BYTES, errorCode, type Runtime, waitAtMost } from "../../base/index.ts";
import type { Jobs, WorkerId } from "../../jobs/index.ts";
import {
  type KeyValueStore,
  packTuple,
  type ReadTransaction,
  type Subspace,
  type Transaction,
  unpackTuple,
  type Watch,
} from "../../kv/index.ts";
import { databaseUuidOf, REPLICATION_JOB_TYPE } from "../jobs/job-data.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import { type HaltedRun, type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";

const FORMAT = 1;
/** Number of rows read per transaction. Rows are short, and a node has a few hundred runs. */
const ROWS_MAX = 5000;
/** Pause before retrying to delete a row after the store failed. */
const REFUSED_PAUSE_MS = 1000;

/** Runs halted by this process during a call. */
interface Halts {
  /** Locks of the runs. */
  readonly locks: Set<string>;
  /** Databases and rules that were removed with all their jobs. */
  readonly uuids: Set<string>;
}

export interface HaltedRunsParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly subspace: Subspace;
  /** Contains the time limit for runs to end. Read at each use, so that changed settings apply. */
  readonly config: Pick<ReplicatorConfig, "activityTimeoutSec">;
}

/**
 * Ends a run of this process without further writes. Settles when the run has ended, or immediately
 * if there is no such run.
 */
export type HaltRun = (run: Pick<HaltedRun, "jobId" | "lock">) => Promise<void>;

export class HaltedRuns {
  readonly #parts: HaltedRunsParts;
  readonly #keys: ReplicatorKeys;
  /** Those of the calls in progress. */
  readonly #halts = new Set<Halts>();

  constructor(parts: HaltedRunsParts) {
    this.#parts = parts;
    this.#keys = replicatorKeys(parts.subspace);
  }

  /** Records a run to be halted. Must be called in the transaction that removes the job. */
  note(tx: Transaction, run: HaltedRun, replicationIds: readonly string[]): void {
    tx.set(this.#keys.haltedRun.key(run), packTuple([FORMAT, ...replicationIds]));
    for (const replicationId of replicationIds) {
      tx.set(this.#keys.haltedReplication.key({ replicationId, ...run }), EMPTY_BYTES);
    }
    this.#announce(tx, ({ locks }) => locks.add(run.lock));
  }

  /**
   * Notifies workers that the database or rule with this uuid is marked for removal. Must be called
   * in the transaction that marks it.
   */
  noteDatabase(tx: Transaction, uuid: string): void {
    this.#announce(tx, ({ uuids }) => uuids.add(uuid));
  }

  #announce(tx: Transaction, add: (halts: Halts) => void): void {
    tx.add(this.#keys.haltsChanged.key({}), 1n);
    tx.afterCommit(() => {
      for (const halts of this.#halts) add(halts);
    });
  }

  /**
   * Whether a run of one of these replications might still be copying although its job was removed.
   */
  async isUnderWay(tx: ReadTransaction, replicationIds: readonly string[]): Promise<boolean> {
    for (const id of replicationIds) {
      const rows = await this.#rows(tx, id);
      if ((await this.#alive(tx, rows)).length > 0) return true;
    }
    return false;
  }

  /** Settles when no run of a removed job copies for any of these replications. */
  untilEnded(replicationIds: readonly string[], signal: AbortSignal): Promise<void> {
    return this.#until(async (tx) => !(await this.isUnderWay(tx, replicationIds)), signal);
  }

  /**
   * Calls `call`, and returns its result when the runs of all jobs have ended that this process
   * removed during the call, or after the activity timeout.
   */
  async settledAfter<T>(call: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const halts: Halts = { locks: new Set(), uuids: new Set() };
    this.#halts.add(halts);
    const result = await call().finally(() => this.#halts.delete(halts));
    if (halts.locks.size + halts.uuids.size > 0) await this.#settled(halts, signal);
    return result;
  }

  async #settled({ locks, uuids }: Halts, signal: AbortSignal): Promise<void> {
    const { runtime, config } = this.#parts;
    const isOver = async (tx: ReadTransaction): Promise<boolean> => {
      const doomed = await this.#doomed(tx);
      return !doomed.some(
        ({ jobId, lock }) => locks.has(lock) || uuids.has(databaseUuidOf(jobId) ?? ""),
      );
    };
    await waitAtMost(runtime.clock, config.activityTimeoutSec * 1000, signal, (over) =>
      this.#until(isOver, over),
    );
  }

  /** Returns the runs that must end because their job, database or rule was removed. */
  async #doomed(tx: ReadTransaction): Promise<readonly HaltedRun[]> {
    const halted = await this.#alive(tx, await this.#rows(tx));
    const marks = await tx.snapshot.getRangePage(this.#keys.removedDatabase.range());
    if (marks.entries.length === 0) return halted;
    const uuids = new Set(
      marks.entries.map(({ key }) => this.#keys.removedDatabase.unpack(key).uuid),
    );
    const { jobs } = this.#parts;
    const ids = await jobs.runningIds(tx.snapshot, REPLICATION_JOB_TYPE);
    const removed = ids.filter((id) => uuids.has(databaseUuidOf(id) ?? ""));
    const runs = await Promise.all(
      removed.map((id) => jobs.runOf(tx.snapshot, { type: REPLICATION_JOB_TYPE, id })),
    );
    return [...halted, ...runs.flatMap((run, index) => haltedRun(removed[index], run))];
  }

  async #until(
    isOver: (tx: ReadTransaction) => Promise<boolean>,
    signal: AbortSignal,
  ): Promise<void> {
    const { kv, jobs } = this.#parts;
    for (;;) {
      const { isDone, watches } = await kv.transact(async (tx) => ({
        isDone: await isOver(tx),
        watches: [tx.watch(this.#keys.haltsChanged.key({})), jobs.workers.watch(tx)],
      }));
      try {
        if (isDone) return;
        await anyFired(watches, signal);
      } finally {
        for (const watch of watches) watch.cancel();
      }
    }
  }

  /** Until aborted, ends each run of this worker whose job is removed. */
  async serve(worker: WorkerId, halt: HaltRun, signal: AbortSignal): Promise<void> {
    const { kv } = this.#parts;
    const ending = new Map<string, Promise<void>>();
    try {
      while (!signal.aborted) {
        const { own, changed } = await kv.transact(async (tx) => ({
          own: (await this.#rows(tx)).filter((run) => run.worker === worker),
          changed: tx.watch(this.#keys.haltsChanged.key({})),
        }));
        try {
          for (const run of own) {
            if (ending.has(run.lock)) continue;
            const ended = halt(run)
              .then(() => this.#clear([run], signal))
              .finally(() => ending.delete(run.lock));
            ending.set(run.lock, ended);
          }
          // Read the rows even if the watch failed, because the watch might have missed changes.
          await changed.fired(signal).catch(() => {});
        } finally {
          changed.cancel();
        }
      }
    } finally {
      await Promise.all(ending.values());
    }
  }

  /**
   * Returns the rows of current workers. Rows of former workers are ignored here, and deleted by
   * transactions that write.
   */
  async #alive(tx: ReadTransaction, rows: readonly HaltedRun[]): Promise<readonly HaltedRun[]> {
    const { workers } = this.#parts.jobs;
    const members = new Map<WorkerId, boolean>();
    for (const { worker } of rows) {
      if (!members.has(worker)) members.set(worker, await workers.isMember(tx, worker));
    }
    return rows.filter(({ worker }) => members.get(worker));
  }

  async #clear(runs: readonly HaltedRun[], signal: AbortSignal): Promise<void> {
    const { kv, runtime } = this.#parts;
    while (!signal.aborted) {
      try {
        await kv.transact((tx) => this.clear(tx, runs), { whenUnknown: "retry" });
        return;
      } catch (error) {
        if (errorCode(error) !== "KV_UNAVAILABLE") throw error;
      }
      await runtime.clock.sleep(REFUSED_PAUSE_MS, signal).catch(() => {});
    }
  }

  /** Removes the rows of ended runs. */
  async clear(tx: Transaction, runs: readonly HaltedRun[]): Promise<void> {
    for (const run of runs) {
      const value = await tx.get(this.#keys.haltedRun.key(run));
      if (value === undefined) continue;
      const [, ...replicationIds] = unpackTuple(value);
      tx.clear(this.#keys.haltedRun.key(run));
      for (const id of replicationIds) {
        // Older versions stored null for a run without a replication id.
        if (id === null) continue;
        tx.clear(this.#keys.haltedReplication.key({ replicationId: String(id), ...run }));
      }
      tx.add(this.#keys.haltsChanged.key({}), 1n);
    }
  }

  /** Removes rows that former workers left, at most a page of them. */
  async forgetLost(tx: Transaction): Promise<void> {
    const rows = await this.#rows(tx);
    const alive = new Set(await this.#alive(tx, rows));
    await this.clear(
      tx,
      rows.filter((run) => !alive.has(run)),
    );
  }

  /** Returns the halted runs of a replication, or all halted runs. */
  async #rows(tx: ReadTransaction, replicationId?: string): Promise<readonly HaltedRun[]> {
    const { haltedRun: all, haltedReplication } = this.#keys;
    const isAll = replicationId === undefined;
    const range = isAll ? all.range() : haltedReplication.range({ replicationId });
    const { entries } = await tx.getRangePage(range, { limit: ROWS_MAX });
    return entries.map(({ key }) => {
      const { worker, jobId, lock } = isAll ? all.unpack(key) : haltedReplication.unpack(key);
      return { worker, jobId, lock };
    });
  }
}

function haltedRun(
  jobId: string | undefined,
  run: { readonly worker: WorkerId; readonly lock: string } | undefined,
): readonly HaltedRun[] {
  return run === undefined || jobId === undefined ? [] : [{ ...run, jobId }];
}

async function anyFired(watches: readonly Watch[], signal: AbortSignal): Promise<void> {
  const over = new AbortController();
  const end = (): void => over.abort(OVER);
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  const fired = watches.map((watch) => watch.fired(over.signal));
  try {
    await Promise.race(fired).catch(() => signal.throwIfAborted());
  } finally {
    signal.removeEventListener("abort", end);
    end();
    await Promise.allSettled(fired);
  }
}

/** Abort reason, created once because creating an error is expensive. */
const OVER = new Error("Wait cancelled: its result is no longer needed");

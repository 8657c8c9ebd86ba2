/**
 * Forgets replications that no job has any more: their lists of failures, and our copies of their checkpoints. Both are
 * kept for some weeks, so that a job that is made again goes on where the last one ended, and finds the revisions that
 * did not arrive. Then they are removed, which bounds the store. A run that finds a checkpoint without its list looks
 * back (`ReplicationRun`).
 *
 * A transaction that gives up a replication id leaves a mark. The age of a mark counts from the first look at it.
 */
import type { Runtime } from "../../base/index.ts";
import {
  type KeyValueStore,
  keyAfter,
  packTuple,
  type Subspace,
  type Transaction,
  unpackTuple,
} from "../../kv/index.ts";
import { ReplicatorKeys } from "../replicator-keys.ts";

/** Marks looked at in one transaction. */
const PAGE_ROWS_MAX = 50;

/** Failures removed in one transaction. */
const FAILURES_PAGE_ROWS = 500;

/** The lists of failures, as far as they are removed here. */
export interface RemovableFailures {
  /** Removes the first failures of a list; returns whether the list is empty. */
  removePage(tx: Transaction, baseId: string, limit: number): Promise<boolean>;
}

export class AbandonedReplications {
  readonly #runtime: Pick<Runtime, "clock">;
  readonly #kv: KeyValueStore;
  readonly #keys: ReplicatorKeys;
  readonly #failures: RemovableFailures;

  constructor(
    runtime: Pick<Runtime, "clock">,
    kv: KeyValueStore,
    subspace: Subspace,
    failures: RemovableFailures,
  ) {
    this.#runtime = runtime;
    this.#kv = kv;
    this.#keys = new ReplicatorKeys(subspace);
    this.#failures = failures;
  }

  /** Looks at every mark once; forgets what was abandoned for so long. */
  async prune(ageSecMax: number): Promise<void> {
    let { begin } = this.#keys.abandoned();
    const { end } = this.#keys.abandoned();
    for (let isDone = false; !isDone; ) {
      const { next } = await this.#kv.transact(
        async (tx) => {
          const marks = await tx.getRangePage({ begin, end }, { limit: PAGE_ROWS_MAX });
          for (const { key, value } of marks.entries) {
            const left = await this.#look(tx, this.#keys.abandonedBaseId(key), value, ageSecMax);
            if (left === "more") return { next: key };
          }
          const last = marks.entries.at(-1);
          const isLast = last === undefined || marks.stoppedBy === "exhausted";
          return { next: isLast ? undefined : keyAfter(last.key) };
        },
        { whenUnknown: "retry" },
      );
      isDone = next === undefined;
      begin = next ?? begin;
    }
  }

  /** Returns "more" if a part of the list is left for another transaction. */
  async #look(
    tx: Transaction,
    baseId: string,
    mark: Uint8Array,
    ageSecMax: number,
  ): Promise<"done" | "more"> {
    const keys = this.#keys;
    const owners = await tx.getRangePage(keys.replicationIdsOf(baseId), { limit: 1 });
    if (owners.entries.length > 0 || !(await this.#hasAnything(tx, baseId))) {
      tx.clear(keys.abandonedMark(baseId));
      return "done";
    }
    const nowMs = this.#runtime.clock.nowMs();
    const sinceMs = decodeMark(mark);
    if (sinceMs === undefined) {
      tx.set(keys.abandonedMark(baseId), encodeMark(nowMs));
      return "done";
    }
    if (nowMs - sinceMs < ageSecMax * 1000) return "done";
    tx.clear(keys.failureRetry(baseId));
    tx.clear(keys.failuresKept(baseId));
    tx.clear(keys.ownCheckpoint(baseId));
    const isEmpty = await this.#failures.removePage(tx, baseId, FAILURES_PAGE_ROWS);
    if (!isEmpty) return "more";
    tx.clear(keys.abandonedMark(baseId));
    return "done";
  }

  async #hasAnything(tx: Transaction, baseId: string): Promise<boolean> {
    for (const key of [this.#keys.failuresKept(baseId), this.#keys.ownCheckpoint(baseId)]) {
      if ((await tx.get(key)) !== undefined) return true;
    }
    const listed = await tx.getRangePage(this.#keys.failures(baseId), { limit: 1 });
    return listed.entries.length > 0;
  }
}

/** The stored form of a mark; the first element is the format's version. */
export function encodeMark(sinceMs?: number): Uint8Array {
  return packTuple(sinceMs === undefined ? [1] : [1, sinceMs]);
}

function decodeMark(value: Uint8Array): number | undefined {
  const [, sinceMs] = unpackTuple(value);
  return sinceMs === undefined ? undefined : Number(sinceMs);
}

/**
 * Deletes the data of replications that no longer have jobs. The data are lists of failures and
 * copies of checkpoints. They are kept for some weeks, so that a re-created job resumes from its
 * checkpoint and still lists the failed revisions. A run that finds a checkpoint but no list of
 * failures rescans the changes before the checkpoint (`ReplicationRun`).
 *
 * The transaction that abandons a replication id writes a marker. The retention time starts when a
 * cleanup first finds the marker.
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
import { idsOfBase, type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";

/** Number of markers checked per transaction. */
const PAGE_ROWS_MAX = 50;

/** Number of failures removed per transaction. */
const FAILURES_PAGE_ROWS = 500;

export interface RemovableFailures {
  /** Removes the first failures of a list. Returns whether the list is empty. */
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
    this.#keys = replicatorKeys(subspace);
    this.#failures = failures;
  }

  /**
   * Checks every marker once. Deletes the data of replications that were abandoned at least
   * `ageSecMax` seconds ago.
   */
  async prune(ageSecMax: number): Promise<void> {
    let { begin } = this.#keys.abandoned.range();
    const { end } = this.#keys.abandoned.range();
    for (let isDone = false; !isDone; ) {
      const { next } = await this.#kv.transact(
        async (tx) => {
          const marks = await tx.getRangePage({ begin, end }, { limit: PAGE_ROWS_MAX });
          for (const { key, value } of marks.entries) {
            const left = await this.#look(
              tx,
              this.#keys.abandoned.unpack(key).baseId,
              value,
              ageSecMax,
            );
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

  /**
   * Checks one marker. Returns "more" if deleting the list of failures needs another transaction.
   */
  async #look(
    tx: Transaction,
    baseId: string,
    mark: Uint8Array,
    ageSecMax: number,
  ): Promise<"done" | "more"> {
    const keys = this.#keys;
    const owners = await tx.getRangePage(idsOfBase(keys.replicationId, baseId), { limit: 1 });
    if (owners.entries.length > 0 || !(await this.#hasAnything(tx, baseId))) {
      tx.clear(keys.abandoned.key({ baseId }));
      return "done";
    }
    const nowMs = this.#runtime.clock.nowMs();
    const sinceMs = decodeMark(mark);
    if (sinceMs === undefined) {
      tx.set(keys.abandoned.key({ baseId }), encodeMark(nowMs));
      return "done";
    }
    if (nowMs - sinceMs < ageSecMax * 1000) return "done";
    tx.clear(keys.failureRetry.key({ baseId }));
    tx.clear(keys.failuresKept.key({ baseId }));
    tx.clear(keys.ownCheckpoint.key({ baseId }));
    const isEmpty = await this.#failures.removePage(tx, baseId, FAILURES_PAGE_ROWS);
    if (!isEmpty) return "more";
    tx.clear(keys.abandoned.key({ baseId }));
    return "done";
  }

  async #hasAnything(tx: Transaction, baseId: string): Promise<boolean> {
    for (const key of [
      this.#keys.failuresKept.key({ baseId }),
      this.#keys.ownCheckpoint.key({ baseId }),
    ]) {
      if ((await tx.get(key)) !== undefined) return true;
    }
    const listed = await tx.getRangePage(this.#keys.failure.range({ baseId }), { limit: 1 });
    return listed.entries.length > 0;
  }
}

/** Encodes a marker. The first element is the format version. */
export function encodeMark(sinceMs?: number): Uint8Array {
  return packTuple(sinceMs === undefined ? [1] : [1, sinceMs]);
}

function decodeMark(value: Uint8Array): number | undefined {
  const [, sinceMs] = unpackTuple(value);
  return sinceMs === undefined ? undefined : Number(sinceMs);
}

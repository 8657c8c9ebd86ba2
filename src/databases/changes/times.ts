/** Update sequences of a database at earlier times (`_changes?since=TIME`, `_time_seq`). */
import type { ReadTransaction, Transaction, Versionstamp } from "../../kv/index.ts";
import type { ChangeCounts } from "../counters/change-counts.ts";
import { decodeVersionstamp, encodeNewVersionstamp } from "../records/counter-record.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";
import type { AssertExists } from "../transaction-state.ts";
import type { ChangesFeed } from "./changes-feed.ts";
import type { StoreTimes } from "./store-times.ts";

/** A period and its number of changes. It lasts until the next period begins, or until now. */
export interface ChangePeriod {
  /** Start of the period; 0 for changes before the first known time. */
  readonly beganMs: number;
  readonly changeCount: number;
}

export interface TimesParts {
  readonly keys: DatabaseKeys;
  readonly storeTimes: StoreTimes;
  readonly counts: ChangeCounts;
  readonly changes: ChangesFeed;
  readonly assertExists: AssertExists;
}

export class Times {
  readonly #parts: TimesParts;

  constructor(parts: TimesParts) {
    this.#parts = parts;
  }

  /**
   * Returns the latest known sequence that precedes all changes since `timeMs`. For a time in the
   * future, this is the last sequence; for a time before all known times, the first.
   */
  async sequenceSince(tx: ReadTransaction, timeMs: number): Promise<string> {
    const { storeTimes, changes } = this.#parts;
    return storeTimes.isFuture(timeMs) ? changes.lastSequence(tx) : this.sequenceBefore(tx, timeMs);
  }

  /** Returns a sequence up to which all changes are older than the time. */
  async sequenceBefore(tx: ReadTransaction, timeMs: number): Promise<string> {
    return this.#parts.storeTimes.sequenceBefore(tx, timeMs, await this.#resetAt(tx));
  }

  /**
   * Returns the periods with changes, oldest first. A document is counted in the period of its
   * latest change.
   */
  async periods(tx: ReadTransaction): Promise<readonly ChangePeriod[]> {
    const { counts, storeTimes } = this.#parts;
    const entries = await storeTimes.entries(tx, await this.#resetAt(tx));
    if (entries.length === 0) return [];
    const [all, after] = await Promise.all([
      counts.countAfter(tx, undefined),
      counts.countsAfter(
        tx,
        entries.map(({ versionstamp }) => versionstamp),
      ),
    ]);
    let beganMs = 0;
    const periods = [all, ...after].map((count, index) => {
      // Keeps the start times ascending if a clock was set back.
      beganMs = Math.max(beganMs, entries[index - 1]?.timeMs ?? 0);
      return { beganMs, changeCount: count - (after[index] ?? 0) };
    });
    return periods.filter(({ changeCount }) => changeCount > 0);
  }

  /** Discards all times of this database that have been recorded so far. */
  async reset(tx: Transaction): Promise<void> {
    const { keys, assertExists } = this.#parts;
    await assertExists(tx);
    tx.setVersionstampedValue(keys.timeReset.key({}), encodeNewVersionstamp(tx.nextUserVersion()));
  }

  async #resetAt(tx: ReadTransaction): Promise<Versionstamp | undefined> {
    const stored = await tx.snapshot.get(this.#parts.keys.timeReset.key({}));
    return stored && decodeVersionstamp(stored);
  }
}

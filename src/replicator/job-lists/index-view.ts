/**
 * Rows and counters of the job index in one snapshot, including changes not yet folded into them.
 */
import { byteText, compareBytes } from "../../base/index.ts";
import {
  decodeCounter,
  type Key,
  type KeyBounds,
  keyAfter,
  type ReadTransaction,
} from "../../kv/index.ts";
import type { ReplicatorKeys, StatusValue } from "../replicator-keys.ts";
import type { RowChanges } from "./row-changes.ts";

export interface IndexRow {
  readonly key: Key;
  readonly value: StatusValue;
  readonly jobId: string;
}

export interface RowOptions {
  /** Maximum number of rows; no limit if absent. */
  readonly limit?: number;
  /** Whether to return rows in descending order. */
  readonly reverse?: boolean;
}

export class IndexView {
  readonly tx: ReadTransaction;
  readonly #keys: ReplicatorKeys;
  readonly #changes: RowChanges;

  constructor(tx: ReadTransaction, keys: ReplicatorKeys, changes: RowChanges) {
    this.tx = tx.snapshot;
    this.#keys = keys;
    this.#changes = changes;
  }

  /** Returns the rows of a range, in order. */
  async rows(
    range: KeyBounds,
    { limit = Number.POSITIVE_INFINITY, reverse = false }: RowOptions = {},
  ): Promise<readonly IndexRow[]> {
    const { gone, come } = this.#changes;
    const goneCount = gone.within(range).length;
    const added = come.within(range);
    const keys = reverse ? added.slice(-limit) : added.slice(0, limit);
    const readMax = limit + goneCount;
    const options = Number.isFinite(readMax) ? { limit: readMax, reverse } : { reverse };
    for await (const { key } of this.tx.getRange(range, options)) {
      if (goneCount === 0 || !gone.has(key)) keys.push(key);
    }
    const sign = reverse ? -1 : 1;
    return keys
      .toSorted((left, right) => sign * compareBytes(left, right))
      .slice(0, limit)
      .map((key) => {
        const { value, jobId } = this.#keys.statusRow.unpack(key);
        return { key, value, jobId };
      });
  }

  /**
   * Returns the nonzero counters of a range, by list value. For each value, adds up the counters of
   * all databases. With a limit, reads only the first counters of the range.
   */
  async counts(
    range: KeyBounds,
    limit = Number.POSITIVE_INFINITY,
  ): Promise<ReadonlyMap<StatusValue, number>> {
    const counts = new Map<StatusValue, number>();
    const add = (key: Key, count: number): void => {
      const name = this.#keys.statusCount.unpack(key).value;
      counts.set(name, (counts.get(name) ?? 0) + count);
    };
    let { end } = range;
    let readCount = 0;
    const options = Number.isFinite(limit) ? { limit } : {};
    for await (const { key, value } of this.tx.getRange(range, options)) {
      add(key, decodeCounter(value));
      if (++readCount === limit) end = keyAfter(key);
    }
    for (const { key, delta } of this.#changes.counters.values()) {
      if (isWithin({ begin: range.begin, end }, key)) add(key, delta);
    }
    return new Map([...counts].filter(([, count]) => count > 0));
  }

  async count(key: Key): Promise<number> {
    const { delta = 0 } = this.#changes.counters.get(byteText(key)) ?? {};
    return decodeCounter(await this.tx.get(key)) + delta;
  }
}

function isWithin({ begin, end }: KeyBounds, key: Key): boolean {
  return compareBytes(key, begin) >= 0 && compareBytes(key, end) < 0;
}

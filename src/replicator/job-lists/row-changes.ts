/** Net changes of index rows and counters, combined from several status changes. */
import { byteText, compareBytes, EMPTY_BYTES } from "../../base/index.ts";
import type { Key, KeyBounds, Transaction } from "../../kv/index.ts";
import type { StatusChange } from "../job-log/job-event-log.ts";
import {
  askedRows,
  counterOf,
  counterOfDatabase,
  type JobStatus,
  progressRows,
  type StatusCounter,
  type StatusRow,
  tagCountersOf,
} from "../jobs/job-status.ts";
import type { ReplicatorKeys } from "../replicator-keys.ts";

/** A key and its text form (`byteText`), which has the same order. */
interface NamedKey {
  readonly key: Key;
  readonly text: string;
}

/** Keys of the index rows and counters for a job with this status. */
interface StatusKeys {
  readonly rows: readonly NamedKey[];
  /** Keys of the counters that include the job. */
  readonly counters: readonly NamedKey[];
}

const NO_KEYS: StatusKeys = { rows: [], counters: [] };

export interface CounterChange {
  readonly key: Key;
  readonly delta: number;
}

export class RowSet {
  readonly #byText = new Map<string, Key>();
  #sorted: readonly Key[] | undefined;

  add({ key, text }: NamedKey): void {
    this.#byText.set(text, key);
    this.#sorted = undefined;
  }

  get sorted(): readonly Key[] {
    // Sort by text, because strings compare several times as fast as byte arrays.
    this.#sorted ??= [...this.#byText.keys()]
      .toSorted()
      .map((text) => this.#byText.get(text) as Key);
    return this.#sorted;
  }

  has(key: Key): boolean {
    return this.#byText.has(byteText(key));
  }

  /** Returns the keys within the bounds, in key order. */
  within({ begin, end }: KeyBounds): readonly Key[] {
    return this.sorted.slice(this.#countBelow(begin), this.#countBelow(end));
  }

  #countBelow(key: Key): number {
    let low = 0;
    let high = this.sorted.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compareBytes(this.sorted[middle] as Key, key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

export class RowChanges {
  readonly gone = new RowSet();
  readonly come = new RowSet();
  /** Changes of counters, by the text form of the counter's key. */
  readonly counters = new Map<string, CounterChange>();

  /**
   * Combines the changes of each row into one. `changes` must be in the order in which they
   * happened.
   */
  static of(changes: Iterable<StatusChange>, statusKeys: StatusKeyCache): RowChanges {
    const nets = new Map<string, StatusChange>();
    for (const change of changes) {
      const { before } = nets.get(change.jobId) ?? change;
      nets.set(change.jobId, { ...change, before });
    }
    const sum = new RowChanges();
    for (const { jobId, before, after } of nets.values()) {
      sum.#add(statusKeys.of(jobId, before), statusKeys.of(jobId, after));
    }
    return sum;
  }

  #add(before: StatusKeys, after: StatusKeys): void {
    for (const row of before.rows) if (!isAmong(after.rows, row)) this.gone.add(row);
    for (const row of after.rows) if (!isAmong(before.rows, row)) this.come.add(row);
    for (const counter of before.counters) this.#count(counter, -1);
    for (const counter of after.counters) this.#count(counter, 1);
  }

  #count({ key, text }: NamedKey, by: number): void {
    const delta = (this.counters.get(text)?.delta ?? 0) + by;
    if (delta === 0) this.counters.delete(text);
    else this.counters.set(text, { key, delta });
  }

  write(tx: Transaction): void {
    for (const key of this.gone.sorted) tx.clear(key);
    for (const key of this.come.sorted) tx.set(key, EMPTY_BYTES);
    for (const { key, delta } of this.counters.values()) tx.add(key, BigInt(delta));
  }
}

export class StatusKeyCache {
  readonly #keys: ReplicatorKeys;
  readonly #known = new WeakMap<JobStatus, StatusKeys>();

  constructor(keys: ReplicatorKeys) {
    this.#keys = keys;
  }

  of(jobId: string, status: JobStatus | undefined): StatusKeys {
    if (status === undefined) return NO_KEYS;
    const known = this.#known.get(status);
    if (known !== undefined) return known;
    const rows: StatusRow[] = [...askedRows(status), ...progressRows(jobId, status)];
    const counters = [
      counterOfDatabase(jobId),
      ...tagCountersOf(status),
      ...rows.map((row) => counterOf(row, jobId)),
    ];
    const made = {
      rows: rows.map(([list, value]) => named(this.#keys.statusRow.key({ list, value, jobId }))),
      counters: counters.flatMap((counter) => this.#counter(counter)),
    };
    this.#known.set(status, made);
    return made;
  }

  #counter(counter: StatusCounter | undefined): NamedKey[] {
    if (counter === undefined) return [];
    const [list, value, uuid] = counter;
    return [named(this.#keys.statusCount.key({ list, value, uuid }))];
  }
}

function named(key: Key): NamedKey {
  return { key, text: byteText(key) };
}

/** Searches linearly, since a job has few rows. */
function isAmong(rows: readonly NamedKey[], { text }: NamedKey): boolean {
  return rows.some((row) => row.text === text);
}

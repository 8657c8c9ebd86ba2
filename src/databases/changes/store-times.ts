/**
 * Relates wall-clock time to versions of the store. All databases share one table, because their
 * changes share one order. A service of each node calls `record` at intervals.
 */
import type { Clock } from "../../base/index.ts";
import {
  type ReadTransaction,
  type Transaction,
  VERSIONSTAMP_BYTES,
  Versionstamp,
} from "../../kv/index.ts";
import { decodeVersionstamp } from "../records/counter-record.ts";
import type { RegistryKeys } from "../records/database-keys.ts";
import { decodeTimeTable, encodeTimeTable, type TimeEntry } from "../records/time-record.ts";
import { FIRST_SEQUENCE, formatSequence } from "./sequence.ts";
import { ENTRY_INTERVAL_MS, entryBefore, withEntry } from "./time-table.ts";

/** Tolerated difference between the clocks of nodes and clients. */
const CLOCK_DIFFERENCE_MS_MAX = 60_000;

export class StoreTimes {
  readonly #clock: Clock;
  readonly #keys: RegistryKeys;
  readonly #minMs: () => number;

  constructor(clock: Clock, keys: RegistryKeys, minMs: () => number) {
    this.#clock = clock;
    this.#keys = keys;
    this.#minMs = minMs;
  }

  /** Adds an entry if the last entry is old enough and a database has changed since then. */
  async record(tx: Transaction): Promise<void> {
    const [stored, updated] = await Promise.all([
      tx.get(this.#keys.times.key({})),
      tx.snapshot.get(this.#keys.updated.key({})),
    ]);
    if (updated === undefined) return;
    const entries = stored === undefined ? [] : decodeTimeTable(stored);
    const last = entries.at(-1);
    if (last !== undefined && decodeVersionstamp(updated).compare(last.versionstamp) <= 0) return;
    const versionstamp = lastStampOf(await tx.readVersion());
    // The clock is read after the version, so all changes up to the version were committed before
    // `timeMs`.
    const timeMs = Math.floor(this.#clock.nowMs());
    if (timeMs < this.#minMs()) return;
    // The difference is negative if a clock was set back.
    if (last !== undefined && Math.abs(timeMs - last.timeMs) < ENTRY_INTERVAL_MS) return;
    tx.set(this.#keys.times.key({}), encodeTimeTable(withEntry(entries, { timeMs, versionstamp })));
  }

  /** Returns the entries after the versionstamp `after`, or all entries if it is absent. */
  async entries(tx: ReadTransaction, after?: Versionstamp): Promise<readonly TimeEntry[]> {
    const stored = await tx.snapshot.get(this.#keys.times.key({}));
    const entries = stored === undefined ? [] : decodeTimeTable(stored);
    if (after === undefined) return entries;
    return entries.filter(({ versionstamp }) => versionstamp.compare(after) > 0);
  }

  /**
   * Returns the latest known sequence up to which all changes are older than `timeMs`, or the first
   * sequence if no entry is older. Considers only entries after the versionstamp `after`.
   */
  async sequenceBefore(tx: ReadTransaction, timeMs: number, after?: Versionstamp): Promise<string> {
    const entries = await this.entries(tx, after);
    const entry = entryBefore(entries, timeMs - CLOCK_DIFFERENCE_MS_MAX);
    return entry === undefined ? FIRST_SEQUENCE : formatSequence(entry.versionstamp);
  }

  /** Whether the time is in the future, even if clocks differ by the tolerated amount. */
  isFuture(timeMs: number): boolean {
    return timeMs > this.#clock.nowMs() + CLOCK_DIFFERENCE_MS_MAX;
  }
}

/** Returns the highest versionstamp of the commits up to this version. */
function lastStampOf(version: bigint): Versionstamp {
  const bytes = new Uint8Array(VERSIONSTAMP_BYTES).fill(0xff);
  new DataView(bytes.buffer).setBigUint64(0, version);
  return Versionstamp.fromBytes(bytes);
}

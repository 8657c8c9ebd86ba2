/**
 * Counts of runs per minute for the last hour, on all nodes. Each process writes its own row per
 * minute along with its report, so that the counts remain after the process has ended.
 */
import { assert } from "../../base/index.ts";
import {
  packTuple,
  type ReadTransaction,
  type Subspace,
  type Transaction,
  unpackTuple,
} from "../../kv/index.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import type { NodeId } from "./node-report.ts";

export const MINUTE_MS = 60_000;
/** Number of minutes counted, including the current one. */
export const RATE_MINUTES = 60;
/** Format version, stored as the first element. */
const FORMAT = 1;

export interface RunCounts {
  readonly startCount: number;
  /** Number of runs that crashed, stalled or failed permanently. */
  readonly failureCount: number;
  /** Number of documents written to targets. */
  readonly documentCount: number;
}

export const NO_RUNS: RunCounts = { startCount: 0, failureCount: 0, documentCount: 0 };

export interface MinuteCounts {
  /** Start of the minute, in milliseconds since the epoch. */
  readonly startMs: number;
  /** Counts of all processes in this minute; undefined if no process has reported any. */
  readonly counts: RunCounts | undefined;
}

/** Counts of one process for each minute, computed from cumulative totals. Pure. */
export class RunMinutes {
  #startMs: number | undefined;
  #counts = NO_RUNS;
  #last = NO_RUNS;

  /**
   * Adds the increase of `totals` since the last call to the counts of the minute that contains
   * `nowMs`. Returns the counts of that minute. `totals` count from the start of the process.
   */
  note(totals: RunCounts, nowMs: number): { readonly startMs: number; readonly counts: RunCounts } {
    const startMs = minuteOf(nowMs);
    const before = startMs === this.#startMs ? this.#counts : NO_RUNS;
    this.#counts = combined(before, totals, this.#last);
    this.#last = totals;
    this.#startMs = startMs;
    return { startMs, counts: this.#counts };
  }
}

/** Stores the counts. Calls run within the caller's transaction. */
export class RunRates {
  readonly #keys: ReplicatorKeys;

  constructor(subspace: Subspace) {
    this.#keys = replicatorKeys(subspace);
  }

  /** Writes the process's counts for one minute. */
  write(tx: Transaction, id: NodeId, startMs: number, counts: RunCounts): void {
    tx.set(this.#keys.runRate.key({ startMs, node: id }), encodeCounts(counts));
  }

  /** Returns the counts of the last hour for all processes, oldest minute first. */
  async hour(tx: ReadTransaction, nowMs: number): Promise<readonly MinuteCounts[]> {
    const firstMs = minuteOf(nowMs) - (RATE_MINUTES - 1) * MINUTE_MS;
    const { runRate } = this.#keys;
    const range = { begin: runRate.prefixKey({ startMs: firstMs }), end: runRate.range().end };
    const found = new Map<number, RunCounts>();
    for await (const { key, value } of tx.getRange(range)) {
      const { startMs } = runRate.unpack(key);
      found.set(startMs, combined(found.get(startMs) ?? NO_RUNS, decodeCounts(value), NO_RUNS));
    }
    return Array.from({ length: RATE_MINUTES }, (_, index) => {
      const startMs = firstMs + index * MINUTE_MS;
      return { startMs, counts: found.get(startMs) };
    });
  }

  /** Deletes counts older than an hour. */
  forget(tx: Transaction, nowMs: number): void {
    const { runRate } = this.#keys;
    const startMs = minuteOf(nowMs) - RATE_MINUTES * MINUTE_MS;
    tx.clearRange({ begin: runRate.range().begin, end: runRate.prefixKey({ startMs }) });
  }
}

function minuteOf(timeMs: number): number {
  return Math.floor(timeMs / MINUTE_MS) * MINUTE_MS;
}

/** Returns `before` plus the increase from `last` to `totals`. */
function combined(before: RunCounts, totals: RunCounts, last: RunCounts): RunCounts {
  const of = (name: keyof RunCounts): number => before[name] + totals[name] - last[name];
  return {
    startCount: of("startCount"),
    failureCount: of("failureCount"),
    documentCount: of("documentCount"),
  };
}

function encodeCounts({ startCount, failureCount, documentCount }: RunCounts): Uint8Array {
  return packTuple([FORMAT, startCount, failureCount, documentCount]);
}

function decodeCounts(value: Uint8Array): RunCounts {
  const [format, startCount, failureCount, documentCount] = unpackTuple(value);
  assert(format === FORMAT, "Counts must have a supported format version");
  return {
    startCount: Number(startCount),
    failureCount: Number(failureCount),
    documentCount: Number(documentCount),
  };
}

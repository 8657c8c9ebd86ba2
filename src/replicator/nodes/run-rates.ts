/**
 * What runs did in each minute of the last hour, on all nodes. Each process writes its own counts, a row a minute, together with the
 * report that it makes anyway; so the hour is there for whoever asks, and stays when a process ends.
 */
import { assert } from "../../base/index.ts";
import {
  packTuple,
  type ReadTransaction,
  type Subspace,
  type Transaction,
  unpackTuple,
} from "../../kv/index.ts";
import { ReplicatorKeys } from "../replicator-keys.ts";
import type { NodeId } from "./node-report.ts";

export const MINUTE_MS = 60_000;
/** The running minute among them. */
export const RATE_MINUTES = 60;
/** The stored form; the first element is the format's version. */
const FORMAT = 1;

export interface RunCounts {
  /** Runs that began. */
  readonly startCount: number;
  /** Runs that crashed, stalled, or failed for good. */
  readonly failureCount: number;
  /** Documents that were written to targets. */
  readonly documentCount: number;
}

export const NO_RUNS: RunCounts = { startCount: 0, failureCount: 0, documentCount: 0 };

export interface MinuteCounts {
  /** When the minute began. */
  readonly startMs: number;
  /** Undefined: no process that runs jobs has told. */
  readonly counts: RunCounts | undefined;
}

/** The minutes of one process, from counts that only grow. Pure. */
export class RunMinutes {
  #startMs: number | undefined;
  #counts = NO_RUNS;
  #last = NO_RUNS;

  /** `totals`: since the process began. What is new belongs to the minute of `nowMs`, whose counts are returned. */
  note(totals: RunCounts, nowMs: number): { readonly startMs: number; readonly counts: RunCounts } {
    const startMs = minuteOf(nowMs);
    const before = startMs === this.#startMs ? this.#counts : NO_RUNS;
    this.#counts = combined(before, totals, this.#last);
    this.#last = totals;
    this.#startMs = startMs;
    return { startMs, counts: this.#counts };
  }
}

/** The stored counts. Every call runs inside the caller's transaction. */
export class RunRates {
  readonly #keys: ReplicatorKeys;

  constructor(subspace: Subspace) {
    this.#keys = new ReplicatorKeys(subspace);
  }

  /** What the process did in this minute, so far. */
  write(tx: Transaction, id: NodeId, startMs: number, counts: RunCounts): void {
    tx.set(this.#keys.runRate(startMs, id), encodeCounts(counts));
  }

  /** The last hour, oldest minute first; of all processes together. */
  async hour(tx: ReadTransaction, nowMs: number): Promise<readonly MinuteCounts[]> {
    const firstMs = minuteOf(nowMs) - (RATE_MINUTES - 1) * MINUTE_MS;
    const found = new Map<number, RunCounts>();
    for await (const { key, value } of tx.getRange(this.#keys.runRatesFrom(firstMs))) {
      const startMs = this.#keys.runRateMinute(key);
      found.set(startMs, combined(found.get(startMs) ?? NO_RUNS, decodeCounts(value), NO_RUNS));
    }
    return Array.from({ length: RATE_MINUTES }, (_, index) => {
      const startMs = firstMs + index * MINUTE_MS;
      return { startMs, counts: found.get(startMs) };
    });
  }

  /** Forgets what is older than the hour. */
  forget(tx: Transaction, nowMs: number): void {
    tx.clearRange(this.#keys.runRatesBefore(minuteOf(nowMs) - RATE_MINUTES * MINUTE_MS));
  }
}

function minuteOf(timeMs: number): number {
  return Math.floor(timeMs / MINUTE_MS) * MINUTE_MS;
}

/** `before`, and by how much `totals` are more than `last`. */
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
  assert(format === FORMAT, "Counts have a format of this version");
  return {
    startCount: Number(startCount),
    failureCount: Number(failureCount),
    documentCount: Number(documentCount),
  };
}

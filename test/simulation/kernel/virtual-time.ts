/**
 * Virtual time advances only when no task can run, so that a simulation of hours takes only as long
 * as its steps. Sleepers are in a heap, ordered by wake-up time. Sleepers with equal wake-up times
 * wake in the order in which they fell asleep.
 */
import { setImmediate as turn } from "node:timers/promises";
import { patience } from "../../support/runner/patience.ts";

/** Maximum number of calls of `run` per world. More calls mean that a test polls indefinitely. */
const RUNS_MAX = 200_000;

/** Minimum sleep. A sleep too short to move the clock could otherwise be repeated indefinitely. */
const TICK_MS = 0.001;

interface Sleeper {
  readonly atMs: number;
  readonly order: number;
  readonly wake: () => void;
  cancelled: boolean;
}

export class VirtualTime {
  nowMs = 0;
  readonly #heap: Sleeper[] = [];
  #order = 0;
  #runCount = 0;

  /** Calls `wake` after this time. Returns a function that cancels the call. */
  schedule(durationMs: number, wake: () => void): () => void {
    const atMs = this.nowMs + (durationMs > 0 ? Math.max(durationMs, TICK_MS) : 0);
    const sleeper = { atMs, order: this.#order++, wake, cancelled: false };
    this.#push(sleeper);
    return () => {
      sleeper.cancelled = true;
    };
  }

  sleep(durationMs: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const cancel = this.schedule(durationMs, () => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      });
      const onAbort = (): void => {
        cancel();
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  /**
   * Advances time until `untilMs`, until no sleeper is left, or until `isOver` returns true.
   * Returns whether `isOver` returned true.
   */
  async run(untilMs: number, isOver: () => boolean = () => false): Promise<boolean> {
    patience.heard();
    if (++this.#runCount > RUNS_MAX) throw new Error(`Time was run ${RUNS_MAX} times`);
    for (;;) {
      // By now, all tasks that do not depend on time have run.
      await turn();
      if (isOver()) return true;
      const next = this.#pop(untilMs);
      if (next === undefined) {
        this.nowMs = Math.max(this.nowMs, untilMs);
        return false;
      }
      this.nowMs = next.atMs;
      next.wake();
    }
  }

  #push(sleeper: Sleeper): void {
    const heap = this.#heap;
    let at = heap.push(sleeper) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(sleeper, heap[parent] as Sleeper)) break;
      heap[at] = heap[parent] as Sleeper;
      at = parent;
    }
    heap[at] = sleeper;
  }

  /**
   * Removes and returns the sleeper that wakes next. Does nothing if its wake-up time is after
   * `untilMs`.
   */
  #pop(untilMs: number): Sleeper | undefined {
    for (;;) {
      const first = this.#heap[0];
      if (first === undefined || first.atMs > untilMs) return undefined;
      this.#removeFirst();
      if (!first.cancelled) return first;
    }
  }

  #removeFirst(): void {
    const heap = this.#heap;
    const last = heap.pop() as Sleeper;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Sleeper, heap[child] as Sleeper)) {
        child++;
      }
      if (!isBefore(heap[child] as Sleeper, last)) break;
      heap[at] = heap[child] as Sleeper;
      at = child;
    }
    heap[at] = last;
  }
}

function isBefore(left: Sleeper, right: Sleeper): boolean {
  return left.atMs < right.atMs || (left.atMs === right.atMs && left.order < right.order);
}

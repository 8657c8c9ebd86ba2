/**
 * Calls waiting for a thread. The next call is the call of the user and database that used the
 * least thread time recently. No user or database can occupy all threads.
 */
import { type Clock, largest } from "../../base/index.ts";
import type { Share } from "../../databases/index.ts";

/** Half-life of recorded thread time. */
const HALF_LIFE_MS = 10_000;
/** Maximum number of users and databases with recorded thread time. */
const USES_MAX = 1_000;

interface Shared {
  readonly share: Share;
}

interface Use {
  timeMs: number;
  usedMs: number;
  running: number;
}

export class FairQueue<T extends Shared> {
  readonly #clock: Clock;
  /** Maximum concurrent calls per user or database. */
  readonly #runningMax: number;
  readonly #waiting = new Set<T>();
  readonly #uses = new Map<string, Use>();

  constructor(clock: Clock, runningMax: number) {
    this.#clock = clock;
    this.#runningMax = runningMax;
  }

  add(call: T): void {
    this.#waiting.add(call);
  }

  /** Removes a call. Returns whether it was waiting. */
  remove(call: T): boolean {
    return this.#waiting.delete(call);
  }

  /** Removes and returns all calls. */
  clear(): T[] {
    const all = [...this.#waiting];
    this.#waiting.clear();
    return all;
  }

  /** Removes and returns the next call that is allowed to run. The call then counts as running. */
  take(): T | undefined {
    let next: T | undefined;
    let leastMs = Number.POSITIVE_INFINITY;
    for (const call of this.#waiting) {
      const uses = keysOf(call.share).map((key) => this.#useOf(key));
      if (uses.some(({ running }) => running >= this.#runningMax)) continue;
      const usedMs = largest(uses.map((use) => use.usedMs));
      if (usedMs >= leastMs) continue;
      next = call;
      leastMs = usedMs;
    }
    if (next === undefined) return undefined;
    this.#waiting.delete(next);
    for (const key of keysOf(next.share)) this.#keep(key).running++;
    return next;
  }

  /** Records the end and the duration of a call. */
  ended({ share }: Shared, durationMs: number): void {
    for (const key of keysOf(share)) {
      const use = this.#keep(key);
      use.running--;
      use.usedMs += durationMs;
    }
  }

  #keep(key: string): Use {
    const use = this.#useOf(key);
    this.#uses.delete(key);
    this.#uses.set(key, use);
    if (this.#uses.size > USES_MAX) {
      const idle = [...this.#uses].find(([, { running }]) => running === 0);
      if (idle !== undefined) this.#uses.delete(idle[0]);
    }
    return use;
  }

  #useOf(key: string): Use {
    const nowMs = this.#clock.monotonicMs();
    const use = this.#uses.get(key) ?? { timeMs: nowMs, usedMs: 0, running: 0 };
    use.usedMs *= 0.5 ** ((nowMs - use.timeMs) / HALF_LIFE_MS);
    use.timeMs = nowMs;
    return use;
  }
}

function keysOf({ user, database }: Share): readonly string[] {
  return [`user ${user}`, `database ${database}`];
}

/**
 * One limit of one budget, as a node uses it. The store holds one timeline for the limit (a leaky bucket, or GCRA,
 * ITU-T I.371). Each reservation takes the stretch that its amount needs at the present rate, and may be used when its
 * stretch begins. So the nodes need not know each other, and together never exceed the rate.
 *
 * A node reserves a tenth of a second ahead while it has work. A limit that is used up costs ten short transactions a
 * second for each node.
 */
import { abortable, type Clock, Semaphore } from "../../base/index.ts";

/** What is reserved at once, as a stretch of time at the present rate. */
const RESERVATION_SEC = 0.1;

export interface BudgetMeterParts {
  readonly clock: Clock;
  /** Per second; undefined when there is no limit any more. */
  readonly rate: () => number | undefined;
  /** Takes the next stretch for this amount. The wall time in milliseconds at which it begins. */
  readonly reserve: (amount: number) => Promise<number>;
  /** Aborts when budgets change: what was reserved before is void, and a wait for it is over. */
  readonly changed: () => AbortSignal;
}

export class BudgetMeter {
  readonly #parts: BudgetMeterParts;
  readonly #turn = new Semaphore(1);
  /** Reserved, begun, and not spent yet. */
  #left = 0;

  constructor(parts: BudgetMeterParts) {
    this.#parts = parts;
  }

  /** First come, first served. Rejects with `signal.reason`. */
  spend(amount: number, signal: AbortSignal): Promise<void> {
    const spent = this.#turn.run(async () => {
      signal.throwIfAborted();
      const { rate, reserve } = this.#parts;
      for (;;) {
        const perSec = rate();
        if (perSec === undefined) return;
        if (this.#left >= amount) break;
        const missing = Math.max(amount - this.#left, perSec * RESERVATION_SEC);
        const changed = this.#parts.changed();
        const beginsAtMs = await reserve(missing);
        if (await this.#reached(beginsAtMs, changed, signal)) this.#left += missing;
      }
      this.#left -= amount;
    });
    return abortable(spent, signal);
  }

  /** False when budgets changed before. */
  async #reached(timeMs: number, changed: AbortSignal, signal: AbortSignal): Promise<boolean> {
    const { clock } = this.#parts;
    const pauseMs = timeMs - clock.nowMs();
    if (pauseMs <= 0) return true;
    try {
      await clock.sleep(pauseMs, AbortSignal.any([changed, signal]));
      return true;
    } catch (error) {
      signal.throwIfAborted();
      if (changed.aborted) return false;
      throw error;
    }
  }
}

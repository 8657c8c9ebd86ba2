/**
 * One limit of a budget, as used by a node. The store contains one timeline per limit (a leaky
 * bucket, or GCRA, ITU-T I.371). A reservation occupies the time that its amount takes at the
 * current rate. It can be spent as soon as that time begins. All nodes together therefore never
 * exceed the rate, although they do not communicate with each other.
 *
 * A busy node reserves enough for a tenth of a second at a time, so an exhausted limit costs ten
 * short transactions per second and node.
 */
import { abortable, type Clock, Semaphore } from "../../base/index.ts";

/** At the current rate, a reservation suffices for at least this time. */
const RESERVATION_SEC = 0.1;

export interface BudgetMeterParts {
  readonly clock: Clock;
  /** Rate per second; undefined if the limit was removed. */
  readonly rate: () => number | undefined;
  /** Reserves the next interval for `amount`. Returns the start of the interval (wall-clock ms). */
  readonly reserve: (amount: number) => Promise<number>;
  /**
   * Returns a signal that aborts when budgets change. When it aborts, reservations that cannot be
   * spent yet are dropped.
   */
  readonly changed: () => AbortSignal;
}

export class BudgetMeter {
  readonly #parts: BudgetMeterParts;
  readonly #turn = new Semaphore(1);
  /** Reserved amount that can be spent now. */
  #left = 0;

  constructor(parts: BudgetMeterParts) {
    this.#parts = parts;
  }

  /**
   * Waits until `amount` can be spent, and spends it. Calls are served in order of arrival. If
   * `signal` aborts, rejects with its reason.
   */
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

  /** Waits until `timeMs`. Returns false as soon as budgets change. */
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

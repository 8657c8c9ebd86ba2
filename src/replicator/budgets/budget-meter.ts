/**
 * One limit of a budget, as used by a node. The store contains one timeline per limit (a leaky
 * bucket, or GCRA, ITU-T I.371). Each reservation takes the interval that its amount needs at the
 * current rate, and may be used from the start of that interval. Nodes therefore need not
 * communicate with each other, and together never exceed the rate.
 *
 * A busy node reserves a tenth of a second ahead: an exhausted limit costs ten short transactions a
 * second per node.
 */
import { abortable, type Clock, Semaphore } from "../../base/index.ts";

/** Time for which one reservation suffices at the current rate. */
const RESERVATION_SEC = 0.1;

export interface BudgetMeterParts {
  readonly clock: Clock;
  /** Rate per second; undefined if the limit was removed. */
  readonly rate: () => number | undefined;
  /** Reserves the next interval for this amount. Returns its start (wall-clock ms). */
  readonly reserve: (amount: number) => Promise<number>;
  /**
   * Returns a signal that aborts when budgets change. Reservations that cannot be used yet are then
   * dropped.
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
   * Waits until the amount may be spent. Calls are served in order of arrival. Rejects with
   * `signal.reason`.
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

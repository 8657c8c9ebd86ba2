/**
 * Turns of a long piece of work: between two of them the event loop serves everybody else. Promises alone do not give way, since what is
 * already there goes on before anything else is looked at.
 */
import type { Clock } from "./runtime.ts";

/** Nobody notices so short a wait, and the price of giving way is small beside it. */
const TURN_MS = 10;

export class Turns {
  readonly #clock: Clock;
  #beganMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#beganMs = clock.monotonicMs();
  }

  /** Whether others have waited long enough. Cheap enough to ask between any two pieces of some microseconds. */
  get areDue(): boolean {
    return this.#clock.monotonicMs() - this.#beganMs >= TURN_MS;
  }

  /** Lets all others have their turn. Call it when `areDue`. */
  async give(): Promise<void> {
    await this.#clock.sleep(0);
    this.#beganMs = this.#clock.monotonicMs();
  }
}

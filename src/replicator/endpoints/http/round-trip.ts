/**
 * Measures the distance of a server: the shortest time until it began to respond, which includes no
 * waiting for other work. Measurements are dropped after some minutes, since the distance may grow.
 */
import type { Clock } from "../../../base/index.ts";

/**
 * Period after which measurements begin to be dropped. If it were shorter, a server that is busy
 * for a long time would be mistaken for a distant one.
 */
const PERIOD_MS = 300_000;

export class RoundTrip {
  readonly #clock: Pick<Clock, "monotonicMs">;
  #beganMs: number;
  #currentMs: number | undefined;
  #formerMs: number | undefined;

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
    this.#beganMs = clock.monotonicMs();
  }

  /** Records the time until a response began. */
  add(durationMs: number): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#beganMs >= PERIOD_MS) {
      this.#formerMs = this.#currentMs;
      this.#currentMs = undefined;
      this.#beganMs = nowMs;
    }
    this.#currentMs = least(this.#currentMs, durationMs);
  }

  /** Shortest time of the last one or two periods with responses, if any. */
  get leastMs(): number | undefined {
    return this.#formerMs === undefined ? this.#currentMs : least(this.#currentMs, this.#formerMs);
  }
}

function least(knownMs: number | undefined, durationMs: number): number {
  return knownMs === undefined ? durationMs : Math.min(knownMs, durationMs);
}

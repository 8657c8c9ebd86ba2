/**
 * Measures the distance of a server as the shortest time to the beginning of a response, because
 * the shortest time includes no wait for other work. Measurements are dropped after some minutes,
 * since the distance can grow.
 */
import type { Clock } from "../../../base/index.ts";

/**
 * Length of a measurement period. Measurements of the current and the previous period are used. If
 * periods were shorter, a server that is busy for a long time would be mistaken for a distant one.
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

  /** Records the time from a request to the beginning of its response. */
  add(durationMs: number): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#beganMs >= PERIOD_MS) {
      this.#formerMs = this.#currentMs;
      this.#currentMs = undefined;
      this.#beganMs = nowMs;
    }
    this.#currentMs = least(this.#currentMs, durationMs);
  }

  /** Shortest time in the current and the previous period; undefined without responses. */
  get leastMs(): number | undefined {
    return this.#formerMs === undefined ? this.#currentMs : least(this.#currentMs, this.#formerMs);
  }
}

function least(knownMs: number | undefined, durationMs: number): number {
  return knownMs === undefined ? durationMs : Math.min(knownMs, durationMs);
}

/**
 * How far away a server is: the least time in which it began to answer. A least time tells of the way alone, as nothing was in it that
 * waited for others; it is forgotten after some minutes, because ways become longer.
 */
import type { Clock } from "../../../base/index.ts";

/** After so long, what was measured begins to be forgotten. Shorter, and a server that is busy for long would pass for one far away. */
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

  /** An answer began after so long. */
  add(durationMs: number): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#beganMs >= PERIOD_MS) {
      this.#formerMs = this.#currentMs;
      this.#currentMs = undefined;
      this.#beganMs = nowMs;
    }
    this.#currentMs = least(this.#currentMs, durationMs);
  }

  /** Of the last period or two in which there were answers; undefined: there has been none. */
  get leastMs(): number | undefined {
    return this.#formerMs === undefined ? this.#currentMs : least(this.#currentMs, this.#formerMs);
  }
}

function least(knownMs: number | undefined, durationMs: number): number {
  return knownMs === undefined ? durationMs : Math.min(knownMs, durationMs);
}

/**
 * Controls the number of concurrent batches in a stage of copying (reading or writing).
 *
 * For nearby servers, the number is `worker_processes`. Requests to a distant server spend most of
 * their time in transit, at no cost to the server. More requests are therefore allowed, so that the
 * server processes `worker_processes` requests at a time (Little's law): if a request takes 310 ms,
 * of which 300 ms are transit, the server processes it for 1/31 of its time.
 *
 * Requests queued at an overloaded server count as being processed. The number of batches therefore
 * decreases whenever a server becomes slower or asks for a pause. The queue at a distant server
 * never becomes longer than at a nearby one (the idea of TCP Vegas).
 */

import { FAR_MS_MIN } from "../endpoints/endpoint.ts";

/** Fraction of a round trip over which the requests sent during the round trip are spread. */
const SPREAD = 0.5;

export interface StagePaceLimits {
  /** Number of batches for nearby servers, and minimum number for distant servers. */
  readonly nearCount: number;
  readonly countMax: number;
}

export class StagePace {
  readonly #limits: StagePaceLimits;
  #count: number;
  #elapsedMs = 0;
  #workMs = 0;
  #isFar = false;

  constructor(limits: StagePaceLimits) {
    this.#limits = limits;
    this.#count = limits.nearCount;
  }

  /** Number of batches allowed in the stage. */
  get count(): number {
    return Math.floor(this.#count);
  }

  /**
   * Minimum time between two requests; 0 for nearby servers. Spreads the requests of one round trip
   * over at least half of the round trip (TCP pacing). Without pacing, the requests of a burst
   * would queue at the server, which would then be idle until the next burst.
   */
  get spacingMs(): number {
    return this.#isFar ? (SPREAD * this.#elapsedMs) / this.#count : 0;
  }

  /** Records a request's total duration and the endpoint's round-trip time (undefined if local). */
  answered(elapsedMs: number, roundTripMs: number | undefined): void {
    const wayMs = roundTripMs === undefined || roundTripMs < FAR_MS_MIN ? 0 : roundTripMs;
    this.#isFar = wayMs > 0;
    const isFirst = this.#elapsedMs === 0;
    // Moving average over about `#count` responses. In a burst, the first request is not queued and
    // the last request waits longest, so the average has to cover all requests of the burst.
    const weight = isFirst ? 1 : 1 / this.#count;
    this.#elapsedMs += weight * (elapsedMs - this.#elapsedMs);
    this.#workMs += weight * (Math.max(0, elapsedMs - wayMs) - this.#workMs);
    const { nearCount, countMax } = this.#limits;
    const goal = (nearCount * this.#elapsedMs) / Math.max(this.#workMs, Number.MIN_VALUE);
    // Each response adds at most one batch, so the number of batches at most doubles within one
    // round trip.
    const grown = Math.min(goal, this.#count + 1);
    this.#count = Math.max(nearCount, Math.min(grown, countMax));
  }
}

/**
 * How many batches may be in one stage of copying, reading or writing, at the same time.
 *
 * Near the servers it is `worker_processes`. Of a request to a distant server most of the time passes on the way, where it costs
 * nobody anything. So there may be as many as keep `worker_processes` of them in work, the others being on the way (Little's law):
 * a request that takes 310 ms, 300 of them on the way, is in work for a thirty-first of its time.
 *
 * What a server cannot keep up with waits there, and counts as in work. So there are fewer as soon as a server takes longer for what it
 * is asked, or says "later", for whatever reason, and never more than wait at a server that is near (the idea of TCP Vegas).
 */

import { FAR_MS_MIN } from "../endpoints/endpoint.ts";

/** Of a round trip, over which its requests are spread. */
const SPREAD = 0.5;

export interface StagePaceLimits {
  /** Near the servers, and at least. */
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

  /** Batches that may be in the stage. */
  get count(): number {
    return Math.floor(this.#count);
  }

  /**
   * How long after one request begins the next one may, so that those of a round trip are spread over the half of it at least: what
   * comes in one burst waits for itself, and the server rests until the next (TCP pacing). 0 near the servers.
   */
  get spacingMs(): number {
    return this.#isFar ? (SPREAD * this.#elapsedMs) / this.#count : 0;
  }

  /** A request of the stage took so long, with all that it waited for, to an endpoint that is so far away; undefined: our own store. */
  answered(elapsedMs: number, roundTripMs: number | undefined): void {
    const wayMs = roundTripMs === undefined || roundTripMs < FAR_MS_MIN ? 0 : roundTripMs;
    this.#isFar = wayMs > 0;
    const isFirst = this.#elapsedMs === 0;
    // As many as are under way came in one burst, of which the first did not wait and the last did.
    const weight = isFirst ? 1 : 1 / this.#count;
    this.#elapsedMs += weight * (elapsedMs - this.#elapsedMs);
    this.#workMs += weight * (Math.max(0, elapsedMs - wayMs) - this.#workMs);
    const { nearCount, countMax } = this.#limits;
    const goal = (nearCount * this.#elapsedMs) / Math.max(this.#workMs, Number.MIN_VALUE);
    // One more for each answer doubles the number in a round trip.
    const grown = Math.min(goal, this.#count + 1);
    this.#count = Math.max(nearCount, Math.min(grown, countMax));
  }
}

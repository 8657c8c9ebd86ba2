/**
 * Decides whether a request that may save others is worth its cost (CouchDB 3.5, `couch_replicator_worker`). It keeps
 * an exponential average of the requests that were in vain. A request that is left out is tried again after a while.
 */

/** After so long without a try the last ones say nothing any more. */
const RETRY_AFTER_MS = 37_000;

export interface AdaptiveChoiceLimits {
  /** Weight of the latest request in the average. */
  readonly decay: number;
  /** The request is made while its average share in vain is not above this. */
  readonly vainRatioMax: number;
}

export class AdaptiveChoice {
  readonly #limits: AdaptiveChoiceLimits;
  #vainRatio = 0;
  #triedAtMs = Number.NEGATIVE_INFINITY;
  #isGivenUp = false;

  constructor(limits: AdaptiveChoiceLimits) {
    this.#limits = limits;
  }

  isWorthwhile(nowMs: number): boolean {
    const isForgotten = nowMs - this.#triedAtMs > RETRY_AFTER_MS;
    return this.#vainRatio <= this.#limits.vainRatioMax || isForgotten;
  }

  /** Of `askedCount` things the request was of use for `usedCount`. */
  record(askedCount: number, usedCount: number, nowMs: number): void {
    const vainRatio = askedCount === 0 ? 0 : (askedCount - usedCount) / askedCount;
    this.#vainRatio += this.#limits.decay * (vainRatio - this.#vainRatio);
    this.#triedAtMs = nowMs;
    this.#isGivenUp = false;
  }

  /** The request is known to be in vain now. */
  expectVain(nowMs: number): void {
    this.#vainRatio = 1;
    this.#triedAtMs = nowMs;
  }

  /** Whether the latest try was given up. */
  get isGivenUp(): boolean {
    return this.#isGivenUp;
  }

  /** The request is not answered at all: not again for a while. */
  giveUp(nowMs: number): void {
    this.expectVain(nowMs);
    this.#isGivenUp = true;
  }
}

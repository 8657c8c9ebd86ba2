/**
 * Decides whether an optional request, which might save other requests, is worth its cost. The
 * decision is based on an exponential moving average of the share of useless results, as in CouchDB
 * 3.5 (`couch_replicator_worker`). A skipped request is tried again after `RETRY_AFTER_MS`.
 */

/** Time after which a skipped request is tried again. */
const RETRY_AFTER_MS = 37_000;

export interface AdaptiveChoiceLimits {
  /** Weight of the latest request in the average. */
  readonly decay: number;
  /** Maximum average share of useless results. Above it, the request is skipped. */
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

  /** Records a request for `askedCount` items, of which `usedCount` were useful. */
  record(askedCount: number, usedCount: number, nowMs: number): void {
    const vainRatio = askedCount === 0 ? 0 : (askedCount - usedCount) / askedCount;
    this.#vainRatio += this.#limits.decay * (vainRatio - this.#vainRatio);
    this.#triedAtMs = nowMs;
    this.#isGivenUp = false;
  }

  /** Assumes for now that the request is not worthwhile. */
  expectVain(nowMs: number): void {
    this.#vainRatio = 1;
    this.#triedAtMs = nowMs;
  }

  /** Whether the latest attempt was abandoned, because it got no response. */
  get isGivenUp(): boolean {
    return this.#isGivenUp;
  }

  /** Abandons a request that got no response. It is tried again after `RETRY_AFTER_MS`. */
  giveUp(nowMs: number): void {
    this.expectVain(nowMs);
    this.#isGivenUp = true;
  }
}

/**
 * Slows down requests to servers that respond with 429. Uses additive increase and multiplicative
 * decrease (Chiu and Jain, 1989) as in `couch_replicator_rate_limiter`: a 429 multiplies the
 * interval between requests, and other responses reduce it step by step. There is one estimate of
 * the interval for each endpoint and method. All jobs of a node share it, so a 429 of one job slows
 * down the others.
 *
 * Estimates are values, and the functions on them are pure.
 */
import type { Runtime } from "../../base/index.ts";
import type { Fetch, FetchResponse } from "../fetch.ts";
import type { Waits } from "../waits.ts";

export interface Estimate {
  readonly intervalMs: number;
  readonly updatedAtMs: number;
}

/**
 * Minimum interval, and the smallest step by which an interval shrinks. An estimate is dropped if
 * its interval would become zero or less.
 */
const INTERVAL_MS_MIN = 20;
const BACKOFF_FACTOR = 1.2;
/** Maximum interval. A longer interval would not reduce the load noticeably. */
const INTERVAL_MS_MAX = 25_000;
/** Concurrent requests can all get a 429, so 429s within this time count as one. */
const SENSITIVITY_MS = 80;
/**
 * Idle time after which an estimated interval is reduced by twice the idle time, because an idle
 * server has recovered.
 */
const DECAY_AFTER_MS = 1000;
const DECAY_FACTOR = 2;
/**
 * Steps by which intervals above a length shrink. Long intervals shrink faster; otherwise, requests
 * to a server that recovers suddenly would stay slow for minutes.
 */
const STEPS: readonly (readonly [aboveMs: number, stepMs: number])[] = [
  [10_000, 1000],
  [1000, 100],
  [100, 40],
  [0, INTERVAL_MS_MIN],
];
/** Number of estimates above which outdated ones are removed. */
const ESTIMATES_BEFORE_SWEEP = 1000;

/** Returns the estimate after a 429. */
export function afterTooMany(estimate: Estimate | undefined, nowMs: number): Estimate {
  if (estimate !== undefined && nowMs - estimate.updatedAtMs <= SENSITIVITY_MS) return estimate;
  const grownMs = Math.round(Math.max(estimate?.intervalMs ?? 0, INTERVAL_MS_MIN) * BACKOFF_FACTOR);
  return { intervalMs: Math.min(INTERVAL_MS_MAX, grownMs), updatedAtMs: nowMs };
}

/**
 * Returns the estimate after a response that is not a 429, or `undefined` if requests need no delay
 * any more.
 */
export function afterAnswer(estimate: Estimate | undefined, nowMs: number): Estimate | undefined {
  if (estimate === undefined || nowMs - estimate.updatedAtMs <= SENSITIVITY_MS) return estimate;
  const silentMs = nowMs - estimate.updatedAtMs;
  const decayMs = silentMs > DECAY_AFTER_MS ? DECAY_FACTOR * silentMs : 0;
  const decayedMs = Math.max(0, estimate.intervalMs - decayMs);
  const stepMs = STEPS.find(([aboveMs]) => decayedMs > aboveMs)?.[1] ?? INTERVAL_MS_MIN;
  const intervalMs = decayedMs - stepMs;
  if (intervalMs <= 0) return undefined;
  return { intervalMs: Math.max(INTERVAL_MS_MIN, intervalMs), updatedAtMs: nowMs };
}

/** All estimates of a node. */
export class RateLimits {
  readonly #estimates = new Map<string, Estimate>();

  intervalMs(key: string): number {
    return this.#estimates.get(key)?.intervalMs ?? 0;
  }

  /**
   * Returns the URL and interval for each pair of endpoint and method whose requests are delayed.
   */
  list(): readonly { readonly endpointUrl: string; readonly intervalMs: number }[] {
    return [...this.#estimates].map(([key, { intervalMs }]) => ({
      endpointUrl: key.slice(key.indexOf(" ") + 1),
      intervalMs,
    }));
  }

  /** Applies the status of a response. 408 and 5xx do not affect the rate. */
  observe(key: string, status: number, nowMs: number): void {
    if (status === 408 || status >= 500) return;
    const earlier = this.#estimates.get(key);
    const estimate = status === 429 ? afterTooMany(earlier, nowMs) : afterAnswer(earlier, nowMs);
    if (estimate === undefined) this.#estimates.delete(key);
    else this.#estimates.set(key, estimate);
    if (this.#estimates.size > ESTIMATES_BEFORE_SWEEP) this.#sweep(nowMs);
  }

  #sweep(nowMs: number): void {
    for (const [key, { updatedAtMs }] of this.#estimates) {
      if (nowMs - updatedAtMs > INTERVAL_MS_MAX) this.#estimates.delete(key);
    }
  }
}

/**
 * Delays each request by the interval of its endpoint and method. After a 429, `withRetry` repeats
 * the request and obeys `Retry-After`.
 */
export function withRateLimit(
  { clock }: Pick<Runtime, "clock">,
  fetch: Fetch,
  rateLimits: RateLimits,
  endpointUrl: string,
  waits?: Waits,
): Fetch {
  return async (request): Promise<FetchResponse> => {
    const key = `${request.method} ${endpointUrl}`;
    const intervalMs = rateLimits.intervalMs(key);
    if (intervalMs >= 1) {
      const pause = clock.sleep(intervalMs, request.signal);
      await (waits?.during("limiter", pause) ?? pause);
    }
    const response = await fetch(request);
    rateLimits.observe(key, response.status, clock.monotonicMs());
    return response;
  };
}

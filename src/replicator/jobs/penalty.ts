/**
 * How long a job that failed waits (RFC 016, `couch_replicator_job`).
 *
 * RFC 016 writes `max` where `min` is meant: the pause is `min × 2^errors`, but not longer than the maximum.
 */
import { backoff, type Random } from "../../base/index.ts";

export interface PenaltyLimits {
  /** `min_backoff_penalty_sec`. */
  readonly minSec: number;
  /** `max_backoff_penalty_sec`. */
  readonly maxSec: number;
}

/** Seconds to wait after the `errorCount`th failure in a row, 1 or more: 75 to 100 % of the doubled pause. */
export function penaltySec(errorCount: number, limits: PenaltyLimits, random: Random): number {
  const wholeSec = backoff({ min: 2 * limits.minSec, max: limits.maxSec }, errorCount);
  return Math.ceil(wholeSec * (0.75 + random.ratio() / 4));
}

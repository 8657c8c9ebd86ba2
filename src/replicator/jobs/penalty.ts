/**
 * Pause of a failed job (RFC 016, `couch_replicator_job`): `minSec × 2^errors`, at most `maxSec`.
 * The `max` in the formula of RFC 016 is a mistake.
 */
import { backoff, type Random } from "../../base/index.ts";

export interface PenaltyLimits {
  /** Minimum pause (`min_backoff_penalty_sec`). */
  readonly minSec: number;
  /** Maximum pause (`max_backoff_penalty_sec`). */
  readonly maxSec: number;
}

/** Returns the seconds to wait after `errorCount` consecutive failures, with jitter. */
export function penaltySec(errorCount: number, limits: PenaltyLimits, random: Random): number {
  const wholeSec = backoff({ min: 2 * limits.minSec, max: limits.maxSec }, errorCount);
  return Math.ceil(wholeSec * (0.75 + random.ratio() / 4));
}

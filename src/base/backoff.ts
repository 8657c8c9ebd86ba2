/** Exponential backoff: each pause is twice the previous one. */

/** Shortest and longest pause, in the same unit. */
export interface BackoffLimits {
  readonly min: number;
  readonly max: number;
}

/** Number of doublings after which every pause has reached its maximum. */
const DOUBLINGS_MAX = 60;

/**
 * Returns the pause after `failureCount` consecutive failures (from 1), in the unit of the limits.
 */
export function backoff({ min, max }: BackoffLimits, failureCount: number): number {
  const doublings = Math.min(Math.max(0, failureCount - 1), DOUBLINGS_MAX);
  return Math.min(max, min * 2 ** doublings);
}

/** Exponential backoff: each pause is twice the one before. */

/** The shortest and the longest pause, in the same unit. */
export interface BackoffLimits {
  readonly min: number;
  readonly max: number;
}

/** Beyond this number of failures any pause has reached its maximum. */
const DOUBLINGS_MAX = 60;

/** Returns the pause after the `failureCount`th failure in a row, counted from 1, in the unit of the limits. */
export function backoff({ min, max }: BackoffLimits, failureCount: number): number {
  const doublings = Math.min(Math.max(0, failureCount - 1), DOUBLINGS_MAX);
  return Math.min(max, min * 2 ** doublings);
}

/** Statistics of a distribution. */

/**
 * Returns Jain's fairness index: 1 if all values are equal, and 1/n if only one of n values is not
 * zero.
 */
export function jainIndex(values: readonly number[]): number {
  const sum = values.reduce((left, right) => left + right, 0);
  const squares = values.reduce((total, value) => total + value * value, 0);
  return sum ** 2 / (values.length * squares);
}

/** Returns the percentile `percent` of the values (nearest rank), or 0 if there are no values. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = Float64Array.from(values).sort();
  const rank = Math.ceil((percent / 100) * sorted.length);
  return sorted[Math.max(0, rank - 1)] ?? 0;
}

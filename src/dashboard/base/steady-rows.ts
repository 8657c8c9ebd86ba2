/** Keeps the order of rows stable. */

/**
 * Returns the rows in the order of `before`, with the content of `now`. Rows missing in `now` keep
 * their content. New rows are appended.
 */
export function steadyRows<Row>(
  before: readonly Row[],
  now: readonly Row[],
  keyOf: (row: Row) => string,
): readonly Row[] {
  const fresh = new Map(now.map((row) => [keyOf(row), row]));
  const kept = before.map((row) => fresh.get(keyOf(row)) ?? row);
  const known = new Set(before.map(keyOf));
  return [...kept, ...now.filter((row) => !known.has(keyOf(row)))];
}

/**
 * Operations on lists of any length. Spreading in a call (`push(...items)`) puts every item on the
 * stack, which overflows at a few hundred thousand.
 */

/** Appends the items to the list. */
export function append<T>(list: T[], items: Iterable<T>): void {
  for (const item of items) list.push(item);
}

/** Replaces the contents of the list. */
export function replaceAll<T>(list: T[], items: Iterable<T>): void {
  const replacement = [...items];
  list.length = 0;
  append(list, replacement);
}

/** Returns the maximum of `start` and all numbers. */
export function largest(numbers: Iterable<number>, start = Number.NEGATIVE_INFINITY): number {
  let found = start;
  for (const number of numbers) found = Math.max(found, number);
  return found;
}

/** Returns the minimum of `start` and all numbers. */
export function smallest(numbers: Iterable<number>, start = Number.POSITIVE_INFINITY): number {
  let found = start;
  for (const number of numbers) found = Math.min(found, number);
  return found;
}

export function sum(numbers: Iterable<number>): number {
  let total = 0;
  for (const number of numbers) total += number;
  return total;
}

/** Splits the items into arrays of at most `countMax`. */
export function chunksOf<T>(items: readonly T[], countMax: number): readonly (readonly T[])[] {
  const count = Math.ceil(items.length / countMax);
  return Array.from({ length: count }, (_, chunk) =>
    items.slice(chunk * countMax, (chunk + 1) * countMax),
  );
}

/** Suggests names for misspelt ones. */

/**
 * Returns the closest of `names`, or `undefined` if none is close enough for a typing error to be
 * likely. If several names are equally close, the first one is returned.
 */
export function nearestName(misspelt: string, names: Iterable<string>): string | undefined {
  let nearest: string | undefined;
  let leastDistance = Math.max(1, Math.floor(misspelt.length / 4)) + 1;
  for (const name of names) {
    if (Math.abs(name.length - misspelt.length) >= leastDistance) continue;
    const distance = slipCount(misspelt, name);
    if (distance < leastDistance) [nearest, leastDistance] = [name, distance];
  }
  return nearest;
}

/**
 * Returns the smallest number of typing errors that turn one text into the other: an extra, missing
 * or wrong letter, or two swapped letters (optimal string alignment distance).
 */
function slipCount(left: string, right: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let row = 1; row <= left.length; row++) {
    const current = [row];
    for (let column = 1; column <= right.length; column++) {
      const isSame = left[row - 1] === right[column - 1];
      let least = Math.min(
        at(last, column) + 1,
        at(current, column - 1) + 1,
        at(last, column - 1) + (isSame ? 0 : 1),
      );
      const isSwapped =
        row > 1 &&
        column > 1 &&
        left[row - 1] === right[column - 2] &&
        left[row - 2] === right[column - 1];
      if (isSwapped) least = Math.min(least, at(beforeLast, column - 2) + 1);
      current.push(least);
    }
    [beforeLast, last] = [last, current];
  }
  return at(last, right.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] as number;
}

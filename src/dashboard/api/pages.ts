/** Paging of lists by row numbers. */

/**
 * Returns the number of rows before the page: `skip`, or the start of the list's last page if the
 * list has become too short.
 */
export function skipWithin(skip: number, pageRows: number, total: number): number {
  const last = Math.max(0, Math.ceil(total / pageRows) - 1) * pageRows;
  return Math.min(skip, last);
}

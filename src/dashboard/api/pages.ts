/** Paging of lists by row numbers. */

/** Number of rows before the page; if the list has become shorter, before its last page. */
export function skipWithin(skip: number, pageRows: number, total: number): number {
  const last = Math.max(0, Math.ceil(total / pageRows) - 1) * pageRows;
  return Math.min(skip, last);
}

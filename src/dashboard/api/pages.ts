/** Lists that are read in pages of a number of rows. Pure. */

/** How many rows stand before the page; where the list has become shorter than that, before the last page that there is. */
export function skipWithin(skip: number, pageRows: number, total: number): number {
  const last = Math.max(0, Math.ceil(total / pageRows) - 1) * pageRows;
  return Math.min(skip, last);
}

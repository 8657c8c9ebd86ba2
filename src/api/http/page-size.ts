/**
 * Chooses how many documents are read in one transaction and held until they are sent. A document may have eight
 * megabytes and mostly has one kilobyte. So the first page is small, and the next ones follow from the sizes of the
 * documents so far.
 */
const FIRST_COUNT = 10;
const COUNT_MAX = 100;
/** What a page should hold, in characters. */
const LENGTH_AIM = 1_000_000;
/** A few small documents say little about the next ones. */
const GROWTH_MAX = 4;

export class PageSize {
  #count = FIRST_COUNT;

  get count(): number {
    return this.#count;
  }

  /** Takes note of a page that was read. */
  learn(documentCount: number, length: number): void {
    if (documentCount === 0) return;
    const fitting = Math.floor((LENGTH_AIM * documentCount) / Math.max(1, length));
    const allowed = Math.min(COUNT_MAX, this.#count * GROWTH_MAX);
    this.#count = Math.max(1, Math.min(allowed, fitting));
  }
}

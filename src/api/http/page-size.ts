/**
 * Chooses the number of documents that are read in one transaction and held until they are sent. A
 * document can be as large as eight megabytes, but most are about one kilobyte. The first page is
 * therefore small, and the size of later pages is computed from the documents read so far.
 */
const FIRST_COUNT = 10;
const COUNT_MAX = 100;
/** Target size of a page, in characters. */
const LENGTH_AIM = 1_000_000;
/**
 * Limits the growth per page, because a few small documents do not predict the size of later ones.
 */
const GROWTH_MAX = 4;

export class PageSize {
  #count = FIRST_COUNT;

  get count(): number {
    return this.#count;
  }

  /**
   * Sets the size of the next page, based on the number and total length of the last page's
   * documents.
   */
  learn(documentCount: number, length: number): void {
    if (documentCount === 0) return;
    const fitting = Math.floor((LENGTH_AIM * documentCount) / Math.max(1, length));
    const allowed = Math.min(COUNT_MAX, this.#count * GROWTH_MAX);
    this.#count = Math.max(1, Math.min(allowed, fitting));
  }
}

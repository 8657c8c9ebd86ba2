/**
 * Chooses the number of documents that are read in one transaction and held until they are sent. A
 * document can be as large as eight megabytes, but most are about one kilobyte. A document with
 * many conflicts takes hundreds of milliseconds to read, and a transaction must end within five
 * seconds. The first page is therefore small, and the size of later pages is computed from the
 * documents read so far.
 */
import type { Clock } from "../../base/index.ts";
import type { LeafNode } from "../revisions/revision-tree.ts";

const FIRST_COUNT = 10;
const COUNT_MAX = 100;
/** Target size of a page, in characters. */
const LENGTH_AIM = 1_000_000;
/** Maximum total size of the bodies of a page, unless a single document is larger. */
export const PAGE_BODY_BYTES_MAX = 4_000_000;
/** Target duration of reading a page. */
const READ_MS_AIM = 500;
/**
 * Limits the growth per page, because a few small documents do not predict the size of later ones.
 */
const GROWTH_MAX = 4;

/** A page that is being read. */
export interface DocumentPage {
  readonly count: number;
  /** Called with the number and the total length of the documents, once they have been read. */
  readonly learn: (documentCount: number, length: number) => void;
}

export class PageSize {
  readonly #clock: Clock;
  #count = FIRST_COUNT;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Called before a page is read. */
  begin(): DocumentPage {
    const beganMs = this.#clock.monotonicMs();
    const learn = (documentCount: number, length: number): void => {
      if (documentCount === 0) return;
      const tookMs = this.#clock.monotonicMs() - beganMs;
      const pages = Math.min(LENGTH_AIM / Math.max(1, length), READ_MS_AIM / Math.max(1, tookMs));
      const fitting = Math.floor(pages * documentCount);
      const allowed = Math.min(COUNT_MAX, this.#count * GROWTH_MAX);
      this.#count = Math.max(1, Math.min(allowed, fitting));
    };
    return { count: this.#count, learn };
  }
}

/**
 * Returns the number of leading groups of leaves whose bodies fit into a page; at least `countMin`.
 * `PageSize` alone would not suffice: documents read so far do not show the size of the next ones.
 */
export function fittingCount(groups: readonly (readonly LeafNode[])[], countMin: number): number {
  let byteCount = 0;
  const isOver = (leaves: readonly LeafNode[], index: number): boolean => {
    for (const { leaf } of leaves) byteCount += leaf.bodyBytes;
    return byteCount > PAGE_BODY_BYTES_MAX && index >= countMin;
  };
  const end = groups.findIndex(isOver);
  return end < 0 ? groups.length : end;
}

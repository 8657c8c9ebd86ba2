/** The rows of a range, fetched page by page as they are consumed. */
import { firstGreaterThan } from "./key-selector.ts";
import type { KeyRange, KeyValue, RangeOptions, ReadTransaction } from "./transaction.ts";

/** The first page is small because many readers stop early; later pages are large to save calls. */
const FIRST_PAGE_ROW_COUNT = 100;
const PAGE_ROW_COUNT = 1_000;
const PAGE_BYTE_COUNT = 1_000_000;

export class PagedRange implements AsyncIterable<KeyValue> {
  readonly #transaction: ReadTransaction;
  readonly #range: KeyRange;
  readonly #options: RangeOptions;

  constructor(transaction: ReadTransaction, range: KeyRange, options: RangeOptions) {
    this.#transaction = transaction;
    this.#range = range;
    this.#options = options;
  }

  async *[Symbol.asyncIterator](): AsyncIterator<KeyValue> {
    const { limit = Number.POSITIVE_INFINITY, byteLimit = Number.POSITIVE_INFINITY } =
      this.#options;
    const reverse = this.#options.reverse ?? false;
    let { begin, end } = this.#range;
    let rowCount = 0;
    let byteCount = 0;
    let pageRowCount = FIRST_PAGE_ROW_COUNT;
    while (rowCount < limit && byteCount < byteLimit) {
      const page = await this.#transaction.getRangePage(
        { begin, end },
        {
          limit: Math.min(pageRowCount, limit - rowCount),
          byteLimit: Math.min(PAGE_BYTE_COUNT, byteLimit - byteCount),
          reverse,
        },
      );
      for (const row of page.entries) {
        rowCount++;
        byteCount += row.key.length + row.value.length;
        yield row;
      }
      const last = page.entries[page.entries.length - 1];
      if (page.stoppedBy === "exhausted" || last === undefined) return;
      pageRowCount = PAGE_ROW_COUNT;
      if (reverse) end = last.key;
      else begin = firstGreaterThan(last.key);
    }
  }
}

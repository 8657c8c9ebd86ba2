/** The all-docs index: documents that are not deleted, by id. */
import { append, assert, compareBytes, type Page } from "../../base/index.ts";
import { type Key, type KeyBounds, keyAfter, type ReadTransaction } from "../../kv/index.ts";
import type { Document, Revision } from "../document.ts";
import { formatRevision } from "../revisions/revision.ts";
import type { LeafNode } from "../revisions/revision-tree.ts";
import type { LoadedDocument } from "../transaction-state.ts";
import type { DocumentReader } from "./document-reader.ts";
import type { DocumentRows } from "./document-rows.ts";
import { fittingCount } from "./page-size.ts";

/** Maximum size of a read. The records of documents with many revisions are large. */
const READ_BYTES_MAX = 1_000_000;
/**
 * Minimum number of rows of a page with documents, if there are as many: callers that continue with
 * the last id read its row again.
 */
const ROWS_MIN = 2;

export interface AllDocumentsOptions {
  /** First id, inclusive; the highest id of the range if descending. */
  readonly startId?: string;
  /** Last id. */
  readonly endId?: string;
  /** Whether `endId` is included. Default: true. */
  readonly inclusiveEnd?: boolean;
  /** Maximum number of rows. Default: no limit. Callers should omit it only for small databases. */
  readonly limit?: number;
  readonly skip?: number;
  readonly descending?: boolean;
  /** Whether to read the documents. The page then ends when the bodies reach a limit. */
  readonly withDocument?: boolean;
}

export interface DocumentRow {
  readonly id: string;
  readonly revision: Revision;
  /** Present if `withDocument` was requested and the document is not hidden. */
  readonly document?: Document;
}

interface Order {
  readonly reverse: boolean;
  readonly limit: number;
  readonly withDocument: boolean;
}

/** A row of the index, with the leaf of the winner if `withDocument` and if the row contains it. */
interface IndexRow extends DocumentRow {
  readonly leaf?: LeafNode | undefined;
}

/** Lists documents that are not deleted, in byte order of their ids. */
export class AllDocuments {
  readonly #rows: DocumentRows;
  readonly #reader: DocumentReader;

  constructor(rows: DocumentRows, reader: DocumentReader) {
    this.#rows = rows;
    this.#reader = reader;
  }

  async page(tx: ReadTransaction, options: AllDocumentsOptions = {}): Promise<Page<DocumentRow>> {
    const { limit, skip = 0, descending = false, withDocument = false } = options;
    assert(limit === undefined || limit >= 0, "The limit must not be negative");
    assert(skip >= 0, "`skip` must not be negative");
    if (limit === 0) return { entries: [], stoppedBy: "row-limit" };
    const order = {
      reverse: descending,
      limit: limit === undefined ? Number.POSITIVE_INFINITY : limit + skip,
      withDocument,
    };
    const { entries: rows, stoppedBy } = await this.#read(tx, this.#range(options), order);
    const entries = rows.slice(skip);
    if (!withDocument) return { entries, stoppedBy };
    const documents = await this.#withDocuments(tx, entries);
    const isCut = documents.length < entries.length;
    return { entries: documents, stoppedBy: isCut ? "byte-limit" : stoppedBy };
  }

  #range({
    startId,
    endId,
    inclusiveEnd = true,
    descending = false,
  }: AllDocumentsOptions): KeyBounds {
    const all = this.#rows.all();
    const [low, high] = descending ? [endId, startId] : [startId, endId];
    const [lowIsIn, highIsIn] = [!descending || inclusiveEnd, descending || inclusiveEnd];
    const first = low === undefined ? undefined : this.#rows.rangeOf(low);
    const last = high === undefined ? undefined : this.#rows.rangeOf(high);
    const begin = lowIsIn ? first?.begin : first?.end;
    const end = highIsIn ? last?.end : last?.begin;
    return { begin: begin ?? all.begin, end: end ?? all.end };
  }

  /**
   * Reads rows. A record that this transaction has written cannot be read before the commit, so the
   * range is read in pieces around such records.
   */
  async #read(
    tx: ReadTransaction,
    { begin, end }: KeyBounds,
    { reverse, limit, withDocument }: Order,
  ): Promise<Page<IndexRow>> {
    const written = this.#written(tx, { begin, end });
    if (reverse) written.reverse();
    const rows: IndexRow[] = [];
    const readStored = (range: KeyBounds) =>
      this.#readStored(tx, range, { reverse, limit: limit - rows.length, withDocument });
    let rest: KeyBounds = { begin, end };
    for (const { id, range, document } of written) {
      const piece = reverse
        ? { begin: range.end, end: rest.end }
        : { begin: rest.begin, end: range.begin };
      const page = await readStored(piece);
      append(rows, page.entries);
      if (page.stoppedBy !== "exhausted") return { entries: rows, stoppedBy: page.stoppedBy };
      const { winner } = document.tree;
      if (winner?.leaf.deleted === false) rows.push({ id, revision: formatRevision(winner) });
      if (rows.length >= limit) return { entries: rows, stoppedBy: "row-limit" };
      rest = reverse
        ? { begin: rest.begin, end: range.begin }
        : { begin: range.end, end: rest.end };
    }
    const page = await readStored(rest);
    append(rows, page.entries);
    return { entries: rows, stoppedBy: page.stoppedBy };
  }

  /** Returns the documents in the range that this transaction has written, in key order. */
  #written(tx: ReadTransaction, { begin, end }: KeyBounds) {
    const written: { id: string; range: KeyBounds; document: LoadedDocument }[] = [];
    if (this.#rows.hasWinnerRows) return written;
    for (const [id, document] of this.#reader.written(tx) ?? []) {
      const range = this.#rows.rangeOf(id);
      const isIn = compareBytes(range.begin, begin) >= 0 && compareBytes(range.end, end) <= 0;
      if (isIn) written.push({ id, range, document });
    }
    return written.sort((left, right) => compareBytes(left.range.begin, right.range.begin));
  }

  async #readStored(
    tx: ReadTransaction,
    { begin, end }: KeyBounds,
    { reverse, limit, withDocument }: Order,
  ): Promise<Page<IndexRow>> {
    const rows: IndexRow[] = [];
    let rest: KeyBounds = { begin, end };
    for (;;) {
      const page = await tx.getRangePage(rest, {
        reverse,
        byteLimit: READ_BYTES_MAX,
        ...(Number.isFinite(limit) ? { limit: limit - rows.length } : {}),
      });
      for (const { key, value } of page.entries) {
        const leaf = withDocument ? this.#rows.leafOf(key, value) : undefined;
        const winner = leaf ?? this.#rows.winnerOf(key, value);
        if (winner === undefined) continue;
        rows.push({ id: this.#rows.idOf(key), revision: formatRevision(winner), leaf });
      }
      const last = page.entries.at(-1)?.key;
      if (page.stoppedBy === "exhausted" || last === undefined) {
        return { entries: rows, stoppedBy: "exhausted" };
      }
      if (rows.length >= limit) return { entries: rows, stoppedBy: "row-limit" };
      rest = after(rest, last, reverse);
    }
  }

  /** Returns the leading rows whose bodies fit, with their documents. */
  async #withDocuments(tx: ReadTransaction, rows: readonly IndexRow[]): Promise<DocumentRow[]> {
    const missing = rows.flatMap(({ id, leaf }) => (leaf === undefined ? [id] : []));
    const loaded = (await this.#reader.loadMany(tx, missing)).values();
    const all = rows.map(({ id, leaf }) => {
      const node = leaf ?? loaded.next().value?.tree.winner;
      assert(node !== undefined, "A document in the index must have a winner");
      return { id, node };
    });
    const count = fittingCount(
      all.map(({ node }) => [node]),
      ROWS_MIN,
    );
    const documents = await this.#reader.documents(tx, all.slice(0, count));
    return rows.slice(0, count).map(({ id, revision }, index) => {
      const document = documents[index];
      return document === undefined ? { id, revision } : { id, revision, document };
    });
  }
}

/** Returns the rest of a range after the row with the key `last`. */
function after({ begin, end }: KeyBounds, last: Key, reverse: boolean): KeyBounds {
  return reverse ? { begin, end: last } : { begin: keyAfter(last), end };
}

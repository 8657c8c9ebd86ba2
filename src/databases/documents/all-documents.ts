/** The all-docs index: documents that are not deleted, by id. */
import { assert, type Page } from "../../base/index.ts";
import {
  firstGreaterOrEqual,
  firstGreaterThan,
  type KeyRange,
  type KeyValue,
  type ReadTransaction,
  unpackText,
} from "../../kv/index.ts";
import type { Document, Revision } from "../document.ts";
import { decodeWinnerRecord } from "../records/change-record.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";
import { formatRevision } from "../revisions/revision.ts";
import type { DocumentReader } from "./document-reader.ts";

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
  readonly withDocument?: boolean;
}

export interface DocumentRow {
  readonly id: string;
  readonly revision: Revision;
  /** Present if `withDocument` was requested and the document is not hidden. */
  readonly document?: Document;
}

/** Lists documents that are not deleted, in byte order of their ids. */
export class AllDocuments {
  readonly #keys: DatabaseKeys;
  /** Offset of the id in a key. Keys of a page are not unpacked, because there are many. */
  readonly #idOffset: number;
  readonly #reader: DocumentReader;

  constructor(keys: DatabaseKeys, reader: DocumentReader) {
    this.#keys = keys;
    this.#idOffset = keys.winner.prefixKey({}).length;
    this.#reader = reader;
  }

  async page(tx: ReadTransaction, options: AllDocumentsOptions = {}): Promise<Page<DocumentRow>> {
    const { limit, skip = 0, descending = false, withDocument = false } = options;
    assert(limit === undefined || limit >= 0, "The limit must not be negative");
    assert(skip >= 0, "`skip` must not be negative");
    if (limit === 0) return { entries: [], stoppedBy: "row-limit" };
    const page = await tx.getRangePage(this.#range(options), {
      reverse: descending,
      ...(limit === undefined ? {} : { limit: limit + skip }),
    });
    const rows = page.entries.slice(skip);
    const entries = rows.map((row) => this.#row(row));
    return {
      entries: withDocument ? await this.#withDocuments(tx, entries) : entries,
      stoppedBy: page.stoppedBy,
    };
  }

  #range({
    startId,
    endId,
    inclusiveEnd = true,
    descending = false,
  }: AllDocumentsOptions): KeyRange {
    const all = this.#keys.winner.range();
    const [low, high] = descending ? [endId, startId] : [startId, endId];
    const lowIsIn = !descending || inclusiveEnd;
    const highIsIn = descending || inclusiveEnd;
    const begin = low === undefined ? all.begin : this.#keys.winner.key({ id: low });
    const end = high === undefined ? all.end : this.#keys.winner.key({ id: high });
    return {
      begin: lowIsIn || low === undefined ? begin : firstGreaterThan(begin),
      end: highIsIn && high !== undefined ? firstGreaterThan(end) : firstGreaterOrEqual(end),
    };
  }

  #row({ key, value }: KeyValue): DocumentRow {
    return {
      id: unpackText(key, this.#idOffset),
      revision: formatRevision(decodeWinnerRecord(value)),
    };
  }

  async #withDocuments(tx: ReadTransaction, rows: readonly DocumentRow[]): Promise<DocumentRow[]> {
    const ids = rows.map(({ id }) => id);
    const loaded = await this.#reader.loadMany(tx, ids);
    const winners = loaded.map(({ tree: { winner } }, index) => {
      assert(winner !== undefined, "A document in the index must have a winner");
      return { id: ids[index] as string, node: winner };
    });
    const documents = await this.#reader.documents(tx, winners);
    return rows.map((row, index) => {
      const document = documents[index];
      return document === undefined ? row : { id: row.id, revision: row.revision, document };
    });
  }
}

/**
 * The rows of documents' records. The rows of documents that are not deleted are in byte order of
 * the ids, and are therefore the all-docs index. Deleted documents have rows of another kind.
 *
 * A database created in a store of format 2 has rows of one kind for both, and winner rows as the
 * all-docs index.
 */
import {
  type Key,
  type KeyBounds,
  keyAfter,
  type ReadTransaction,
  type Transaction,
  unpackText,
  type Value,
} from "../../kv/index.ts";
import { decodeWinnerRecord, encodeWinnerRecord } from "../records/change-record.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";
import type { DatabaseRecord } from "../records/database-record.ts";
import {
  decodeDocumentRecord,
  decodeWinner,
  documentChunkCount,
  type EncodedDocumentRecord,
} from "../records/document-record.ts";
import type { RevisionParts } from "../revisions/revision.ts";
import type { LeafNode } from "../revisions/revision-tree.ts";
import type { StoredRecord } from "../transaction-state.ts";

/** The stored rows of a document's record. */
export type StoredRows = Pick<StoredRecord, "deleted" | "chunkCount">;

export class DocumentRows {
  readonly #keys: DatabaseKeys;
  readonly hasWinnerRows: boolean;
  /** Length of the keys of the all-docs index without their ids. */
  readonly #idOffset: number;

  constructor(keys: DatabaseKeys, { hasWinnerRows }: Pick<DatabaseRecord, "hasWinnerRows">) {
    this.#keys = keys;
    this.hasWinnerRows = hasWinnerRows;
    this.#idOffset = (hasWinnerRows ? keys.winner : keys.document).prefixKey({}).length;
  }

  /** Returns the key of a chunk of a document's record. */
  key(id: string, chunk: number, deleted: boolean): Key {
    const rows = deleted && !this.hasWinnerRows ? this.#keys.tombstone : this.#keys.document;
    return rows.key({ id, chunk });
  }

  /** Reads chunk 0 of several records concurrently, in the order of the ids. */
  async firstChunks(tx: ReadTransaction, ids: readonly string[]): Promise<(Value | undefined)[]> {
    const values = await tx.getMany(ids.map((id) => this.key(id, 0, false)));
    if (this.hasWinnerRows || !values.includes(undefined)) return values;
    const absent = [...values.keys()].filter((at) => values[at] === undefined);
    const tombstones = await tx.getMany(absent.map((at) => this.key(ids[at] as string, 0, true)));
    for (const [index, at] of absent.entries()) values[at] = tombstones[index];
    return values;
  }

  /** Writes the record of a document with the winner `winner`, in place of the stored record. */
  write(
    tx: Transaction,
    id: string,
    { record, winner }: { readonly record: EncodedDocumentRecord; readonly winner: LeafNode },
    stored: StoredRecord,
  ): void {
    const { deleted } = winner.leaf;
    const isSameKind = this.hasWinnerRows || stored.deleted === deleted;
    this.#clear(tx, id, stored, isSameKind ? record.chunkCount : 0);
    tx.setVersionstampedValue(this.key(id, 0, deleted), record.first);
    for (const [index, bytes] of record.more.entries()) {
      tx.set(this.key(id, index + 1, deleted), bytes);
    }
    if (!this.hasWinnerRows) return;
    if (!deleted && winner !== stored.winner) {
      tx.set(this.#keys.winner.key({ id }), encodeWinnerRecord(winner));
    }
    if (deleted && stored.deleted === false) tx.clear(this.#keys.winner.key({ id }));
  }

  remove(tx: Transaction, id: string, stored: StoredRows): void {
    this.#clear(tx, id, stored, 0);
    if (this.hasWinnerRows && stored.deleted === false) tx.clear(this.#keys.winner.key({ id }));
  }

  #clear(tx: Transaction, id: string, { deleted, chunkCount }: StoredRows, from: number): void {
    for (let chunk = from; chunk < chunkCount; chunk++) {
      tx.clear(this.key(id, chunk, deleted === true));
    }
  }

  /** Returns the range of the all-docs index. */
  all(): KeyBounds {
    return (this.hasWinnerRows ? this.#keys.winner : this.#keys.document).range();
  }

  /** Returns the range of a document's rows in the all-docs index. */
  rangeOf(id: string): KeyBounds {
    if (!this.hasWinnerRows) {
      const { end } = this.#keys.document.range({ id });
      return { begin: this.#keys.document.prefixKey({ id }), end };
    }
    const key = this.#keys.winner.key({ id });
    return { begin: key, end: keyAfter(key) };
  }

  /** Returns the id in a key of the all-docs index. Fast, because there are many such keys. */
  idOf(key: Key): string {
    return unpackText(key, this.#idOffset);
  }

  /**
   * Returns the winner with its leaf, if a row of the all-docs index contains the whole record;
   * otherwise undefined.
   */
  leafOf(key: Key, value: Value): LeafNode | undefined {
    if (this.hasWinnerRows || !isChunk0(key) || documentChunkCount(value) > 1) return undefined;
    return decodeDocumentRecord([value]).tree.winner;
  }

  /** Returns the winner in a row of the all-docs index; undefined for chunks after chunk 0. */
  winnerOf(key: Key, value: Value): RevisionParts | undefined {
    if (this.hasWinnerRows) return decodeWinnerRecord(value);
    return isChunk0(key) ? decodeWinner(value) : undefined;
  }
}

/** Whether the key ends with the terminator of the id and a packed 0 (`tuple.ts`). */
function isChunk0(key: Key): boolean {
  return key.at(-1) === 0x14 && key.at(-2) === 0x00;
}

/**
 * Writes that a transaction has made in one database and cannot read back. A record with a
 * versionstamp is unreadable until the commit, so a second write of the same document in the
 * transaction finds the document here.
 *
 * The states are keyed by the transaction object. Each attempt has its own object, so a retry
 * starts empty.
 */
import type { ReadTransaction, Versionstamp } from "../kv/index.ts";
import type { DatabaseRecord } from "./records/database-record.ts";
import type { LeafNode, RevisionTree } from "./revisions/revision-tree.ts";

/** Position of a document in the update sequence. */
export type Place =
  | { readonly kind: "none" }
  | { readonly kind: "stored"; readonly versionstamp: Versionstamp }
  /** Written by this transaction. A later write reuses the position. */
  | { readonly kind: "written"; readonly userVersion: number };

export interface LoadedDocument {
  readonly tree: RevisionTree;
  place: Place;
  chunkCount: number;
  /**
   * Whether the store has format 3 or a later one. Determined only for documents to be written;
   * otherwise false.
   */
  isFormat3: boolean;
  /** Row of the document's conflict; loaded only for documents to be written. */
  conflictRow: "absent" | "stored";
  /**
   * Number of times that this transaction has written the document. An edit that was judged before
   * a write must be judged again after it.
   */
  writeCount: number;
}

/** The rows of a document's record before this transaction changes them, and their winner. */
export interface StoredRecord {
  readonly deleted: boolean | undefined;
  readonly chunkCount: number;
  readonly winner: LeafNode | undefined;
}

/** This transaction's partial count of changes (`change-counts.ts`). */
export interface Share {
  readonly userVersion: number;
  changeCount: number;
  isBoundary: boolean;
  /**
   * Whether the partial count has been written. If so, the transaction can no longer read records
   * near the end of the sequence.
   */
  isWritten: boolean;
  readonly swept: Promise<void>;
  /** The latest boundaries of the update sequence, newest first; read on first use. */
  recent: Promise<readonly Versionstamp[]> | undefined;
}

export interface TransactionState {
  /** The database record, including changes that this transaction has made to it. */
  database: DatabaseRecord;
  readonly written: Map<string, LoadedDocument>;
  /**
   * Documents in `written` whose records must still be written, by id (`DocumentIndexes.flush`).
   */
  readonly moved: Map<string, StoredRecord>;
  /**
   * Ids of the contents that written attachments refer to, keyed by digest, encoding and length.
   */
  readonly contents: Map<string, string>;
  /** Number of keys cleared for replaced leaves whose bodies are not kept. */
  droppedKeyCount: number;
  /** Partial count of changes (`change-counts.ts`). */
  share: Share | undefined;
}

/**
 * Throws STORE_DATABASE_NOT_FOUND if the database was removed. A concurrent removal conflicts with
 * the transaction.
 */
export type AssertExists = (tx: ReadTransaction) => Promise<unknown>;

const states = new WeakMap<ReadTransaction, Map<string, TransactionState>>();

export function stateOf(tx: ReadTransaction, uuid: string): TransactionState | undefined {
  return states.get(tx)?.get(uuid);
}

export function openState(tx: ReadTransaction, database: DatabaseRecord): TransactionState {
  let ofTransaction = states.get(tx);
  if (ofTransaction === undefined) {
    ofTransaction = new Map();
    states.set(tx, ofTransaction);
    states.set(tx.snapshot, ofTransaction);
  }
  const known = ofTransaction.get(database.uuid);
  if (known !== undefined) return known;
  const state: TransactionState = {
    database,
    written: new Map(),
    moved: new Map(),
    contents: new Map(),
    droppedKeyCount: 0,
    share: undefined,
  };
  ofTransaction.set(database.uuid, state);
  return state;
}

export function forgetState(tx: ReadTransaction, uuid: string): void {
  states.get(tx)?.delete(uuid);
}

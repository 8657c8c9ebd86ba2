/**
 * Updates the records derived from a document's tree when the tree changes: the tree's own record,
 * the document's position at the end of the update sequence, the list of conflicts, and the
 * database's counters. A document without leaves has no such records.
 */
import { assert, type Clock, Yielder } from "../../base/index.ts";
import type { Key, Transaction } from "../../kv/index.ts";
import type { ChangeCounts } from "../counters/change-counts.ts";
import type { CounterDeltas } from "../counters/counter-deltas.ts";
import { type ChangedLeaf, encodeChangeRecord } from "../records/change-record.ts";
import { encodeNewVersionstamp } from "../records/counter-record.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";
import { encodeDocumentRecord } from "../records/document-record.ts";
import type { LeafNode, LeafState, RevisionTree } from "../revisions/revision-tree.ts";
import type { LoadedDocument, StoredRecord, TransactionState } from "../transaction-state.ts";
import type { Conflicts } from "./conflicts.ts";
import type { DocumentRows } from "./document-rows.ts";

/**
 * Context of a change: the counters that it affects, the job that writes it, and how long replaced
 * bodies stay readable.
 */
export interface Counting {
  readonly deltas: CounterDeltas;
  /** The replication job that writes the change. */
  readonly jobId: string | undefined;
  /** Time until which the bodies of replaced leaves must stay readable. */
  readonly keepUntilMs?: number | undefined;
  /** Partial count that includes the document's stored change. */
  readonly left: Key | undefined;
}

/** Leaves and winner of a tree, recorded before the tree is changed in place. */
export interface TreeBefore {
  readonly leaves: ReadonlyMap<LeafNode, LeafState>;
  readonly winner: LeafNode | undefined;
  /** Whether the document (its winner) was deleted; undefined if the document did not exist. */
  readonly wasDeleted: boolean | undefined;
}

const NO_TREE: TreeBefore = { leaves: new Map(), winner: undefined, wasDeleted: undefined };

export function treeBefore({ leaves, winner }: RevisionTree): TreeBefore {
  if (winner === undefined) return NO_TREE;
  return {
    leaves: new Map(leaves.map((leaf) => [leaf, leaf.leaf])),
    winner,
    wasDeleted: winner.leaf.deleted,
  };
}

interface ChangedDocument {
  readonly id: string;
  readonly loaded: LoadedDocument;
  readonly before: TreeBefore;
}

export class DocumentIndexes {
  readonly #clock: Clock;
  readonly #keys: DatabaseKeys;
  readonly #rows: DocumentRows;
  readonly #counts: ChangeCounts;
  readonly #conflicts: Conflicts;

  constructor(
    clock: Clock,
    keys: DatabaseKeys,
    parts: {
      readonly rows: DocumentRows;
      readonly counts: ChangeCounts;
      readonly conflicts: Conflicts;
    },
  ) {
    this.#clock = clock;
    this.#keys = keys;
    this.#rows = parts.rows;
    this.#counts = parts.counts;
    this.#conflicts = parts.conflicts;
  }

  /**
   * Updates the records derived from the document's tree. `flush` must be called later in the
   * transaction. Synchronous, like every other step of carrying out an edit.
   */
  update(
    tx: Transaction,
    state: TransactionState,
    { id, loaded, before }: ChangedDocument,
    counting: Counting,
  ): void {
    const { tree, chunkCount } = loaded;
    const { winner } = tree;
    const stored = { deleted: before.wasDeleted, winner: before.winner, chunkCount };
    if (winner === undefined) this.#leave(tx, id, loaded, { stored, counting });
    else this.#move(tx, state, { id, loaded, stored, counting });
    this.#conflicts.update(tx, { id, loaded, before: before.leaves }, counting);
    count(counting.deltas, tree, before);
  }

  /** Fires the watches of the changes feed even if no document moves in the update sequence. */
  announce(tx: Transaction, state: TransactionState): void {
    if (state.written.size > 0) return;
    const value = encodeNewVersionstamp(tx.nextUserVersion());
    tx.setVersionstampedValue(this.#keys.changed.key({}), value);
  }

  /** Moves the document to the end of the update sequence. */
  #move(tx: Transaction, state: TransactionState, { id, loaded, stored, counting }: Move): void {
    const { place } = loaded;
    const { deltas, left } = counting;
    const userVersion = place.kind === "written" ? place.userVersion : tx.nextUserVersion();
    if (place.kind !== "written") this.#counts.enter(state);
    if (place.kind === "stored") {
      tx.clear(this.#keys.change.key({ versionstamp: place.versionstamp }));
      this.#counts.leave(left, deltas);
    }
    if (state.written.size === 0) {
      tx.setVersionstampedValue(this.#keys.changed.key({}), encodeNewVersionstamp(userVersion));
    }
    loaded.place = { kind: "written", userVersion };
    loaded.writeCount++;
    state.written.set(id, loaded);
    if (!state.moved.has(id)) state.moved.set(id, stored);
  }

  /**
   * Writes the trees and changes of the documents that `update` has moved. This happens once per
   * batch, because the tree of a document with many conflicts takes milliseconds to encode, and a
   * batch can contain all its leaves.
   */
  async flush(tx: Transaction, state: TransactionState): Promise<void> {
    const yielder = new Yielder(this.#clock);
    for (const id of state.moved.keys()) {
      if (yielder.isDue) await yielder.yield();
      const stored = state.moved.get(id);
      // During the yield, another batch of this transaction can have flushed the document.
      if (stored === undefined) continue;
      state.moved.delete(id);
      const loaded = state.written.get(id) as LoadedDocument;
      const { tree, place } = loaded;
      const winner = tree.winner as LeafNode;
      assert(place.kind === "written", "A moved document must have a position in the transaction");
      const change = encodeChangeRecord(id, tree.leaves.map(changedLeaf));
      tx.setVersionstampedKey(this.#keys.change.newKey({}, place.userVersion), change);
      const record = encodeDocumentRecord(tree, place.userVersion);
      this.#rows.write(tx, id, { record, winner }, stored);
      loaded.chunkCount = record.chunkCount;
    }
  }

  /** Removes a document from the update sequence, and its tree from the store. */
  #leave(
    tx: Transaction,
    id: string,
    { place }: LoadedDocument,
    { stored, counting }: Pick<Move, "stored" | "counting">,
  ): void {
    const { left, deltas } = counting;
    assert(
      place.kind === "stored",
      "A document must not be removed in the transaction that wrote it",
    );
    tx.clear(this.#keys.change.key({ versionstamp: place.versionstamp }));
    this.#counts.leave(left, deltas);
    this.#rows.remove(tx, id, stored);
  }
}

interface Move {
  readonly id: string;
  readonly loaded: LoadedDocument;
  readonly stored: StoredRecord;
  readonly counting: Counting;
}

/** Updates the database's counters of documents and bytes. */
function count(deltas: CounterDeltas, tree: RevisionTree, before: TreeBefore): void {
  const isDeleted = tree.winner?.leaf.deleted;
  deltas.add("documents", alive(isDeleted) - alive(before.wasDeleted));
  deltas.add("deletedDocuments", dead(isDeleted) - dead(before.wasDeleted));
  for (const leaf of tree.leaves) if (!before.leaves.has(leaf)) addBytes(deltas, leaf.leaf, 1);
  if (before.leaves.size === 0) return;
  const after = new Set(tree.leaves);
  for (const [leaf, state] of before.leaves) if (!after.has(leaf)) addBytes(deltas, state, -1);
}

function addBytes(deltas: CounterDeltas, leaf: LeafState, sign: 1 | -1): void {
  deltas.add("externalBytes", sign * (leaf.bodyBytes + leaf.attachmentBytes));
  deltas.add("activeBytes", sign * (leaf.bodyBytes + leaf.attachmentEncodedBytes));
}

function changedLeaf({ generation, hash, leaf }: LeafNode): ChangedLeaf {
  return { generation, hash, deleted: leaf.deleted };
}

/** Returns 1 for an existing document, 0 for a deleted or unknown one. */
function alive(deleted: boolean | undefined): number {
  return deleted === false ? 1 : 0;
}

function dead(deleted: boolean | undefined): number {
  return deleted === true ? 1 : 0;
}

/**
 * Bodies of superseded revisions. Body, attachment list and references stay in their keys. A body
 * in the document record moves to its key. An additional row, ordered by time, records when the
 * revision was superseded. A sweep clears old bodies.
 *
 * CouchDB keeps such bodies until compaction, and applications read them with `?rev=`. The body of
 * a deletion is not kept. A sealed body is not kept either, because a replaced credential must not
 * stay readable.
 */
import type { Runtime } from "../../base/index.ts";
import type { KeyValue, ReadTransaction, Transaction } from "../../kv/index.ts";
import type { Attachment } from "../document.ts";
import { CHUNK_BYTES } from "../records/chunks.ts";
import {
  contentElement,
  counterElement,
  type DatabaseKeys,
  leafElements,
  leafKey,
  leafRevision,
} from "../records/database-keys.ts";
import { decodeOldBody, encodeOldBody } from "../records/old-body-record.ts";
import { formatRevision, type RevisionParts } from "../revisions/revision.ts";
import type { LeafState, RevisionNode, RevisionTree } from "../revisions/revision-tree.ts";
import type { AssertExists } from "../transaction-state.ts";
import type { Counting } from "./document-indexes.ts";
import type { DocumentReader } from "./document-reader.ts";

/** Number of documents whose trees one transaction of a sweep reads. */
const SWEEP_PAGE_ROWS = 50;
/**
 * Maximum number of keys cleared per transaction, because the transaction blocks all other writers.
 * A body can have a hundred keys.
 */
const CLEARED_CHUNKS_MAX = 500;

/** Number of body keys that a transaction is still allowed to clear. */
export class ClearBudget {
  #left = CLEARED_CHUNKS_MAX;
  #isSpent = false;

  /** Whether a body has exceeded the budget. */
  get isSpent(): boolean {
    return this.#isSpent;
  }

  /**
   * Deducts the keys of one body from the budget and returns true, or returns false if they exceed
   * the budget. Then it returns false for every following body, too. The first body always fits.
   */
  take(keyCount: number): boolean {
    const isFirst = this.#left === CLEARED_CHUNKS_MAX;
    this.#isSpent ||= keyCount > this.#left && !isFirst;
    if (!this.#isSpent) this.#left -= keyCount;
    return !this.#isSpent;
  }
}

/** Returns how long bodies are kept, in milliseconds, or 0 to keep none. Called on each write. */
export type KeepOldBodies = () => number;

export interface SweptOldBodies {
  readonly bodyCount: number;
  /** Whether the sweep is complete: no bodies superseded before `beforeMs` remain. */
  readonly isLast: boolean;
}

/** A leaf that a write replaces. */
export interface SupersededLeaf {
  readonly revision: RevisionParts;
  readonly leaf: LeafState;
  readonly attachments: readonly Attachment[];
  /** Attachments of the revision that replaces the leaf. */
  readonly nextAttachments: readonly Attachment[];
  /** Whether the store has format 3 or a later one. */
  readonly isFormat3: boolean;
}

interface OldBodiesParts {
  readonly keys: DatabaseKeys;
  readonly reader: DocumentReader;
  readonly keepMs: KeepOldBodies;
  readonly assertExists: AssertExists;
}

export class OldBodies {
  readonly #runtime: Runtime;
  readonly #keys: DatabaseKeys;
  readonly #reader: DocumentReader;
  readonly #keepMs: KeepOldBodies;
  readonly #assertExists: AssertExists;

  constructor(runtime: Runtime, { keys, reader, keepMs, assertExists }: OldBodiesParts) {
    this.#runtime = runtime;
    this.#keys = keys;
    this.#reader = reader;
    this.#keepMs = keepMs;
    this.#assertExists = assertExists;
  }

  /**
   * Keeps the records of a superseded leaf at least until `keepUntilMs`, even if the database is
   * compacted. Returns false if they are not kept; the caller then clears them.
   */
  keep(
    tx: Transaction,
    id: string,
    { revision, leaf, attachments, nextAttachments, isFormat3 }: SupersededLeaf,
    { deltas, keepUntilMs }: Pick<Counting, "deltas" | "keepUntilMs">,
  ): boolean {
    if (leaf.deleted || (keepUntilMs === undefined && this.#keepMs() === 0)) return false;
    const bodyChunkCount = Math.max(leaf.bodyChunkCount, 1);
    const bytes = isFormat3 ? leaf.bodyBytes + bytesLeft(attachments, nextAttachments) : undefined;
    const record = encodeOldBody({ ...leaf, bodyChunkCount, attachments, bytes });
    // A list that exceeds a chunk is not kept. Only lists of thousands of attachments are so long.
    if (record.length > CHUNK_BYTES) return false;
    if (bytes !== undefined) deltas.add("supersededBytes", bytes);
    if (leaf.inlineBody !== undefined) {
      tx.set(leafKey(this.#keys.body, id, revision, 0), leaf.inlineBody);
    }
    tx.set(
      this.#keys.oldBody.key({
        sinceMs: Math.floor(keepUntilMs ?? this.#runtime.clock.nowMs()),
        ...leafElements(id, revision),
      }),
      record,
    );
    return true;
  }

  /**
   * Clears the bodies of ancestors that were removed with a purged leaf. Otherwise these bodies
   * would be readable again if the history is replicated again. A sweep clears bodies beyond the
   * budget.
   */
  async forget(
    tx: Transaction,
    id: string,
    ancestors: readonly RevisionNode[],
    budget: ClearBudget,
  ): Promise<void> {
    const gone = new Set(ancestors.map(formatRevision));
    if (gone.size === 0) return;
    for await (const { revision, chunkCount } of this.#reader.storedBodies(tx, id)) {
      if (!gone.has(formatRevision(revision))) continue;
      if (!budget.take(chunkCount + 1)) return;
      tx.clearRange(this.#keys.body.range(leafElements(id, revision)));
      tx.clearRange(this.#keys.attachments.range(leafElements(id, revision)));
    }
  }

  /** Whether there are bodies superseded before `beforeMs`. */
  async areThere(tx: ReadTransaction, beforeMs: number): Promise<boolean> {
    const page = await tx.getRangePage(this.#keys.oldBody.rangeBefore({ sinceMs: beforeMs }), {
      limit: 1,
    });
    return page.entries.length > 0;
  }

  /**
   * Clears one page of bodies superseded before `beforeMs`, oldest first. Called repeatedly, until
   * the last page.
   */
  async sweep(tx: Transaction, beforeMs: number): Promise<SweptOldBodies> {
    await this.#assertExists(tx);
    const page = await tx.getRangePage(this.#keys.oldBody.rangeBefore({ sinceMs: beforeMs }), {
      limit: SWEEP_PAGE_ROWS,
    });
    const budget = new ClearBudget();
    const firstKept = page.entries.findIndex(({ value }) => !budget.take(keyCountOf(value)));
    const cleared = firstKept < 0 ? page.entries : page.entries.slice(0, firstKept);
    const ids = cleared.map(({ key }) => this.#keys.oldBody.unpack(key).id);
    const loaded = await this.#reader.loadMany(tx, ids);
    let bytes = 0;
    for (const [index, entry] of cleared.entries()) {
      bytes += await this.#clear(tx, entry, loaded[index]?.tree);
    }
    const counter = this.#keys.counter.key(counterElement("supersededBytes"));
    if (bytes > 0) tx.add(counter, BigInt(-bytes));
    const isLast = firstKept < 0 && page.stoppedBy === "exhausted";
    return { bodyCount: cleared.length, isLast };
  }

  /** Clears a body. Returns its number of bytes in the counter of superseded bytes. */
  async #clear(
    tx: Transaction,
    { key, value }: KeyValue,
    tree: RevisionTree | undefined,
  ): Promise<number> {
    const keys = this.#keys;
    const elements = keys.oldBody.unpack(key);
    const { id } = elements;
    const revision = leafRevision(elements);
    const { bodyChunkCount, attachmentChunkCount, attachments, bytes = 0 } = decodeOldBody(value);
    // A purged revision can have become a leaf again. Then the leaf uses some of these rows.
    const leaf = tree?.findLeaf(revision);
    const kept = leaf === undefined ? [] : await this.#reader.attachments(tx, id, leaf);
    tx.clear(key);
    for (let chunk = leaf?.leaf.bodyChunkCount ?? 0; chunk < bodyChunkCount; chunk++) {
      tx.clear(leafKey(keys.body, id, revision, chunk));
    }
    for (let chunk = leaf?.leaf.attachmentChunkCount ?? 0; chunk < attachmentChunkCount; chunk++) {
      tx.clear(leafKey(keys.attachments, id, revision, chunk));
    }
    const nowMs = this.#runtime.clock.nowMs();
    for (const { contentId, name } of attachments) {
      if (kept.some((other) => other.contentId === contentId && other.name === name)) continue;
      tx.clear(
        keys.reference.key({ ...contentElement(contentId), ...leafElements(id, revision), name }),
      );
      tx.set(keys.unreferenced.key({ sinceMs: nowMs, ...contentElement(contentId) }), NOTHING);
    }
    return bytes;
  }
}

/** Returns the stored size of the attachments that are not among the next ones. */
function bytesLeft(attachments: readonly Attachment[], next: readonly Attachment[]): number {
  const kept = new Set(next.map(({ contentId }) => contentId));
  let bytes = 0;
  for (const { contentId, encodedLength } of attachments) {
    if (!kept.has(contentId)) bytes += encodedLength;
  }
  return bytes;
}

const NOTHING = new Uint8Array(0);

function keyCountOf(oldBody: Uint8Array): number {
  const { bodyChunkCount, attachmentChunkCount, attachments } = decodeOldBody(oldBody);
  return bodyChunkCount + attachmentChunkCount + attachments.length;
}

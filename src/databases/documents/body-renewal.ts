/**
 * Rewrites bodies that are not sealed, or are sealed with an outdated key. Revisions, sequences and
 * counters do not change.
 */
import { assert } from "../../base/index.ts";
import type { Transaction, Versionstamp } from "../../kv/index.ts";
import { decodeAuthoredBody, encodeBody, isCurrentBody } from "../records/body-record.ts";
import type { BodySealOf } from "../records/body-seals.ts";
import { CHUNK_BYTES } from "../records/chunks.ts";
import { type DatabaseKeys, leafKey } from "../records/database-keys.ts";
import { encodePlacedDocumentRecord } from "../records/document-record.ts";
import type { LeafNode, RevisionTree } from "../revisions/revision-tree.ts";
import type { AssertExists } from "../transaction-state.ts";
import type { DocumentReader } from "./document-reader.ts";
import type { DocumentRows } from "./document-rows.ts";

/**
 * Maximum total size of the bodies that one transaction reads and writes. A document can have a
 * thousand leaves, and a transaction of FoundationDB is limited to 10 MB and 5 s.
 */
const RENEWED_BYTES_MAX = 2_000_000;

export interface RenewedBodies {
  readonly renewedCount: number;
  /** Index of the leaf at which the next transaction continues; undefined after the last. */
  readonly nextLeaf: number | undefined;
}

interface BodyRenewalParts {
  readonly keys: DatabaseKeys;
  readonly rows: DocumentRows;
  readonly reader: DocumentReader;
  readonly sealOf: BodySealOf;
  readonly assertExists: AssertExists;
}

export class BodyRenewal {
  readonly #keys: DatabaseKeys;
  readonly #rows: DocumentRows;
  readonly #reader: DocumentReader;
  readonly #sealOf: BodySealOf;
  readonly #assertExists: AssertExists;

  constructor({ keys, rows, reader, sealOf, assertExists }: BodyRenewalParts) {
    this.#keys = keys;
    this.#rows = rows;
    this.#reader = reader;
    this.#sealOf = sealOf;
    this.#assertExists = assertExists;
  }

  /**
   * Rewrites bodies starting at leaf `firstLeaf`, as many as fit into one transaction. Invisible to
   * readers. Must not be called for a document written by this transaction. Leaves that are added
   * concurrently can change the indexes of other leaves. A caller that needs every body renewed
   * therefore has to check all bodies again.
   */
  async renew(tx: Transaction, id: string, firstLeaf: number): Promise<RenewedBodies> {
    await this.#assertExists(tx);
    const { tree, place, chunkCount } = await this.#reader.load(tx, id);
    if (tree.isEmpty) return { renewedCount: 0, nextLeaf: undefined };
    assert(
      place.kind === "stored",
      "Bodies must not be renewed in the transaction that wrote the document",
    );
    let renewedCount = 0;
    let isLonger = false;
    let leafNumber = firstLeaf;
    for (let bytesLeft = RENEWED_BYTES_MAX; bytesLeft > 0; leafNumber++) {
      const leaf = tree.leaves[leafNumber];
      if (leaf === undefined) break;
      bytesLeft -= leaf.leaf.bodyChunkCount * CHUNK_BYTES;
      const bodyChunkCount = await this.#renewLeaf(tx, id, leaf);
      if (bodyChunkCount === undefined) continue;
      renewedCount++;
      if (bodyChunkCount === leaf.leaf.bodyChunkCount) continue;
      tree.setBodyChunkCount(leaf, bodyChunkCount);
      isLonger = true;
    }
    if (isLonger) this.#rewriteTree(tx, id, { tree, chunkCount, versionstamp: place.versionstamp });
    const isLast = leafNumber >= tree.leaves.length;
    return { renewedCount, nextLeaf: isLast ? undefined : leafNumber };
  }

  /**
   * Seals the leaf's body again if necessary. Returns its new number of chunks, or `undefined` if
   * the body was not rewritten.
   */
  async #renewLeaf(tx: Transaction, id: string, leaf: LeafNode): Promise<number | undefined> {
    const sealed = this.#sealOf(id, leaf);
    if (sealed === undefined) return undefined;
    const stored = await this.#reader.bodyChunks(tx, id, leaf);
    if (isCurrentBody(stored, sealed)) return undefined;
    const { text, authority } = decodeAuthoredBody(stored, sealed);
    const chunks = encodeBody(text.bytes, sealed, authority);
    for (const [chunk, bytes] of chunks.entries())
      tx.set(leafKey(this.#keys.body, id, leaf, chunk), bytes);
    for (let chunk = chunks.length; chunk < leaf.leaf.bodyChunkCount; chunk++) {
      tx.clear(leafKey(this.#keys.body, id, leaf, chunk));
    }
    return chunks.length;
  }

  #rewriteTree(
    tx: Transaction,
    id: string,
    {
      tree,
      chunkCount,
      versionstamp,
    }: { tree: RevisionTree; chunkCount: number; versionstamp: Versionstamp },
  ): void {
    const chunks = encodePlacedDocumentRecord(tree, versionstamp);
    const deleted = tree.winner?.leaf.deleted === true;
    for (const [chunk, bytes] of chunks.entries())
      tx.set(this.#rows.key(id, chunk, deleted), bytes);
    for (let chunk = chunks.length; chunk < chunkCount; chunk++) {
      tx.clear(this.#rows.key(id, chunk, deleted));
    }
  }
}

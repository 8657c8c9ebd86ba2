/**
 * Stores bodies again that are not sealed, or sealed with another key than the one that seals now. Revisions, sequences and counters
 * stay as they are.
 */
import { assert } from "../../base/index.ts";
import type { Transaction, Versionstamp } from "../../kv/index.ts";
import { decodeBody, encodeBody, isCurrentBody } from "../records/body-record.ts";
import type { BodySealOf } from "../records/body-seals.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";
import { encodePlacedDocumentRecord } from "../records/document-record.ts";
import type { LeafNode, RevisionTree } from "../revisions/revision-tree.ts";
import type { DocumentReader } from "./document-reader.ts";

export class BodyRenewal {
  readonly #keys: DatabaseKeys;
  readonly #reader: DocumentReader;
  readonly #sealOf: BodySealOf;

  constructor(keys: DatabaseKeys, reader: DocumentReader, sealOf: BodySealOf) {
    this.#keys = keys;
    this.#reader = reader;
    this.#sealOf = sealOf;
  }

  /** Renews the bodies of all leaves; how many needed it. Not for a document that this transaction wrote. */
  async renew(tx: Transaction, id: string): Promise<number> {
    const { tree, place, chunkCount } = await this.#reader.load(tx, id);
    if (tree.isEmpty) return 0;
    assert(place.kind === "stored", "The bodies of a stored document are renewed");
    let renewedCount = 0;
    let isLonger = false;
    for (const leaf of tree.leaves) {
      const bodyChunkCount = await this.#renewLeaf(tx, id, leaf);
      if (bodyChunkCount === undefined) continue;
      renewedCount++;
      if (bodyChunkCount === leaf.leaf.bodyChunkCount) continue;
      tree.setBodyChunkCount(leaf, bodyChunkCount);
      isLonger = true;
    }
    if (isLonger) this.#rewriteTree(tx, id, { tree, chunkCount, versionstamp: place.versionstamp });
    return renewedCount;
  }

  /** The number of chunks that the body has now; undefined when it stays as it was. */
  async #renewLeaf(tx: Transaction, id: string, leaf: LeafNode): Promise<number | undefined> {
    const sealed = this.#sealOf(id, leaf);
    if (sealed === undefined) return undefined;
    const stored = await this.#reader.bodyChunks(tx, id, leaf);
    if (isCurrentBody(stored, sealed)) return undefined;
    const chunks = encodeBody(decodeBody(stored, sealed), sealed);
    for (const [chunk, bytes] of chunks.entries()) tx.set(this.#keys.body(id, leaf, chunk), bytes);
    for (let chunk = chunks.length; chunk < stored.length; chunk++) {
      tx.clear(this.#keys.body(id, leaf, chunk));
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
    for (const [chunk, bytes] of chunks.entries()) tx.set(this.#keys.document(id, chunk), bytes);
    for (let chunk = chunks.length; chunk < chunkCount; chunk++) {
      tx.clear(this.#keys.document(id, chunk));
    }
  }
}

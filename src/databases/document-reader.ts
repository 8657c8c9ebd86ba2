/** Reading one document's records: the tree, and what hangs on its leaves. */
import { assert, type JsonText } from "../base/index.ts";
import type { Key, ReadTransaction, Value } from "../kv/index.ts";
import { decodeAttachmentList, decodeBody } from "./body-record.ts";
import type { DatabaseKeys } from "./database-keys.ts";
import type { Attachment, Document } from "./document.ts";
import { decodeDocumentRecord, documentChunkCount } from "./document-record.ts";
import { isDocumentId } from "./names.ts";
import { formatRevision } from "./revision.ts";
import { type LeafNode, pathOf, RevisionTree } from "./revision-tree.ts";
import { type LoadedDocument, type Place, stateOf } from "./transaction-state.ts";

/** What is shown of a document; undefined when it is hidden. */
export type ReadRule = (document: Document) => Document | undefined;

export class DocumentReader {
  readonly #keys: DatabaseKeys;
  readonly #uuid: string;
  readonly #readRule: ReadRule | undefined;

  /** Without a rule, everything is shown. */
  constructor(keys: DatabaseKeys, uuid: string, readRule?: ReadRule) {
    this.#keys = keys;
    this.#uuid = uuid;
    this.#readRule = readRule;
  }

  /** The document as this transaction sees it; an empty tree for one that was never there. */
  async load(tx: ReadTransaction, id: string): Promise<LoadedDocument> {
    const written = stateOf(tx, this.#uuid)?.written.get(id);
    if (written !== undefined) return written;
    const first = isDocumentId(id) ? await tx.get(this.#keys.document(id, 0)) : undefined;
    if (first === undefined) {
      return { tree: new RevisionTree(), place: NO_PLACE, chunkCount: 0, writeCount: 0 };
    }
    const storedCount = documentChunkCount(first);
    const keyOf = (chunk: number): Key => this.#keys.document(id, chunk);
    const chunks = storedCount === 1 ? [first] : await readRest(tx, first, storedCount, keyOf);
    const { tree, versionstamp, chunkCount } = decodeDocumentRecord(chunks);
    return { tree, place: { kind: "stored", versionstamp }, chunkCount, writeCount: 0 };
  }

  /** As the reader may see it; undefined when it is hidden. */
  async document(tx: ReadTransaction, id: string, node: LeafNode): Promise<Document | undefined> {
    const document = await this.#document(tx, id, node);
    return this.#readRule === undefined ? document : this.#readRule(document);
  }

  async #document(tx: ReadTransaction, id: string, node: LeafNode): Promise<Document> {
    const [body, attachments] =
      node.leaf.attachmentChunkCount === 0
        ? [await this.#body(tx, id, node), []]
        : await Promise.all([this.#body(tx, id, node), this.attachments(tx, id, node)]);
    return {
      id,
      revision: formatRevision(node),
      deleted: node.leaf.deleted,
      body,
      revisions: pathOf(node),
      attachments,
    };
  }

  async attachments(tx: ReadTransaction, id: string, node: LeafNode): Promise<Attachment[]> {
    const chunkCount = node.leaf.attachmentChunkCount;
    if (chunkCount === 0) return [];
    const keyOf = (chunk: number): Key => this.#keys.attachments(id, node, chunk);
    return decodeAttachmentList(await readChunks(tx, chunkCount, keyOf));
  }

  async #body(tx: ReadTransaction, id: string, node: LeafNode): Promise<JsonText> {
    const keyOf = (chunk: number): Key => this.#keys.body(id, node, chunk);
    return decodeBody(await readChunks(tx, node.leaf.bodyChunkCount, keyOf));
  }
}

const NO_PLACE: Place = { kind: "none" };

/** The chunks of a value, whose first one was read to learn their number. */
export async function readRest(
  tx: ReadTransaction,
  first: Value,
  chunkCount: number,
  keyOf: (chunk: number) => Key,
): Promise<Value[]> {
  if (chunkCount === 1) return [first];
  const rest = await readChunks(tx, chunkCount - 1, (chunk) => keyOf(chunk + 1));
  return [first, ...rest];
}

async function readChunks(
  tx: ReadTransaction,
  chunkCount: number,
  keyOf: (chunk: number) => Key,
): Promise<Value[]> {
  const values =
    chunkCount === 1
      ? [await tx.get(keyOf(0))]
      : await Promise.all(Array.from({ length: chunkCount }, (_, chunk) => tx.get(keyOf(chunk))));
  return values.map((value) => {
    assert(value !== undefined, "Every chunk of a stored value is there");
    return value;
  });
}

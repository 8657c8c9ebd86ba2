/** Reads a document's records: the tree, and the records of its leaves. */
import { assert, type Clock, Yielder } from "../../base/index.ts";
import {
  firstGreaterOrEqual,
  type Key,
  type KeyRange,
  keyText,
  type ReadTransaction,
  type Value,
} from "../../kv/index.ts";
import type { Attachment, Document } from "../document.ts";
import { isDocumentId } from "../names.ts";
import { decodeAttachmentList, decodeAuthoredBody, decodeBody } from "../records/body-record.ts";
import { type BodySealOf, unsealed } from "../records/body-seals.ts";
import {
  type DatabaseKeys,
  leafElements,
  leafKey,
  leafRevision,
} from "../records/database-keys.ts";
import type { DatabaseRecord } from "../records/database-record.ts";
import {
  decodeDocumentRecord,
  decodeWinner,
  documentChunkCount,
} from "../records/document-record.ts";
import { formatRevision, type RevisionParts } from "../revisions/revision.ts";
import {
  type LeafNode,
  pathOf,
  type RevisionNode,
  RevisionTree,
} from "../revisions/revision-tree.ts";
import { type LoadedDocument, type Place, stateOf } from "../transaction-state.ts";
import type { DocumentRows } from "./document-rows.ts";

/**
 * Filters a document for a reader. Returns `undefined` if the document is hidden from the reader.
 */
export type ReadRule = (document: Document) => Document | undefined;

export class DocumentReader {
  readonly #clock: Clock;
  readonly #keys: DatabaseKeys;
  readonly #rows: DocumentRows;
  readonly #uuid: string;
  readonly #revisionLimit: number;
  readonly #readRule: ReadRule | undefined;
  readonly #sealOf: BodySealOf;

  /**
   * `readRule` filters documents for a reader; without it, all documents are visible. Documents are
   * returned with at most `revisionLimit` revisions, as in CouchDB; longer stored trees are
   * truncated by the next write of their document.
   */
  constructor(
    {
      clock,
      keys,
      rows,
    }: { readonly clock: Clock; readonly keys: DatabaseKeys; readonly rows: DocumentRows },
    { uuid, revisionLimit }: Pick<DatabaseRecord, "uuid" | "revisionLimit">,
    { readRule, sealOf = unsealed }: { readRule?: ReadRule | undefined; sealOf?: BodySealOf } = {},
  ) {
    this.#clock = clock;
    this.#keys = keys;
    this.#rows = rows;
    this.#uuid = uuid;
    this.#revisionLimit = revisionLimit;
    this.#readRule = readRule;
    this.#sealOf = sealOf;
  }

  /** Returns the documents that this transaction has written, by id. */
  written(tx: ReadTransaction): ReadonlyMap<string, LoadedDocument> | undefined {
    return stateOf(tx, this.#uuid)?.written;
  }

  /** Returns the document as this transaction sees it, with an empty tree if the id is unknown. */
  async load(tx: ReadTransaction, id: string): Promise<LoadedDocument> {
    const [loaded] = await this.loadMany(tx, [id]);
    return loaded as LoadedDocument;
  }

  /**
   * Loads several documents concurrently, and each only once: decoding the tree of a document with
   * many conflicts takes up to a few hundred milliseconds.
   */
  async loadMany(tx: ReadTransaction, ids: readonly string[]): Promise<LoadedDocument[]> {
    const distinct = [...new Set(ids)];
    if (distinct.length < ids.length) {
      const loaded = await this.loadMany(tx, distinct);
      const byId = new Map(distinct.map((id, index) => [id, loaded[index] as LoadedDocument]));
      return ids.map((id) => byId.get(id) as LoadedDocument);
    }
    const written = this.written(tx);
    const loaded: LoadedDocument[] = [];
    const askedIndexes: number[] = [];
    const asked: string[] = [];
    for (let index = 0; index < ids.length; index++) {
      const id = ids[index] as string;
      const known = written?.get(id);
      loaded.push(known ?? unknownDocument());
      if (known !== undefined || !isDocumentId(id)) continue;
      askedIndexes.push(index);
      asked.push(id);
    }
    const values = await this.#rows.firstChunks(tx, asked);
    const yielder = new Yielder(this.#clock);
    for (let at = 0; at < values.length; at++) {
      const first = values[at];
      if (first === undefined) continue;
      const index = askedIndexes[at] as number;
      const chunks = this.#chunks(tx, ids[index] as string, first);
      if (chunks instanceof Promise && yielder.isDue) await yielder.yield();
      loaded[index] = storedDocument(chunks instanceof Promise ? await chunks : chunks);
    }
    return loaded;
  }

  #chunks(
    tx: ReadTransaction,
    id: string,
    first: Value,
  ): readonly Value[] | Promise<readonly Value[]> {
    const chunkCount = documentChunkCount(first);
    if (chunkCount === 1) return [first];
    const { deleted } = decodeWinner(first);
    return readRest(tx, first, chunkCount, (chunk) => this.#rows.key(id, chunk, deleted));
  }

  /** Like `loadMany`, but documents hidden from the reader are returned as unknown. */
  async loadVisible(tx: ReadTransaction, ids: readonly string[]): Promise<LoadedDocument[]> {
    const loaded = await this.loadMany(tx, ids);
    if (this.#readRule === undefined) return loaded;
    const winners = loaded.flatMap(({ tree: { winner } }, index) =>
      winner === undefined ? [] : [{ id: ids[index] as string, node: winner }],
    );
    const shown = await this.documents(tx, winners);
    const hidden = new Set(winners.filter((_, at) => shown[at] === undefined).map(({ id }) => id));
    return loaded.map((each, index) =>
      hidden.has(ids[index] as string) ? unknownDocument() : each,
    );
  }

  /**
   * Reads the documents at leaves concurrently, and filters them for the reader. The result
   * contains `undefined` in place of each hidden document.
   */
  async documents(
    tx: ReadTransaction,
    leaves: readonly LeafOf[],
  ): Promise<(Document | undefined)[]> {
    const documents = await this.#storedDocuments(tx, leaves);
    const rule = this.#readRule;
    return rule === undefined ? documents : documents.map((document) => rule(document));
  }

  async #storedDocuments(tx: ReadTransaction, leaves: readonly LeafOf[]): Promise<Document[]> {
    const keys: Key[] = [];
    for (const { id, node } of leaves) {
      const { bodyChunkCount, attachmentChunkCount } = node.leaf;
      for (let chunk = 0; chunk < bodyChunkCount; chunk++) {
        keys.push(leafKey(this.#keys.body, id, node, chunk));
      }
      for (let chunk = 0; chunk < attachmentChunkCount; chunk++) {
        keys.push(leafKey(this.#keys.attachments, id, node, chunk));
      }
    }
    const values = await tx.getMany(keys);
    let next = 0;
    const take = (count: number): Value[] => {
      const chunks = new Array<Value>(count);
      for (let chunk = 0; chunk < count; chunk++) chunks[chunk] = present(values[next++]);
      return chunks;
    };
    return leaves.map(({ id, node }) => {
      const { bodyChunkCount, inlineBody } = node.leaf;
      const { text, authority } = decodeAuthoredBody(
        inlineBody === undefined ? take(bodyChunkCount) : [inlineBody],
        this.#sealOf(id, node),
      );
      const document: Document = {
        id,
        revision: formatRevision(node),
        deleted: node.leaf.deleted,
        body: text,
        revisions: pathOf(node, this.#revisionLimit),
        attachments: attachmentsOf(take(node.leaf.attachmentChunkCount)),
      };
      return authority === undefined ? document : { ...document, authority };
    });
  }

  /**
   * Returns a superseded revision as visible to the reader, or `undefined` if its body has been
   * cleared or the revision is hidden.
   */
  async oldDocument(
    tx: ReadTransaction,
    id: string,
    node: RevisionNode,
  ): Promise<Document | undefined> {
    const [body, list] = await Promise.all([
      valuesOf(tx, this.#keys.body.range(leafElements(id, node))),
      valuesOf(tx, this.#keys.attachments.range(leafElements(id, node))),
    ]);
    if (body.length === 0) return undefined;
    const document: Document = {
      id,
      revision: formatRevision(node),
      deleted: false,
      body: decodeBody(body, this.#sealOf(id, node)),
      revisions: pathOf(node, this.#revisionLimit),
      attachments: attachmentsOf(list),
    };
    return this.#readRule === undefined ? document : this.#readRule(document);
  }

  /** Yields those revisions of a document, including leaves, whose bodies are stored. */
  async *storedBodies(
    tx: ReadTransaction,
    id: string,
  ): AsyncGenerator<{ readonly revision: RevisionParts; readonly chunkCount: number }> {
    let { begin, end } = this.#keys.body.range({ id });
    for (;;) {
      const [first] = (await tx.getRangePage({ begin, end }, { limit: 1 })).entries;
      if (first === undefined) return;
      const revision = leafRevision(this.#keys.body.unpack(first.key));
      const chunks = this.#keys.body.range(leafElements(id, revision));
      const [last] = (await tx.getRangePage(chunks, { limit: 1, reverse: true })).entries;
      yield { revision, chunkCount: this.#keys.body.unpack((last ?? first).key).chunk + 1 };
      begin = chunks.end;
    }
  }

  /** Whether the body of a superseded revision exists. */
  async hasOldBody(tx: ReadTransaction, id: string, node: RevisionNode): Promise<boolean> {
    const key = leafKey(this.#keys.body, id, node, 0);
    return keyText(await tx.getKey(firstGreaterOrEqual(key))) === keyText(key);
  }

  /** Returns the chunks of a leaf's body in stored form. */
  async bodyChunks(tx: ReadTransaction, id: string, node: LeafNode): Promise<Value[]> {
    const { inlineBody } = node.leaf;
    if (inlineBody !== undefined) return [inlineBody];
    const keyOf = (chunk: number): Key => leafKey(this.#keys.body, id, node, chunk);
    return readChunks(tx, node.leaf.bodyChunkCount, keyOf);
  }

  async attachments(tx: ReadTransaction, id: string, node: LeafNode): Promise<Attachment[]> {
    const chunkCount = node.leaf.attachmentChunkCount;
    if (chunkCount === 0) return [];
    const keyOf = (chunk: number): Key => leafKey(this.#keys.attachments, id, node, chunk);
    return attachmentsOf(await readChunks(tx, chunkCount, keyOf));
  }
}

/** A leaf with the id of its document. */
export interface LeafOf {
  readonly id: string;
  readonly node: LeafNode;
}

function unknownDocument(): LoadedDocument {
  return {
    tree: new RevisionTree(),
    place: NO_PLACE,
    chunkCount: 0,
    isFormat3: false,
    conflictRow: "absent",
    writeCount: 0,
  };
}

function storedDocument(chunks: readonly Value[]): LoadedDocument {
  const { tree, versionstamp, chunkCount } = decodeDocumentRecord(chunks);
  const place = { kind: "stored", versionstamp } as const;
  return { tree, place, chunkCount, isFormat3: false, conflictRow: "absent", writeCount: 0 };
}

function attachmentsOf(chunks: readonly Value[]): Attachment[] {
  return chunks.length === 0 ? [] : decodeAttachmentList(chunks);
}

async function valuesOf(tx: ReadTransaction, range: KeyRange): Promise<Value[]> {
  const values: Value[] = [];
  for await (const { value } of tx.getRange(range)) values.push(value);
  return values;
}

const NO_PLACE: Place = { kind: "none" };

/**
 * Returns all chunks of a value whose first chunk has already been read. Reads the other chunks
 * concurrently.
 */
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
  const keys = Array.from({ length: chunkCount }, (_, chunk) => keyOf(chunk));
  return (await tx.getMany(keys)).map(present);
}

function present(chunk: Value | undefined): Value {
  assert(chunk !== undefined, "A stored value must have all of its chunks");
  return chunk;
}

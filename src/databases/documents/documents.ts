/** Documents as a reader sees them, without hidden documents. */
import type { ReadTransaction } from "../../kv/index.ts";
import type { Document, Leaf, Revision } from "../document.ts";
import { formatRevision, parseRevision } from "../revisions/revision.ts";
import {
  type MissingRevisions,
  missingFrom,
  type RevisionStatus,
  statusesBelow,
} from "../revisions/revision-questions.ts";
import type { LeafNode } from "../revisions/revision-tree.ts";
import type { LoadedDocument } from "../transaction-state.ts";
import type { DocumentReader } from "./document-reader.ts";
import { fittingCount, PAGE_BODY_BYTES_MAX } from "./page-size.ts";

/** A request to read one revision of a document; all its leaves if `revision` is undefined. */
export interface WantedRevision {
  readonly id: string;
  readonly revision: Revision | undefined;
}

export interface ReadRevisionOptions {
  /**
   * Whether to return the leaves that descend from the revision, instead of the revision itself.
   */
  readonly latest?: boolean;
  /**
   * Whether to include a superseded revision whose body is kept. Cannot be combined with `latest`.
   */
  readonly superseded?: boolean;
}

export class Documents {
  readonly #reader: DocumentReader;

  constructor(reader: DocumentReader) {
    this.#reader = reader;
  }

  /** Returns the winner, deleted or not. */
  async read(tx: ReadTransaction, id: string): Promise<Document | undefined> {
    return (await this.winners(tx, [id]))[0];
  }

  /**
   * Returns the document at a leaf, or an empty list if the revision is not a leaf. With `latest`,
   * returns the leaves that descend from the revision. With `superseded`, also finds a superseded
   * revision whose body is kept.
   */
  async readRevision(
    tx: ReadTransaction,
    id: string,
    revision: Revision,
    options: ReadRevisionOptions = {},
  ): Promise<Document[]> {
    const [documents] = await this.readRevisions(tx, [{ id, revision }], options);
    return documents as Document[];
  }

  /**
   * Reads several revisions like `readRevision`: first all trees concurrently, then the bodies.
   * Returns the results of the leading requests whose bodies fit into a page; at least one.
   */
  async readRevisions(
    tx: ReadTransaction,
    wanted: readonly WantedRevision[],
    { latest = false, superseded = false }: ReadRevisionOptions = {},
  ): Promise<Document[][]> {
    const ids = wanted.map(({ id }) => id);
    const loaded = await this.#reader.loadMany(tx, ids);
    const nodes = wanted.map(({ revision }, index) => {
      if (revision === undefined) return undefined;
      const { tree } = loaded[index] as LoadedDocument;
      const parts = parseRevision(revision);
      return tree.findLeaf(parts) ?? (latest || superseded ? tree.find(parts) : undefined);
    });
    const allLeaves = wanted.map(({ revision }, index): readonly LeafNode[] => {
      const { tree } = loaded[index] as LoadedDocument;
      if (revision === undefined) return tree.leaves;
      const node = nodes[index];
      if (node === undefined || (node.leaf === undefined && !latest)) return [];
      return tree.leavesBelow(node);
    });
    const leavesOf = allLeaves.slice(0, fittingCount(allLeaves, 1));
    const leaves = leavesOf.flatMap((nodes, index) =>
      nodes.map((node) => ({ id: ids[index] as string, node })),
    );
    const documents = await this.#reader.documents(tx, leaves);
    let next = 0;
    const found = leavesOf.map(({ length }) => {
      const shown = documents.slice(next, next + length);
      next += length;
      return shown.every(isShown) ? shown : shown.filter(isShown);
    });
    if (!superseded || latest) return found;
    let oldLength = 0;
    for (const [index, node] of nodes.slice(0, found.length).entries()) {
      if (node === undefined || node.leaf !== undefined) continue;
      // The sizes of superseded bodies are unknown until they are read.
      if (oldLength > PAGE_BODY_BYTES_MAX) return found.slice(0, index);
      const old = await this.#reader.oldDocument(tx, ids[index] as string, node);
      if (old === undefined) continue;
      found[index] = [old];
      oldLength += old.body.length;
    }
    return found;
  }

  /**
   * Returns the winners of several documents in the order of the ids; `undefined` for each document
   * that has no leaves or is hidden. Reads them concurrently.
   */
  async winners(tx: ReadTransaction, ids: readonly string[]): Promise<(Document | undefined)[]> {
    const loaded = await this.#reader.loadMany(tx, ids);
    return this.#winnersOf(tx, ids, loaded);
  }

  /** Like `winners`, for the leading ids whose bodies fit into a page; at least one. */
  async pageOfWinners(
    tx: ReadTransaction,
    ids: readonly string[],
  ): Promise<(Document | undefined)[]> {
    const loaded = await this.#reader.loadMany(tx, ids);
    const groups = loaded.map(({ tree: { winner } }) => (winner === undefined ? [] : [winner]));
    return this.#winnersOf(tx, ids, loaded.slice(0, fittingCount(groups, 1)));
  }

  async #winnersOf(
    tx: ReadTransaction,
    ids: readonly string[],
    loaded: readonly LoadedDocument[],
  ): Promise<(Document | undefined)[]> {
    const nodes = loaded.map(({ tree: { winner } }) => winner);
    const there = nodes.flatMap((node, index) =>
      node === undefined ? [] : [{ id: ids[index] as string, node }],
    );
    const documents = await this.#reader.documents(tx, there);
    let next = 0;
    return nodes.map((node) => (node === undefined ? undefined : documents[next++]));
  }

  /**
   * Returns the documents to which a filter is applied: the winner of each id, or all its leaves,
   * winner first. Returns those of the leading ids that fit into a page; at least one.
   */
  async candidates(
    tx: ReadTransaction,
    ids: readonly string[],
    { allLeaves }: { readonly allLeaves: boolean },
  ): Promise<Document[][]> {
    if (allLeaves) {
      const wanted = ids.map((id) => ({ id, revision: undefined }));
      return this.readRevisions(tx, wanted);
    }
    const winners = await this.pageOfWinners(tx, ids);
    return winners.map((winner) => (winner === undefined ? [] : [winner]));
  }

  /** Returns the documents at all leaves, winner first. */
  async readLeaves(tx: ReadTransaction, id: string): Promise<Document[]> {
    const { tree } = await this.#reader.load(tx, id);
    const leaves = tree.leaves.map((node) => ({ id, node }));
    return (await this.#reader.documents(tx, leaves)).filter(isShown);
  }

  /** Returns all leaves, winner first; empty for an unknown document. */
  async leaves(tx: ReadTransaction, id: string): Promise<Leaf[]> {
    return (await this.leavesOf(tx, [id]))[0] as Leaf[];
  }

  /** Returns the leaves of several documents, in the order of the ids. Reads them concurrently. */
  async leavesOf(tx: ReadTransaction, ids: readonly string[]): Promise<Leaf[][]> {
    const loaded = await this.#reader.loadVisible(tx, ids);
    return loaded.map(({ tree: { leaves } }) =>
      leaves.map((node) => ({ revision: formatRevision(node), deleted: node.leaf.deleted })),
    );
  }

  /**
   * Returns the revision and its known ancestors, with the status of their bodies. Empty for an
   * unknown revision.
   */
  async revisionStatuses(
    tx: ReadTransaction,
    id: string,
    revision: Revision,
  ): Promise<RevisionStatus[]> {
    const { tree } = await this.#reader.load(tx, id);
    return statusesBelow(tree, revision, (node) => this.#reader.hasOldBody(tx, id, node));
  }

  /**
   * Returns the revisions that each document's tree lacks, and leaves that could be their
   * ancestors.
   */
  async missingRevisions(
    tx: ReadTransaction,
    asked: readonly (readonly [id: string, revisions: readonly Revision[]])[],
  ): Promise<MissingRevisions[]> {
    const loaded = await this.#reader.loadVisible(
      tx,
      asked.map(([id]) => id),
    );
    return asked.map(([, revisions], index) =>
      missingFrom((loaded[index] as LoadedDocument).tree, revisions),
    );
  }
}

function isShown(document: Document | undefined): document is Document {
  return document !== undefined;
}

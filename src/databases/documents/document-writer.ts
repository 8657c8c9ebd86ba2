/**
 * Writes documents: judges each edit against its document's tree, resolves its attachments, then
 * writes.
 *
 * All reads come first, concurrently for the edits of a batch. The writes are synchronous and in
 * the order of the edits. Two writers of different documents never read and write the same key:
 * counters are incremented atomically without a read, and positions in the update sequence are
 * versionstamps.
 */
import { type Runtime, utf8Encode, Yielder } from "../../base/index.ts";
import type { Transaction } from "../../kv/index.ts";
import { type Resolution, resolveAttachments } from "../attachments/attachment-resolution.ts";
import type { Attachment, DocumentEdit, RevisionPath, WriteOutcome } from "../document.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";
import {
  canonicalPath,
  formatRevision,
  parseRevision,
  type RevisionParts,
} from "../revisions/revision.ts";
import type { LeafNode, LeafState } from "../revisions/revision-tree.ts";
import type { LoadedDocument, TransactionState } from "../transaction-state.ts";
import { type Counting, type DocumentIndexes, treeBefore } from "./document-indexes.ts";
import type { DocumentReader } from "./document-reader.ts";
import type { LeafWriter } from "./leaf-writer.ts";
import { newRevisionHash } from "./new-revision.ts";
import type { OldBodies } from "./old-bodies.ts";

/**
 * Maximum number of leaves. Each write of a document reads and writes the state of all of them.
 * CouchDB has no limit.
 */
const LEAVES_MAX = 1_000;
/**
 * Number of attachments above which the writer of a document yields to the event loop, because the
 * write takes some milliseconds.
 */
const MANY_ATTACHMENTS = 500;
const TOO_LARGE = "document_too_large";

/**
 * Maximum length of the names of a revision's attachments, plus the document id for each of them.
 * These make up the keys of references. Clearing a key takes twice its length, and the transaction
 * that deletes or purges the revision must clear all of them and its index entries.
 */
const REFERENCE_BYTES_MAX = 2_000_000;

/**
 * An edit judged against its document: the outcome if nothing needs to be written, otherwise the
 * data for writing it.
 */
export type Judged =
  | { readonly kind: "outcome"; readonly outcome: WriteOutcome }
  | {
      readonly kind: "interactive";
      readonly loaded: LoadedDocument;
      /** The leaf that the edit replaces; undefined for the first revision. */
      readonly parent: LeafNode | undefined;
    }
  | {
      readonly kind: "replicated";
      readonly loaded: LoadedDocument;
      readonly path: RevisionPath;
      /** Whether the revision already exists. The path then only adds ancestors. */
      readonly isKnown: boolean;
    };

export type Writable = Exclude<Judged, { kind: "outcome" }>;

/** Everything needed to carry out an edit. */
export interface Prepared {
  readonly edit: DocumentEdit;
  readonly judged: Writable;
  readonly attachments: readonly Attachment[];
  /** Attachments of the leaves that the edit might replace. */
  readonly leafAttachments: ReadonlyMap<LeafNode, readonly Attachment[]>;
  /**
   * The document's write count when the edit was judged. If the count has changed since, the edit
   * must be judged again.
   */
  readonly writeCount: number;
}

/**
 * Deferred writes, which nothing in the transaction reads. Each runs in a turn of its own of the
 * event loop, and before the next edit of its document.
 */
export type LateWrites = (() => void)[];

export class DocumentWriter {
  readonly #runtime: Runtime;
  readonly #keys: DatabaseKeys;
  readonly #reader: DocumentReader;
  readonly #leaves: LeafWriter;
  readonly #oldBodies: OldBodies;
  readonly #indexes: DocumentIndexes;

  constructor(
    runtime: Runtime,
    parts: {
      readonly keys: DatabaseKeys;
      readonly reader: DocumentReader;
      readonly leaves: LeafWriter;
      readonly oldBodies: OldBodies;
      readonly indexes: DocumentIndexes;
    },
  ) {
    this.#runtime = runtime;
    this.#keys = parts.keys;
    this.#reader = parts.reader;
    this.#leaves = parts.leaves;
    this.#oldBodies = parts.oldBodies;
    this.#indexes = parts.indexes;
  }

  judge(state: TransactionState, edit: DocumentEdit, loaded: LoadedDocument): Judged {
    if (edit.mode === "replicated") {
      const path = canonicalPath(edit.revisions);
      const verdict = loaded.tree.judge(path, state.database.revisionLimit);
      if (verdict === "new" && addsLeaf(loaded, path)) {
        const reason = `A document must not have more than ${LEAVES_MAX} conflicting revisions`;
        const outcome = { kind: "rejected", id: edit.id, error: TOO_LARGE, reason } as const;
        return { kind: "outcome", outcome };
      }
      if (verdict !== "known") {
        return { kind: "replicated", loaded, path, isKnown: verdict === "ancestors" };
      }
      const revision = formatRevision(tipOf(path));
      return { kind: "outcome", outcome: { kind: "known", id: edit.id, revision } };
    }
    const parent = interactiveParent(loaded, edit);
    if (parent !== "conflict") return { kind: "interactive", loaded, parent };
    const { id, attachments } = edit;
    const stub = attachments.find(({ kind }) => kind === "stub");
    // For a document that does not exist, CouchDB resolves stubs before it compares revisions, and
    // therefore reports a missing stub.
    const outcome: WriteOutcome =
      stub === undefined || loaded.tree.winner !== undefined
        ? { kind: "conflict", id }
        : { kind: "missing-stub", id, name: stub.name };
    return { kind: "outcome", outcome };
  }

  /**
   * Reads everything needed to carry out the edit. Returns an outcome if nothing will be written.
   */
  prepare(
    tx: Transaction,
    edit: DocumentEdit,
    judged: Writable,
  ): Prepared | Promise<Prepared | WriteOutcome> {
    // Most edits neither have nor replace attachments, and need no reads.
    if (edit.attachments.length > 0 || replacedLeaves(judged).length > 0) {
      return this.#prepareAttachments(tx, edit, judged);
    }
    const { writeCount } = judged.loaded;
    return { edit, judged, attachments: [], leafAttachments: NO_ATTACHMENTS, writeCount };
  }

  async #prepareAttachments(
    tx: Transaction,
    edit: DocumentEdit,
    judged: Writable,
  ): Promise<Prepared | WriteOutcome> {
    const { writeCount } = judged.loaded;
    const leafAttachments = await this.#attachmentsOfLeaves(tx, edit.id, judged);
    const yielder = new Yielder(this.#runtime.clock);
    const resolution = await this.#resolve(tx, edit, judged, leafAttachments, yielder);
    if (resolution.kind === "missing-stub") {
      return { kind: "missing-stub", id: edit.id, name: resolution.name };
    }
    if (referenceBytes(edit.id, resolution.attachments) > REFERENCE_BYTES_MAX) {
      const reason = `The names of all attachments, each with the document id, must not have more than ${REFERENCE_BYTES_MAX} bytes`;
      return { kind: "rejected", id: edit.id, error: TOO_LARGE, reason };
    }
    // All attachments are written in one turn of the event loop.
    if (resolution.attachments.length > MANY_ATTACHMENTS) await yielder.yield();
    return { edit, judged, attachments: resolution.attachments, leafAttachments, writeCount };
  }

  /**
   * Writes the edit. Synchronous, so that nothing can interleave between reading and updating the
   * transaction's state. Appends deferrable writes to `late`.
   */
  carryOut(
    tx: Transaction,
    state: TransactionState,
    { edit, judged, attachments: resolved, leafAttachments }: Prepared,
    counting: Counting,
    late: LateWrites,
  ): WriteOutcome & { readonly kind: "written" } {
    const attachments =
      resolved.length === 0
        ? resolved
        : resolved.map((attachment) => sharedInTransaction(state, attachment));
    const { loaded } = judged;
    const { tree, isFormat3 } = loaded;
    const before = treeBefore(tree);
    const revision = this.#growTree(tx, { edit, judged, attachments, late });
    tree.stem(state.database.revisionLimit);
    if (tree.leaves.length > 1) this.#leaves.keepOneInline(tx, edit.id, tree);
    const after = before.leaves.size === 0 ? undefined : new Set(tree.leaves);
    for (const [leaf, leafState] of before.leaves) {
      if (after?.has(leaf)) continue;
      const left = leafAttachments.get(leaf) ?? [];
      const old = { revision: leaf, leaf: leafState, attachments: left, isFormat3 };
      const superseded = { ...old, nextAttachments: attachments };
      if (this.#oldBodies.keep(tx, edit.id, superseded, counting)) continue;
      this.#leaves.drop(tx, edit.id, leaf, leafState, { attachments: left, kept: attachments });
      state.droppedKeyCount +=
        leafState.bodyChunkCount + leafState.attachmentChunkCount + left.length;
    }
    this.#indexes.update(tx, state, { id: edit.id, loaded, before }, counting);
    return { kind: "written", id: edit.id, revision: formatRevision(revision) };
  }

  async #attachmentsOfLeaves(
    tx: Transaction,
    id: string,
    judged: Writable,
  ): Promise<Map<LeafNode, readonly Attachment[]>> {
    const lists = await Promise.all(
      replacedLeaves(judged).map(
        async (leaf) => [leaf, await this.#reader.attachments(tx, id, leaf)] as const,
      ),
    );
    return new Map(lists);
  }

  async #resolve(
    tx: Transaction,
    edit: DocumentEdit,
    judged: Writable,
    leafAttachments: ReadonlyMap<LeafNode, readonly Attachment[]>,
    yielder: Yielder,
  ): Promise<Resolution> {
    if (edit.attachments.length === 0) return { kind: "resolved", attachments: [] };
    if (judged.kind === "replicated" && judged.isKnown)
      return { kind: "resolved", attachments: [] };
    const generation =
      judged.kind === "interactive" ? (judged.parent?.generation ?? 0) + 1 : judged.path.start;
    return resolveAttachments(tx, this.#keys, edit.attachments, {
      stubs: stubSource(judged, leafAttachments),
      generation,
      yielder,
    });
  }

  #growTree(
    tx: Transaction,
    {
      edit,
      judged,
      attachments,
      late,
    }: {
      edit: DocumentEdit;
      judged: Writable;
      attachments: readonly Attachment[];
      late: LateWrites;
    },
  ): RevisionParts {
    const { tree, isFormat3: mayInline } = judged.loaded;
    const body = edit.body.bytes;
    const leafOf = (revision: RevisionParts): LeafState => {
      if (attachments.length > MANY_ATTACHMENTS) {
        late.push(() => this.#leaves.refer(tx, edit, revision, attachments));
      } else if (attachments.length > 0) this.#leaves.refer(tx, edit, revision, attachments);
      return this.#leaves.write(tx, { edit, body, revision, attachments, mayInline });
    };
    if (judged.kind === "replicated") {
      const tip = tipOf(judged.path);
      tree.graft(judged.path, judged.isKnown ? undefined : leafOf(tip));
      return tip;
    }
    const { parent } = judged;
    const { deleted } = edit;
    const hash = newRevisionHash(this.#runtime.digests, { deleted, parent, body, attachments });
    const revision = { generation: (parent?.generation ?? 0) + 1, hash };
    const hashes = parent === undefined ? [hash] : [hash, parent.hash];
    // A replication might have written the same revision without its history. In this case, only
    // the parent of the revision is new.
    const isKnown = tree.find(revision) !== undefined;
    tree.graft({ start: revision.generation, hashes }, isKnown ? undefined : leafOf(revision));
    return revision;
  }
}

/**
 * Returns the attachment with the id of identical content that an earlier edit of this transaction
 * references, if any. A read of the store cannot find this content yet.
 */
function sharedInTransaction(state: TransactionState, attachment: Attachment): Attachment {
  const { digest, encoding, encodedLength, contentId } = attachment;
  const bytes = `${digest} ${encoding} ${encodedLength}`;
  const known = state.contents.get(bytes);
  if (known === undefined) state.contents.set(bytes, contentId);
  return known === undefined || known === contentId
    ? attachment
    : { ...attachment, contentId: known };
}

/**
 * Whether the transaction has written the document since the edit was judged. The judgement is then
 * outdated.
 */
export function isStale(state: TransactionState, { edit, judged, writeCount }: Prepared): boolean {
  const written = state.written.get(edit.id);
  if (written === undefined) return false;
  return written !== judged.loaded || written.writeCount !== writeCount;
}

/** Returns the leaves that have attachments and that the edit might replace. */
function replacedLeaves(judged: Writable): readonly LeafNode[] {
  if (judged.kind === "replicated") return judged.loaded.tree.leaves.filter(hasAttachments);
  const { parent } = judged;
  return parent !== undefined && hasAttachments(parent) ? [parent] : [];
}

const NO_ATTACHMENTS: ReadonlyMap<LeafNode, readonly Attachment[]> = new Map();

/**
 * Returns the leaf that an interactive edit replaces, `undefined` for the first revision, or
 * "conflict".
 */
function interactiveParent(
  { tree }: LoadedDocument,
  edit: DocumentEdit & { readonly mode: "interactive" },
): LeafNode | "conflict" | undefined {
  const { winner } = tree;
  if (edit.parent !== undefined) {
    const leaf = tree.findLeaf(parseRevision(edit.parent)) ?? "conflict";
    // As in CouchDB, a deleted document can be re-created only by an edit that names no revision.
    return winner?.leaf.deleted === true ? "conflict" : leaf;
  }
  if (winner === undefined) return undefined;
  // An edit that re-creates a deleted document names no revision. The new revision follows the
  // deleted winner.
  return winner.leaf.deleted && !edit.deleted ? winner : "conflict";
}

/** Whether adding the path would exceed the maximum number of leaves. */
function addsLeaf({ tree: { leaves } }: LoadedDocument, { start, hashes }: RevisionPath): boolean {
  if (leaves.length < LEAVES_MAX) return false;
  return !leaves.some(({ generation, hash }) => hashes[start - generation] === hash);
}

function tipOf({ start, hashes }: RevisionPath): RevisionParts {
  return { generation: start, hash: hashes[0] as string };
}

/**
 * Returns the attachments to which stubs can refer. Those of a leaf on the edit's own path come
 * first.
 */
function stubSource(
  judged: Writable,
  leafAttachments: ReadonlyMap<LeafNode, readonly Attachment[]>,
): readonly (readonly Attachment[])[] {
  if (judged.kind === "interactive") return [...leafAttachments.values()];
  const { start, hashes } = judged.path;
  const isAncestor = (leaf: LeafNode): boolean => hashes[start - leaf.generation] === leaf.hash;
  const entries = [...leafAttachments.entries()];
  const near = entries.filter(([leaf]) => isAncestor(leaf));
  const far = entries.filter(([leaf]) => !isAncestor(leaf));
  return [...near, ...far].map(([, attachments]) => attachments);
}

function hasAttachments(leaf: LeafNode): boolean {
  return leaf.leaf.attachmentChunkCount > 0;
}

function referenceBytes(id: string, attachments: readonly Attachment[]): number {
  const idBytes = utf8Encode(id).length;
  return attachments.reduce((sum, { name }) => sum + idBytes + utf8Encode(name).length, 0);
}

/**
 * Writing documents: judge each edit against its document's tree, resolve its attachments, then carry it out.
 *
 * All reads come first and run side by side for the edits of a batch; carrying out is synchronous and in the order of the
 * edits. Nothing that two writers of different documents touch is both read and written: counters are added to blindly, and
 * the places in the update sequence are versionstamps.
 */
import { OperationalError, type Runtime } from "../base/index.ts";
import type { Key, Transaction } from "../kv/index.ts";
import { type Resolution, resolveAttachments } from "./attachment-resolution.ts";
import { digestBytes, encodeAttachmentList, encodeBody } from "./body-record.ts";
import type { ChangeCounts } from "./change-counts.ts";
import { encodeChangeRecord, encodeWinnerRecord } from "./change-record.ts";
import { encodeContentId } from "./content-record.ts";
import type { CounterDeltas } from "./counter-deltas.ts";
import { encodeNewVersionstamp } from "./counter-record.ts";
import type { DatabaseKeys } from "./database-keys.ts";
import type { Attachment, DocumentEdit, RevisionPath, WriteOutcome } from "./document.ts";
import type { DocumentReader } from "./document-reader.ts";
import { encodeDocumentRecord } from "./document-record.ts";
import { newRevisionHash } from "./new-revision.ts";
import { canonicalPath, formatRevision, parseRevision, type RevisionParts } from "./revision.ts";
import type { LeafNode, LeafState } from "./revision-tree.ts";
import type { LoadedDocument, TransactionState } from "./transaction-state.ts";

/** A body, and all else that its document writes, has to fit into one transaction of the store. */
export const BODY_BYTES_MAX = 8 * 1024 * 1024;

/** An edit that may be written: no conflict, and not known. */
export type Judged =
  | { readonly kind: "outcome"; readonly outcome: WriteOutcome }
  | {
      readonly kind: "interactive";
      readonly loaded: LoadedDocument;
      readonly parent: LeafNode | undefined;
    }
  | {
      readonly kind: "replicated";
      readonly loaded: LoadedDocument;
      readonly path: RevisionPath;
      /** The revision is there already; the path tells more of its ancestors. */
      readonly isKnown: boolean;
    };

type Writable = Exclude<Judged, { kind: "outcome" }>;

/** All that carrying an edit out needs to know. */
export interface Prepared {
  readonly edit: DocumentEdit;
  readonly judged: Writable;
  readonly attachments: readonly Attachment[];
  /** What leaves that may be replaced refer to. */
  readonly leafAttachments: ReadonlyMap<LeafNode, readonly Attachment[]>;
  /** Of the loaded document, when the edit was judged. */
  readonly writeCount: number;
}

/** What carrying out adds to, and what it takes from. */
export interface Counting {
  readonly deltas: CounterDeltas;
  /** Where the document's change was counted, when it is stored. */
  readonly left: Key | undefined;
}

export class DocumentWriter {
  readonly #runtime: Runtime;
  readonly #keys: DatabaseKeys;
  readonly #reader: DocumentReader;
  readonly #counts: ChangeCounts;

  constructor(
    runtime: Runtime,
    parts: {
      readonly keys: DatabaseKeys;
      readonly reader: DocumentReader;
      readonly counts: ChangeCounts;
    },
  ) {
    this.#runtime = runtime;
    this.#keys = parts.keys;
    this.#reader = parts.reader;
    this.#counts = parts.counts;
  }

  async judge(tx: Transaction, state: TransactionState, edit: DocumentEdit): Promise<Judged> {
    const loaded = await this.#reader.load(tx, edit.id);
    if (edit.mode === "replicated") {
      const path = canonicalPath(edit.revisions);
      const verdict = loaded.tree.judge(path, state.database.revisionLimit);
      if (verdict !== "known") {
        return { kind: "replicated", loaded, path, isKnown: verdict === "ancestors" };
      }
      const revision = formatRevision(tipOf(path));
      return { kind: "outcome", outcome: { kind: "known", id: edit.id, revision } };
    }
    const parent = interactiveParent(loaded, edit);
    if (parent !== "conflict") return { kind: "interactive", loaded, parent };
    return { kind: "outcome", outcome: { kind: "conflict", id: edit.id } };
  }

  /** Reads what carrying out needs; an outcome when it turns out that nothing is to be written. */
  async prepare(
    tx: Transaction,
    edit: DocumentEdit,
    judged: Writable,
  ): Promise<Prepared | WriteOutcome> {
    const { writeCount } = judged.loaded;
    const leafAttachments = await this.#attachmentsOfLeaves(tx, edit.id, judged);
    const resolution = await this.#resolve(tx, edit, judged, leafAttachments);
    if (resolution.kind === "missing-stub") {
      return { kind: "missing-stub", id: edit.id, name: resolution.name };
    }
    return { edit, judged, attachments: resolution.attachments, leafAttachments, writeCount };
  }

  /** Writes; synchronous, so that nothing comes between what it read of the transaction's state and what it leaves. */
  carryOut(
    tx: Transaction,
    state: TransactionState,
    { edit, judged, attachments: resolved, leafAttachments }: Prepared,
    counting: Counting,
  ): WriteOutcome & { readonly kind: "written" } {
    const attachments = resolved.map((attachment) => sharedInTransaction(state, attachment));
    const { loaded } = judged;
    const { tree } = loaded;
    const { deltas } = counting;
    const before = new Map(tree.leaves.map((leaf) => [leaf, leaf.leaf]));
    const winnerBefore = tree.winner;
    const wasDeleted = winnerBefore?.leaf.deleted;

    const revision = this.#growTree(tx, { edit, judged, attachments });
    tree.stem(state.database.revisionLimit);
    const bytes = { external: 0, active: 0 };
    const after = new Set(tree.leaves);
    for (const [leaf, leafState] of before) {
      if (after.has(leaf)) continue;
      addBytes(bytes, leafState, -1);
      this.#drop(tx, edit.id, leaf, leafState, {
        attachments: leafAttachments.get(leaf) ?? [],
        kept: attachments,
      });
    }
    for (const leaf of tree.leaves) if (!before.has(leaf)) addBytes(bytes, leaf.leaf, 1);

    this.#move(tx, state, { id: edit.id, loaded, counting });
    const winner = tree.winner as LeafNode;
    if (!winner.leaf.deleted) {
      if (winner !== winnerBefore) tx.set(this.#keys.winner(edit.id), encodeWinnerRecord(winner));
    } else if (wasDeleted === false) tx.clear(this.#keys.winner(edit.id));
    deltas.add("documents", alive(winner.leaf.deleted) - alive(wasDeleted));
    deltas.add("deletedDocuments", dead(winner.leaf.deleted) - dead(wasDeleted));
    deltas.add("externalBytes", bytes.external);
    deltas.add("activeBytes", bytes.active);
    return { kind: "written", id: edit.id, revision: formatRevision(revision) };
  }

  async #attachmentsOfLeaves(
    tx: Transaction,
    id: string,
    judged: Writable,
  ): Promise<Map<LeafNode, readonly Attachment[]>> {
    const { tree } = judged.loaded;
    const parents = judged.kind === "interactive" ? [judged.parent] : tree.leaves;
    const leaves = parents.filter((leaf) => leaf !== undefined && hasAttachments(leaf));
    const lists = await Promise.all(
      (leaves as LeafNode[]).map(
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
  ): Promise<Resolution> {
    if (edit.attachments.length === 0) return { kind: "resolved", attachments: [] };
    if (judged.kind === "replicated" && judged.isKnown)
      return { kind: "resolved", attachments: [] };
    const generation =
      judged.kind === "interactive" ? (judged.parent?.generation ?? 0) + 1 : judged.path.start;
    return resolveAttachments(tx, this.#keys, edit.attachments, {
      stubs: stubSource(judged, leafAttachments),
      generation,
    });
  }

  #growTree(
    tx: Transaction,
    {
      edit,
      judged,
      attachments,
    }: { edit: DocumentEdit; judged: Writable; attachments: readonly Attachment[] },
  ): RevisionParts {
    const { tree } = judged.loaded;
    if (judged.kind === "replicated") {
      const tip = tipOf(judged.path);
      tree.graft(
        judged.path,
        judged.isKnown ? UNUSED : this.#writeLeaf(tx, edit, tip, attachments),
      );
      return tip;
    }
    const { parent } = judged;
    const { deleted, body } = edit;
    const hash = newRevisionHash(this.#runtime.digests, { deleted, parent, body, attachments });
    const revision = { generation: (parent?.generation ?? 0) + 1, hash };
    const hashes = parent === undefined ? [hash] : [hash, parent.hash];
    // The same edit may have come from elsewhere without its history: then only its parent is news.
    const isKnown = tree.find(revision) !== undefined;
    tree.graft(
      { start: revision.generation, hashes },
      isKnown ? UNUSED : this.#writeLeaf(tx, edit, revision, attachments),
    );
    return revision;
  }

  #writeLeaf(
    tx: Transaction,
    edit: DocumentEdit,
    revision: RevisionParts,
    attachments: readonly Attachment[],
  ): LeafState {
    const body = encodeBody(edit.body);
    if (body.byteCount > BODY_BYTES_MAX) {
      throw new OperationalError("STORE_DOCUMENT_TOO_LARGE", "The document is too large", {
        id: edit.id,
        byteCount: body.byteCount,
        max: BODY_BYTES_MAX,
      });
    }
    for (const [chunk, bytes] of body.chunks.entries()) {
      tx.set(this.#keys.body(edit.id, revision, chunk), bytes);
    }
    const listChunks = attachments.length === 0 ? [] : encodeAttachmentList(attachments);
    for (const [chunk, bytes] of listChunks.entries()) {
      tx.set(this.#keys.attachments(edit.id, revision, chunk), bytes);
    }
    for (const { name, contentId } of attachments) {
      tx.set(this.#keys.reference(contentId, edit.id, revision, name), NOTHING);
    }
    this.#shareStaged(tx, edit, attachments);
    return {
      deleted: edit.deleted,
      bodyChunkCount: body.chunks.length,
      bodyBytes: body.byteCount,
      attachmentChunkCount: listChunks.length,
      attachmentBytes: sum(attachments.map(({ length }) => length)),
      attachmentEncodedBytes: sum(attachments.map(({ encodedLength }) => encodedLength)),
    };
  }

  /** Makes staged contents the ones that stand for their bytes; drops those for which another stands already. */
  #shareStaged(tx: Transaction, edit: DocumentEdit, attachments: readonly Attachment[]): void {
    const resolved = new Map(attachments.map((attachment) => [attachment.name, attachment]));
    for (const attachment of edit.attachments) {
      if (attachment.kind !== "staged") continue;
      const { contentId, digest, encoding, encodedLength } = attachment.content;
      const sharedId = (resolved.get(attachment.name) as Attachment).contentId;
      if (sharedId === contentId) {
        const key = this.#keys.contentByDigest(digestBytes(digest), encoding, encodedLength);
        tx.set(key, encodeContentId(contentId));
      } else {
        tx.clear(this.#keys.content(contentId));
        tx.clearRange(this.#keys.contentChunks(contentId));
      }
    }
  }

  /** Clears what a leaf had that is an ancestor now. */
  #drop(
    tx: Transaction,
    id: string,
    revision: RevisionParts,
    leaf: LeafState,
    { attachments, kept }: { attachments: readonly Attachment[]; kept: readonly Attachment[] },
  ): void {
    for (let chunk = 0; chunk < leaf.bodyChunkCount; chunk++) {
      tx.clear(this.#keys.body(id, revision, chunk));
    }
    for (let chunk = 0; chunk < leaf.attachmentChunkCount; chunk++) {
      tx.clear(this.#keys.attachments(id, revision, chunk));
    }
    const keptContents = new Set(kept.map(({ contentId }) => contentId));
    for (const { contentId, name } of attachments) {
      tx.clear(this.#keys.reference(contentId, id, revision, name));
      if (keptContents.has(contentId)) continue;
      tx.set(this.#keys.unreferenced(this.#runtime.clock.nowMs(), contentId), NOTHING);
    }
  }

  /** Gives the document the place at the end of the update sequence. */
  #move(tx: Transaction, state: TransactionState, { id, loaded, counting }: Move): void {
    const { place, tree } = loaded;
    const { deltas, left } = counting;
    const userVersion = place.kind === "written" ? place.userVersion : tx.nextUserVersion();
    if (place.kind !== "written") this.#counts.enter(state);
    if (place.kind === "stored") {
      tx.clear(this.#keys.change(place.versionstamp));
      this.#counts.leave(left, deltas);
    }
    const leaves = tree.leaves.map(({ generation, hash, leaf }) => {
      return { generation, hash, deleted: leaf.deleted };
    });
    tx.setVersionstampedKey(this.#keys.newChange(userVersion), encodeChangeRecord(id, leaves));
    const record = encodeDocumentRecord(tree, userVersion);
    tx.setVersionstampedValue(this.#keys.document(id, 0), record.first);
    for (const [index, bytes] of record.more.entries()) {
      tx.set(this.#keys.document(id, index + 1), bytes);
    }
    for (let chunk = record.chunkCount; chunk < loaded.chunkCount; chunk++) {
      tx.clear(this.#keys.document(id, chunk));
    }
    if (state.written.size === 0) {
      tx.setVersionstampedValue(this.#keys.changed(), encodeNewVersionstamp(userVersion));
    }
    loaded.place = { kind: "written", userVersion };
    loaded.chunkCount = record.chunkCount;
    loaded.writeCount++;
    state.written.set(id, loaded);
  }
}

interface Move {
  readonly id: string;
  readonly loaded: LoadedDocument;
  readonly counting: Counting;
}

/** Equal bytes that several edits of a transaction bring are one content: the store cannot tell yet. */
function sharedInTransaction(state: TransactionState, attachment: Attachment): Attachment {
  const { digest, encoding, encodedLength, contentId } = attachment;
  const bytes = `${digest} ${encoding} ${encodedLength}`;
  const known = state.contents.get(bytes);
  if (known === undefined) state.contents.set(bytes, contentId);
  return known === undefined || known === contentId
    ? attachment
    : { ...attachment, contentId: known };
}

/** Whether another write of the transaction came between: what was judged of the document no longer holds. */
export function isStale(state: TransactionState, { edit, judged, writeCount }: Prepared): boolean {
  const written = state.written.get(edit.id);
  if (written === undefined) return false;
  return written !== judged.loaded || written.writeCount !== writeCount;
}

const NOTHING = new Uint8Array(0);

/** For a graft that adds no leaf. */
const UNUSED: LeafState = {
  deleted: false,
  bodyChunkCount: 0,
  bodyBytes: 0,
  attachmentChunkCount: 0,
  attachmentBytes: 0,
  attachmentEncodedBytes: 0,
};

/** The leaf that an interactive edit follows; undefined for the first revision. */
function interactiveParent(
  { tree }: LoadedDocument,
  edit: DocumentEdit & { readonly mode: "interactive" },
): LeafNode | "conflict" | undefined {
  if (edit.parent !== undefined) return tree.findLeaf(parseRevision(edit.parent)) ?? "conflict";
  const { winner } = tree;
  if (winner === undefined) return undefined;
  // Whoever creates a document anew that was deleted does not know of its past; the tree goes on from it.
  return winner.leaf.deleted && !edit.deleted ? winner : "conflict";
}

function tipOf({ start, hashes }: RevisionPath): RevisionParts {
  return { generation: start, hash: hashes[0] as string };
}

/** Leaves on the edit's own path first. */
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

function addBytes(
  bytes: { external: number; active: number },
  leaf: LeafState,
  sign: 1 | -1,
): void {
  bytes.external += sign * (leaf.bodyBytes + leaf.attachmentBytes);
  bytes.active += sign * (leaf.bodyBytes + leaf.attachmentEncodedBytes);
}

/** 1 for a document that is there, 0 for a deleted or unknown one. */
function alive(deleted: boolean | undefined): number {
  return deleted === false ? 1 : 0;
}

function dead(deleted: boolean | undefined): number {
  return deleted === true ? 1 : 0;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

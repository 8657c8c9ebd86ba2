/**
 * Writes the records of a leaf: its body, the list of its attachments, and references to the
 * attachments' bytes.
 */
import { OperationalError, type Runtime } from "../../base/index.ts";
import type { Transaction } from "../../kv/index.ts";
import { type ContentDatabase, clearChunks } from "../attachments/content.ts";
import type { Attachment, DocumentEdit, StagedContent } from "../document.ts";
import {
  digestBytes,
  encodeAttachmentList,
  encodeBody,
  hasMember,
} from "../records/body-record.ts";
import { type BodySealOf, unsealed } from "../records/body-seals.ts";
import { ofChunk } from "../records/chunks.ts";
import { encodeContentId } from "../records/content-record.ts";
import {
  contentElement,
  type DatabaseKeys,
  leafElements,
  leafKey,
} from "../records/database-keys.ts";
import type { RevisionParts } from "../revisions/revision.ts";
import type { LeafState, RevisionTree } from "../revisions/revision-tree.ts";

/**
 * Maximum length of a body. Must fit into one transaction together with all other writes of the
 * document.
 */
export const BODY_BYTES_MAX = 8 * 1024 * 1024;

/**
 * Maximum length of the stored form of a body in the document record. A body there needs no second
 * row at a random position of the store, but every read of the tree also reads the body.
 */
const INLINE_BYTES_MAX = 2_048;

export interface NewLeaf {
  readonly edit: DocumentEdit;
  /** The body of the edit in UTF-8; must not be changed. */
  readonly body: Uint8Array;
  readonly revision: RevisionParts;
  readonly attachments: readonly Attachment[];
  /** Whether the document record is allowed to contain the body. */
  readonly mayInline: boolean;
}

export class LeafWriter {
  readonly #runtime: Runtime;
  readonly #keys: DatabaseKeys;
  readonly #database: ContentDatabase;
  readonly #sealOf: BodySealOf;

  constructor(runtime: Runtime, database: ContentDatabase, sealOf: BodySealOf = unsealed) {
    this.#runtime = runtime;
    this.#keys = database.keys;
    this.#database = database;
    this.#sealOf = sealOf;
  }

  /**
   * Writes the records of the leaf, except the references, which `refer` writes. Throws
   * STORE_DOCUMENT_TOO_LARGE.
   */
  write(tx: Transaction, { edit, body, revision, attachments, mayInline }: NewLeaf): LeafState {
    if (body.length > BODY_BYTES_MAX) {
      throw new OperationalError("STORE_DOCUMENT_TOO_LARGE", "The document is too large", {
        id: edit.id,
        byteCount: body.length,
        max: BODY_BYTES_MAX,
      });
    }
    const sealed = hasMember(body) ? this.#sealOf(edit.id, revision) : undefined;
    const bodyChunks = encodeBody(body, sealed, edit.authority);
    const [first] = bodyChunks as [Uint8Array, ...Uint8Array[]];
    // A sealed body gets a row of its own, because it is sealed again when the key changes.
    const isInline = mayInline && sealed === undefined && first.length <= INLINE_BYTES_MAX;
    const inlineBody = isInline ? first.slice() : undefined;
    const rows = isInline ? NO_CHUNKS : bodyChunks;
    for (let chunk = 0; chunk < rows.length; chunk++) {
      const key = leafKey(this.#keys.body, edit.id, revision, chunk);
      tx.set(key, rows[chunk] as Uint8Array, ofChunk(chunk));
    }
    const listChunks = attachments.length === 0 ? NO_CHUNKS : encodeAttachmentList(attachments);
    for (let chunk = 0; chunk < listChunks.length; chunk++) {
      tx.set(
        leafKey(this.#keys.attachments, edit.id, revision, chunk),
        listChunks[chunk] as Uint8Array,
      );
    }
    return {
      deleted: edit.deleted,
      bodyChunkCount: rows.length,
      inlineBody,
      bodyBytes: body.length,
      attachmentChunkCount: listChunks.length,
      attachmentBytes: attachments.reduce((sum, { length }) => sum + length, 0),
      attachmentEncodedBytes: attachments.reduce(
        (sum, { encodedLength }) => sum + encodedLength,
        0,
      ),
    };
  }

  /**
   * Leaves at most one body in the document record, because the record is rewritten with every
   * change. Bodies of other leaves are moved to rows of their own.
   */
  keepOneInline(tx: Transaction, id: string, tree: RevisionTree): void {
    const inline = tree.leaves.filter(({ leaf }) => leaf.inlineBody !== undefined);
    for (const leaf of inline.slice(1)) {
      tx.set(leafKey(this.#keys.body, id, leaf, 0), leaf.leaf.inlineBody as Uint8Array);
      tree.setBodyChunkCount(leaf, 1);
    }
  }

  /**
   * Clears the records of a former leaf. `kept` are the attachments of its successor, whose content
   * stays referenced.
   */
  drop(
    tx: Transaction,
    id: string,
    revision: RevisionParts,
    leaf: LeafState,
    { attachments, kept }: { attachments: readonly Attachment[]; kept: readonly Attachment[] },
  ): void {
    for (let chunk = 0; chunk < leaf.bodyChunkCount; chunk++) {
      tx.clear(leafKey(this.#keys.body, id, revision, chunk));
    }
    for (let chunk = 0; chunk < leaf.attachmentChunkCount; chunk++) {
      tx.clear(leafKey(this.#keys.attachments, id, revision, chunk));
    }
    const keptContents = new Set(kept.map(({ contentId }) => contentId));
    for (const { contentId, name } of attachments) {
      tx.clear(
        this.#keys.reference.key({
          ...contentElement(contentId),
          ...leafElements(id, revision),
          name,
        }),
      );
      if (keptContents.has(contentId)) continue;
      tx.set(
        this.#keys.unreferenced.key({
          sinceMs: this.#runtime.clock.nowMs(),
          ...contentElement(contentId),
        }),
        NOTHING,
      );
    }
  }

  /**
   * Adds references to the content of the leaf's attachments. Publishes staged content, so that
   * other uploads of the same bytes can share it.
   */
  refer(
    tx: Transaction,
    edit: DocumentEdit,
    revision: RevisionParts,
    attachments: readonly Attachment[],
  ): void {
    const edits = new Map(edit.attachments.map((attachment) => [attachment.name, attachment]));
    for (const { name, contentId: sharedId } of attachments) {
      tx.set(
        this.#keys.reference.key({
          ...contentElement(sharedId),
          ...leafElements(edit.id, revision),
          name,
        }),
        NOTHING,
      );
      const attachment = edits.get(name);
      if (attachment?.kind === "staged") this.#shareStaged(tx, attachment.content, sharedId);
    }
  }

  /** Publishes staged content for sharing, or drops it if identical content is already shared. */
  #shareStaged(tx: Transaction, content: StagedContent, sharedId: string): void {
    const { contentId, digest, encoding, encodedLength } = content;
    if (sharedId === contentId) {
      const key = this.#keys.contentByDigest.key({
        digest: digestBytes(digest),
        encoding: encoding ?? "",
        length: encodedLength,
      });
      tx.set(key, encodeContentId(contentId));
    } else {
      tx.clear(this.#keys.content.key(contentElement(contentId)));
      clearChunks(tx, this.#database, content, this.#runtime.clock.nowMs());
    }
  }
}

const NOTHING = new Uint8Array(0);
const NO_CHUNKS: readonly Uint8Array[] = [];

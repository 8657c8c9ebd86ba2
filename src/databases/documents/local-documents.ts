/**
 * Local documents: one current revision `0-n`, without history; neither in the update sequence nor
 * replicated.
 *
 * As in CouchDB (`couch_db_updater`, `update_local_doc_revs`), the new revision is the given
 * revision plus one, regardless of the stored revision. The writer of a checkpoint detects another
 * writer by reading the document. Unlike in CouchDB, a write that names the revision of a missing
 * document is a conflict, as for any other document.
 */
import { assert, OperationalError, type Page, type Utf8Text } from "../../base/index.ts";
import type { Key, ReadTransaction, Transaction } from "../../kv/index.ts";
import type { DocumentEdit, LocalDocument, Revision, WriteOutcome } from "../document.ts";
import { checkDocumentId, LOCAL_PREFIX, rangeBound } from "../names.ts";
import { chunkCountOf, decodeLocal, encodeLocal } from "../records/body-record.ts";
import { ofChunk } from "../records/chunks.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";
import type { AssertExists } from "../transaction-state.ts";
import { readRest } from "./document-reader.ts";

export interface LocalEdit {
  /** Id including the prefix `_local/`. */
  readonly id: string;
  /** The revision known to the writer; undefined for a new document. */
  readonly parent: Revision | undefined;
  readonly body: Utf8Text;
}

export interface LocalDocumentsOptions {
  /** First id, inclusive, including the prefix. */
  readonly startId?: string;
  readonly endId?: string;
  /** Whether `endId` is included. Default: true. */
  readonly inclusiveEnd?: boolean;
  readonly limit?: number;
  readonly descending?: boolean;
}

const REVISION = /^0-([0-9]{1,15})$/;

export class LocalDocuments {
  readonly #keys: DatabaseKeys;
  readonly #assertExists: AssertExists;

  constructor(keys: DatabaseKeys, assertExists: AssertExists) {
    this.#keys = keys;
    this.#assertExists = assertExists;
  }

  async read(tx: ReadTransaction, id: string): Promise<LocalDocument | undefined> {
    checkLocalId(id);
    const first = await tx.get(this.#keys.local.key({ id, chunk: 0 }));
    return first === undefined ? undefined : this.#whole(tx, id, first);
  }

  async write(tx: Transaction, edit: LocalEdit): Promise<WriteOutcome> {
    const { id, parent } = edit;
    await this.#assertExists(tx);
    checkLocalId(id);
    revisionNumberOf(parent);
    if (
      parent !== undefined &&
      (await tx.get(this.#keys.local.key({ id, chunk: 0 }))) === undefined
    ) {
      return { kind: "conflict", id };
    }
    return this.#put(tx, edit);
  }

  #put(tx: Transaction, { id, parent, body }: LocalEdit): WriteOutcome {
    const revisionNumber = revisionNumberOf(parent) + 1;
    tx.clearRange(this.#keys.local.range({ id }));
    for (const [chunk, bytes] of encodeLocal({ revisionNumber, body }).entries()) {
      tx.set(this.#keys.local.key({ id, chunk }), bytes, ofChunk(chunk));
    }
    return { kind: "written", id, revision: `0-${revisionNumber}` };
  }

  /** Removes a local document. The outcome for a missing document is a conflict. */
  async remove(tx: Transaction, id: string, parent: Revision | undefined): Promise<WriteOutcome> {
    await this.#assertExists(tx);
    checkLocalId(id);
    revisionNumberOf(parent);
    if ((await tx.get(this.#keys.local.key({ id, chunk: 0 }))) === undefined)
      return { kind: "conflict", id };
    tx.clearRange(this.#keys.local.range({ id }));
    return { kind: "written", id, revision: "0-0" };
  }

  /** Writes a local document that is part of a batch. */
  async writeEdit(tx: Transaction, edit: DocumentEdit): Promise<WriteOutcome> {
    const { id, body } = edit;
    const parent =
      edit.mode === "interactive"
        ? edit.parent
        : `${edit.revisions.start}-${edit.revisions.hashes[0] ?? ""}`;
    if (edit.deleted) return this.remove(tx, id, parent);
    const local = { id, parent, body };
    return edit.mode === "interactive" ? this.write(tx, local) : this.#put(tx, local);
  }

  async page(
    tx: ReadTransaction,
    { startId, endId, inclusiveEnd = true, limit, descending = false }: LocalDocumentsOptions = {},
  ): Promise<Page<LocalDocument>> {
    const all = this.#keys.local.range();
    const [low, high] = descending ? [endId, startId] : [startId, endId];
    // In a descending range, `endId` is the lower bound, so `inclusiveEnd` applies to the lower
    // bound.
    const lowIsIn = !descending || inclusiveEnd;
    const highIsIn = descending || inclusiveEnd;
    let begin = low === undefined ? all.begin : this.#edge(low, !lowIsIn);
    let end = high === undefined ? all.end : this.#edge(high, highIsIn);
    const entries: LocalDocument[] = [];
    while (limit === undefined || entries.length < limit) {
      const options = { limit: 1, reverse: descending };
      const [row] = (await tx.getRangePage({ begin, end }, options)).entries;
      if (row === undefined) return { entries, stoppedBy: "exhausted" };
      const { id } = this.#keys.local.unpack(row.key);
      entries.push((await this.read(tx, id)) as LocalDocument);
      if (descending) end = this.#keys.local.range({ id }).begin;
      else begin = this.#keys.local.range({ id }).end;
    }
    return { entries, stoppedBy: "row-limit" };
  }

  /** Returns the key before all chunks of a document or, with `behind`, after them. */
  #edge(id: string, behind: boolean): Key {
    const { begin, end } = this.#keys.local.range({ id: rangeBound(id) });
    return behind ? end : begin;
  }

  async #whole(tx: ReadTransaction, id: string, first: Uint8Array): Promise<LocalDocument> {
    const keyOf = (chunk: number): Key => this.#keys.local.key({ id, chunk });
    const chunks = await readRest(tx, first, chunkCountOf(first), keyOf);
    const { revisionNumber, body } = decodeLocal(chunks);
    return { id, revision: `0-${revisionNumber}`, body };
  }
}

function checkLocalId(id: string): void {
  assert(id.startsWith(LOCAL_PREFIX), "The id of a local document must begin with _local/");
  checkDocumentId(id);
}

function revisionNumberOf(parent: Revision | undefined): number {
  if (parent === undefined) return 0;
  const match = REVISION.exec(parent);
  if (match !== null) return Number(match[1]);
  throw new OperationalError("STORE_REVISION_INVALID", "Invalid rev format", {
    revision: parent.slice(0, 100),
  });
}

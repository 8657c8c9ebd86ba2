/**
 * A database: a cheap handle on its keys. Every method takes the transaction as its first argument
 * and opens none.
 *
 * The handle may outlive the transaction that opened it. Writes check that the database has not
 * been removed or re-created. Reads do not check this: after a removal they return remaining data
 * of the removed instance. A caller that must not see such data has to open the database again in
 * each transaction.
 */
import { assert, type JsonText, OperationalError, type Page, type Runtime } from "../base/index.ts";
import type { ReadTransaction, Subspace, Transaction, Watch } from "../kv/index.ts";
import {
  ChangesFeed,
  type ChangesOfDocuments,
  type ChangesOptions,
} from "./changes/changes-feed.ts";
import type { DatabaseUpdates } from "./changes/database-updates.ts";
import { FIRST_SEQUENCE, formatSequence, parseSequence } from "./changes/sequence.ts";
import { ChangeCounts } from "./counters/change-counts.ts";
import type {
  Change,
  DatabaseInfo,
  Document,
  DocumentEdit,
  Leaf,
  LocalDocument,
  Revision,
  WriteOutcome,
} from "./document.ts";
import {
  AllDocuments,
  type AllDocumentsOptions,
  type DocumentRow,
} from "./documents/all-documents.ts";
import { BatchWriter } from "./documents/batch-writer.ts";
import { BodyRenewal, type RenewedBodies } from "./documents/body-renewal.ts";
import { Conflicts, type KeepsConflicts } from "./documents/conflicts.ts";
import { DocumentIndexes } from "./documents/document-indexes.ts";
import { DocumentPurger, type Purge, type PurgedPage } from "./documents/document-purger.ts";
import { DocumentReader, type ReadRule } from "./documents/document-reader.ts";
import { DocumentWriter } from "./documents/document-writer.ts";
import { LeafWriter } from "./documents/leaf-writer.ts";
import {
  LocalDocuments,
  type LocalDocumentsOptions,
  type LocalEdit,
} from "./documents/local-documents.ts";
import { type KeepOldBodies, OldBodies, type SweptOldBodies } from "./documents/old-bodies.ts";
import type { DatabaseHook, HookedDatabase, ReadRevisionOptions, WriteContext } from "./hooks.ts";
import { checkDocumentId, LOCAL_PREFIX } from "./names.ts";
import { bodySeals } from "./records/body-seals.ts";
import { readCounter } from "./records/counter-record.ts";
import type { DatabaseKeys, RegistryKeys } from "./records/database-keys.ts";
import {
  type DatabaseRecord,
  decodeDatabaseRecord,
  encodeDatabaseRecord,
} from "./records/database-record.ts";
import { formatRevision, parseRevision } from "./revisions/revision.ts";
import {
  type MissingRevisions,
  missingFrom,
  type RevisionStatus,
  statusesBelow,
} from "./revisions/revision-questions.ts";
import type { LeafNode } from "./revisions/revision-tree.ts";
import { readSecurity, writeSecurity } from "./security/security.ts";
import { isDatabaseAdmin, type SecuritySubject } from "./security/security-object.ts";
import {
  type LoadedDocument,
  openState,
  stateOf,
  type TransactionState,
} from "./transaction-state.ts";

/** Exclusive upper bound of the ids of index sets. */
const INDEX_SETS = 2 ** 48;

/** A request to read one revision of a document. */
export interface WantedRevision {
  readonly id: string;
  readonly revision: Revision;
}

export interface DatabaseParts {
  readonly registryKeys: RegistryKeys;
  readonly name: string;
  readonly record: DatabaseRecord;
  readonly hooks: readonly DatabaseHook[];
  readonly updates: DatabaseUpdates;
  /** Returns the security object to use until one is set. */
  readonly securityDefault: () => JsonText;
  readonly keepOldBodiesMs: KeepOldBodies;
  readonly keepsConflicts: KeepsConflicts;
  readonly readRule?: ReadRule;
}

export class Database implements HookedDatabase {
  readonly name: string;
  readonly uuid: string;
  readonly instanceStartTime: string;
  readonly keys: DatabaseKeys;
  readonly isSealed: boolean;
  /** Documents with conflicts. */
  readonly conflicts: Conflicts;
  readonly #runtime: Runtime;
  readonly #parts: DatabaseParts;
  readonly #registryKeys: RegistryKeys;
  readonly #updates: DatabaseUpdates;
  readonly #securityDefault: () => JsonText;
  readonly #reader: DocumentReader;
  readonly #batches: BatchWriter;
  readonly #purger: DocumentPurger;
  readonly #counts: ChangeCounts;
  readonly #changes: ChangesFeed;
  readonly #allDocuments: AllDocuments;
  readonly #locals: LocalDocuments;
  readonly #bodyRenewal: BodyRenewal;
  readonly #oldBodies: OldBodies;

  constructor(runtime: Runtime, parts: DatabaseParts) {
    const { registryKeys, name, record, hooks, securityDefault } = parts;
    this.#runtime = runtime;
    this.#parts = parts;
    this.name = name;
    this.uuid = record.uuid;
    this.instanceStartTime = record.instanceStartTime.toString();
    this.keys = registryKeys.databaseKeys(record.uuid);
    this.#registryKeys = registryKeys;
    this.#updates = parts.updates;
    this.#securityDefault = securityDefault;
    const { keys } = this;
    const seal = hooks.find((hook) => hook.seal !== undefined)?.seal;
    this.isSealed = seal !== undefined;
    const sealOf = bodySeals(seal, record.uuid);
    const reader = new DocumentReader(keys, record, { readRule: parts.readRule, sealOf });
    const counts = new ChangeCounts(keys, runtime.random);
    const locals = new LocalDocuments(keys);
    const leaves = new LeafWriter(runtime, this, sealOf);
    const keepMs = seal === undefined ? parts.keepOldBodiesMs : () => 0;
    const oldBodies = new OldBodies(runtime, { keys, reader, keepMs });
    const countKey = registryKeys.conflictCount.key({ name });
    const conflicts = new Conflicts(runtime.clock, {
      keys,
      countKey,
      reader,
      areKept: parts.keepsConflicts,
    });
    const indexes = new DocumentIndexes(keys, counts, conflicts);
    const writer = new DocumentWriter(runtime, { keys, reader, leaves, oldBodies, indexes });
    this.#reader = reader;
    this.#counts = counts;
    this.#batches = new BatchWriter({ runtime, keys, conflicts, writer, counts, locals, hooks });
    this.#purger = new DocumentPurger({
      keys,
      reader,
      leaves,
      conflicts,
      oldBodies,
      indexes,
      counts,
      hooks,
    });
    this.conflicts = conflicts;
    this.#changes = new ChangesFeed(keys, reader);
    this.#allDocuments = new AllDocuments(keys, reader);
    this.#locals = locals;
    this.#bodyRenewal = new BodyRenewal(keys, reader, sealOf);
    this.#oldBodies = oldBodies;
  }

  /**
   * Throws STORE_DATABASE_NOT_FOUND if the database was removed. Its removal conflicts with this
   * transaction.
   */
  async assertExists(tx: ReadTransaction): Promise<void> {
    await this.#state(tx);
  }

  async info(tx: ReadTransaction): Promise<DatabaseInfo> {
    const [documentCount, deletedDocumentCount, external, active, updateSequence, purgeCount] =
      await Promise.all([
        readCounter(tx, this.keys, "documents"),
        readCounter(tx, this.keys, "deletedDocuments"),
        readCounter(tx, this.keys, "externalBytes"),
        readCounter(tx, this.keys, "activeBytes"),
        this.updateSequence(tx),
        this.#purger.count(tx),
      ]);
    return {
      name: this.name,
      documentCount,
      deletedDocumentCount,
      updateSequence,
      purgeCount,
      instanceStartTime: this.instanceStartTime,
      uuid: this.uuid,
      sizes: { file: active, external, active },
    };
  }

  /** Whether the database contains no documents, not even deleted ones. */
  async isEmpty(tx: ReadTransaction): Promise<boolean> {
    if ((await readCounter(tx, this.keys, "documents")) > 0) return false;
    return (await readCounter(tx, this.keys, "deletedDocuments")) === 0;
  }

  // Reading

  /** Returns this database restricted to what `afterRead` hooks show to the reader. */
  async seenBy(tx: ReadTransaction, reader: SecuritySubject): Promise<Database> {
    const hooks = this.#parts.hooks.filter(({ afterRead }) => afterRead !== undefined);
    if (hooks.length === 0 || isDatabaseAdmin(await this.security(tx), reader)) return this;
    const readRule: ReadRule = (document) =>
      hooks.reduce<Document | undefined>(
        (shown, hook) => shown && hook.afterRead?.(shown, reader),
        document,
      );
    return new Database(this.#runtime, { ...this.#parts, readRule });
  }

  /** Whether the reader sees only a part of the documents. */
  get hasReadRule(): boolean {
    return this.#parts.readRule !== undefined;
  }

  /** Returns the winner, deleted or not. */
  async read(tx: ReadTransaction, id: string): Promise<Document | undefined> {
    const { tree } = await this.#reader.load(tx, id);
    const { winner } = tree;
    return winner === undefined ? undefined : this.#reader.document(tx, id, winner);
  }

  /**
   * Returns the document at a leaf, or an empty list if the revision is not a leaf. With `latest`,
   * returns the leaves that descend from it; with `superseded`, also a superseded revision whose
   * body is kept.
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

  /** Reads several revisions like `readRevision`: first all trees concurrently, then all bodies. */
  async readRevisions(
    tx: ReadTransaction,
    wanted: readonly WantedRevision[],
    { latest = false, superseded = false }: ReadRevisionOptions = {},
  ): Promise<Document[][]> {
    const ids = wanted.map(({ id }) => id);
    const loaded = await this.#reader.loadMany(tx, ids);
    const nodes = wanted.map(({ revision }, index) => {
      const { tree } = loaded[index] as LoadedDocument;
      const parts = parseRevision(revision);
      return tree.findLeaf(parts) ?? (latest || superseded ? tree.find(parts) : undefined);
    });
    const leavesOf = nodes.map((node, index) => {
      if (node === undefined || (node.leaf === undefined && !latest)) return [];
      return (loaded[index] as LoadedDocument).tree.leavesBelow(node);
    });
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
    for (const [index, node] of nodes.entries()) {
      if (node === undefined || node.leaf !== undefined) continue;
      const old = await this.#reader.oldDocument(tx, ids[index] as string, node);
      if (old !== undefined) found[index] = [old];
    }
    return found;
  }

  async winners(tx: ReadTransaction, ids: readonly string[]): Promise<(Document | undefined)[]> {
    const loaded = await this.#reader.loadMany(tx, ids);
    const nodes = loaded.map(({ tree: { winner } }) => winner);
    const there = nodes.flatMap((node, index) =>
      node === undefined ? [] : [{ id: ids[index] as string, node }],
    );
    const documents = await this.#reader.documents(tx, there);
    let next = 0;
    return nodes.map((node) => (node === undefined ? undefined : documents[next++]));
  }

  /** Returns all leaves, winner first. */
  async readLeaves(tx: ReadTransaction, id: string): Promise<Document[]> {
    const { tree } = await this.#reader.load(tx, id);
    return this.#documents(tx, id, tree.leaves);
  }

  async #documents(
    tx: ReadTransaction,
    id: string,
    leaves: readonly LeafNode[],
  ): Promise<Document[]> {
    const documents = await this.#reader.documents(
      tx,
      leaves.map((node) => ({ id, node })),
    );
    return documents.filter((document) => document !== undefined);
  }

  /** Returns all leaves, winner first; empty for an unknown document. */
  async leaves(tx: ReadTransaction, id: string): Promise<Leaf[]> {
    return (await this.leavesOf(tx, [id]))[0] as Leaf[];
  }

  /** The leaves of several documents, read together, in the order of the ids. */
  async leavesOf(tx: ReadTransaction, ids: readonly string[]): Promise<Leaf[][]> {
    const loaded = await this.#reader.loadVisible(tx, ids);
    return loaded.map(({ tree: { leaves } }) =>
      leaves.map((node) => ({ revision: formatRevision(node), deleted: node.leaf.deleted })),
    );
  }

  /**
   * The document's position in the update sequence, or `undefined` for an unknown document. Must
   * not be called for a document written by this transaction.
   */
  async documentSequence(tx: ReadTransaction, id: string): Promise<string | undefined> {
    const { place } = await this.#reader.load(tx, id);
    assert(
      place.kind !== "written",
      "The sequence of a document must not be read in the transaction that wrote it",
    );
    return place.kind === "stored" ? formatSequence(place.versionstamp) : undefined;
  }

  /**
   * The revision and its known ancestors, with the status of their bodies. Empty for an unknown
   * revision.
   */
  async revisionStatuses(
    tx: ReadTransaction,
    id: string,
    revision: Revision,
  ): Promise<RevisionStatus[]> {
    const { tree } = await this.#reader.load(tx, id);
    return statusesBelow(tree, revision, (node) => this.#reader.hasOldBody(tx, id, node));
  }

  /** The revisions that each document's tree lacks, and leaves that may be their ancestors. */
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

  /** Documents that are not deleted, in byte order of their ids. */
  allDocuments(tx: ReadTransaction, options: AllDocumentsOptions = {}): Promise<Page<DocumentRow>> {
    return this.#allDocuments.page(tx, options);
  }

  // Writing

  async write(tx: Transaction, edit: DocumentEdit, context: WriteContext): Promise<WriteOutcome> {
    const [outcome] = await this.writeMany(tx, [edit], context);
    return outcome as WriteOutcome;
  }

  /**
   * Writes the edits in order, including local documents, and returns an outcome for each. Throws
   * STORE_DOCUMENT_ID_INVALID, STORE_REVISION_INVALID, STORE_ATTACHMENT_NAME_INVALID and
   * STORE_DOCUMENT_TOO_LARGE; the caller must then abandon the transaction.
   */
  async writeMany(
    tx: Transaction,
    edits: readonly DocumentEdit[],
    context: WriteContext,
  ): Promise<WriteOutcome[]> {
    for (const { id } of edits) checkDocumentId(id);
    if (edits.length === 0) return [];
    const outcomes = await this.#batches.write(
      { tx, state: await this.#state(tx), database: this, context },
      edits,
    );
    await this.#noteUpdate(tx, outcomes);
    return outcomes;
  }

  /**
   * Removes leaves, and the ancestors that no other leaf shares, as if they had never existed
   * (`_purge`). A transaction clears a bounded number of records; the caller passes the returned
   * `rest` to the next transaction. Purges of one database conflict with each other.
   */
  async purge(
    tx: Transaction,
    purges: readonly Purge[],
    context: WriteContext,
  ): Promise<PurgedPage> {
    const page = await this.#purger.purge(
      { tx, state: await this.#state(tx), database: this, context },
      purges,
    );
    if (page.purged.length > 0) await this.#updates.note(tx, this.name, "updated");
    return page;
  }

  /** Returns the stored purge records, oldest first. */
  purgedInfos(tx: ReadTransaction): Promise<Purge[]> {
    return this.#purger.infos(tx);
  }

  /** Returns the maximum number of remembered purges. */
  purgedInfosLimit(tx: ReadTransaction): Promise<number> {
    return this.#purger.infosLimit(tx);
  }

  /**
   * Sets the number of purge records to keep, a positive integer. Takes effect at the next purge.
   */
  async setPurgedInfosLimit(tx: Transaction, limit: number): Promise<void> {
    await this.#state(tx);
    this.#purger.setInfosLimit(tx, limit);
  }

  /**
   * Rewrites bodies of a document that are unsealed or sealed with an outdated key, starting at
   * leaf `firstLeaf`, as many as fit into one transaction. Invisible to readers. Must not be called
   * for a document written by this transaction.
   */
  async renewBodies(tx: Transaction, id: string, firstLeaf: number): Promise<RenewedBodies> {
    await this.#state(tx);
    return this.#bodyRenewal.renew(tx, id, firstLeaf);
  }

  /** Whether any bodies superseded before `beforeMs` remain to be swept. */
  hasOldBodies(tx: ReadTransaction, beforeMs: number): Promise<boolean> {
    return this.#oldBodies.areThere(tx, beforeMs);
  }

  /**
   * Clears one page of bodies superseded before `beforeMs`. A sweep repeats this until the last
   * page.
   */
  async sweepOldBodies(tx: Transaction, beforeMs: number): Promise<SweptOldBodies> {
    await this.#state(tx);
    return this.#oldBodies.sweep(tx, beforeMs);
  }

  async #noteUpdate(tx: Transaction, outcomes: readonly WriteOutcome[]): Promise<void> {
    const isUpdate = outcomes.some(
      ({ kind, id }) => kind === "written" && !id.startsWith(LOCAL_PREFIX),
    );
    if (isUpdate) await this.#updates.note(tx, this.name, "updated");
  }

  // Changes

  /**
   * Returns one page of the update sequence, which lists each document once, at its latest change.
   */
  changes(tx: ReadTransaction, options: ChangesOptions): Promise<Page<Change>> {
    return this.#changes.page(tx, options);
  }

  /**
   * Like `changes`, for some documents only. Looks up each document, which for a few documents is
   * far cheaper than reading all changes.
   */
  changesOf(
    tx: ReadTransaction,
    ids: readonly string[],
    options: Omit<ChangesOptions, "byteLimit">,
  ): Promise<ChangesOfDocuments> {
    return this.#changes.pageOf(tx, ids, options);
  }

  /** Returns the number of changes after the sequence. */
  pendingChanges(tx: ReadTransaction, since: string): Promise<number> {
    return this.#counts.countAfter(tx, parseSequence(since));
  }

  /**
   * Returns the sequence of the last change, or of the last purge if that is later; initially the
   * first sequence. Never decreases.
   */
  async updateSequence(tx: ReadTransaction): Promise<string> {
    const [last, purged] = await Promise.all([
      this.#changes.lastVersionstamp(tx),
      this.#purger.lastVersionstamp(tx),
    ]);
    const later =
      last === undefined || (purged !== undefined && purged.compare(last) > 0) ? purged : last;
    return later === undefined ? FIRST_SEQUENCE : formatSequence(later);
  }

  /**
   * Fires after the next commit that writes a document of this database or removes the database.
   */
  watchChanges(tx: Transaction): Watch {
    return tx.watch(this.keys.changed.key({}));
  }

  // Local documents

  readLocal(tx: ReadTransaction, id: string): Promise<LocalDocument | undefined> {
    return this.#locals.read(tx, id);
  }

  async writeLocal(tx: Transaction, edit: LocalEdit): Promise<WriteOutcome> {
    await this.#state(tx);
    return this.#locals.write(tx, edit);
  }

  async deleteLocal(
    tx: Transaction,
    id: string,
    parent: Revision | undefined,
  ): Promise<WriteOutcome> {
    await this.#state(tx);
    return this.#locals.remove(tx, id, parent);
  }

  localDocuments(
    tx: ReadTransaction,
    options: LocalDocumentsOptions = {},
  ): Promise<Page<LocalDocument>> {
    return this.#locals.page(tx, options);
  }

  // Settings

  /** Returns the security object as JSON text. */
  async security(tx: ReadTransaction): Promise<JsonText> {
    return (await readSecurity(tx, this.keys)) ?? this.#securityDefault();
  }

  async setSecurity(tx: Transaction, text: JsonText): Promise<void> {
    await this.#state(tx);
    writeSecurity(tx, this.keys, text);
  }

  /** Returns the maximum number of revisions remembered per branch. */
  async revisionLimit(tx: ReadTransaction): Promise<number> {
    return (await this.#record(tx)).revisionLimit;
  }

  /**
   * Takes effect on each document with its next write. Conflicts with concurrent writes in this
   * database.
   */
  async setRevisionLimit(tx: Transaction, revisionLimit: number): Promise<void> {
    if (!Number.isSafeInteger(revisionLimit) || revisionLimit < 1) {
      throw new OperationalError(
        "STORE_REVISION_LIMIT_INVALID",
        "The limit must be a positive integer",
        {
          revisionLimit,
        },
      );
    }
    const record = { ...(await this.#record(tx)), revisionLimit };
    tx.set(this.#registryKeys.database.key({ name: this.name }), encodeDatabaseRecord(record));
  }

  get indexSubspace(): Subspace {
    return this.keys.indexes;
  }

  async indexSet(tx: ReadTransaction): Promise<number> {
    return (await this.#record(tx)).indexSet;
  }

  async changeIndexSet(tx: Transaction, isEmpty: boolean): Promise<void> {
    const state = await this.#state(tx);
    // The id is random, so that it differs from ids chosen by transactions that were not committed.
    const indexSet = isEmpty ? 0 : 1 + this.#runtime.random.integer(INDEX_SETS - 1);
    const record = { ...(await this.#record(tx)), indexSet };
    state.database = record;
    tx.set(this.#registryKeys.database.key({ name: this.name }), encodeDatabaseRecord(record));
  }

  /**
   * Returns the transaction's state for this database. The first call reads the registry, so that a
   * concurrent removal conflicts with this transaction.
   */
  async #state(tx: ReadTransaction): Promise<TransactionState> {
    return stateOf(tx, this.uuid) ?? openState(tx, await this.#record(tx));
  }

  async #record(tx: ReadTransaction): Promise<DatabaseRecord> {
    const value = await tx.get(this.#registryKeys.database.key({ name: this.name }));
    const record = value === undefined ? undefined : decodeDatabaseRecord(value);
    if (record?.uuid !== this.uuid) {
      throw new OperationalError("STORE_DATABASE_NOT_FOUND", "Database does not exist", {
        database: this.name,
      });
    }
    return record as DatabaseRecord;
  }
}

function isShown(document: Document | undefined): document is Document {
  return document !== undefined;
}

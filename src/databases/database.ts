/**
 * A database: a cheap handle on its keys. Every method takes the transaction as its first argument;
 * no method opens a transaction.
 *
 * The handle can outlive the transaction that opened it. Writes check that the database has not
 * been removed or re-created. Reads do not check this: after a removal they return remaining data
 * of the removed instance. A caller that must not see such data has to open the database again in
 * each transaction.
 */
import { type JsonText, OperationalError, type Runtime } from "../base/index.ts";
import type { ReadTransaction, Subspace, Transaction } from "../kv/index.ts";
import { ChangesFeed } from "./changes/changes-feed.ts";
import type { DatabaseUpdates } from "./changes/database-updates.ts";
import type { StoreTimes } from "./changes/store-times.ts";
import { Times } from "./changes/times.ts";
import { Tombstones } from "./changes/tombstones.ts";
import { ChangeCounts } from "./counters/change-counts.ts";
import type { DatabaseInfo, Document, DocumentEdit, WriteOutcome } from "./document.ts";
import { AllDocuments } from "./documents/all-documents.ts";
import { BatchWriter } from "./documents/batch-writer.ts";
import { BodyRenewal } from "./documents/body-renewal.ts";
import { Conflicts, type IsFormat3 } from "./documents/conflicts.ts";
import { DocumentIndexes } from "./documents/document-indexes.ts";
import { DocumentPurger, type Purge, type PurgedPage } from "./documents/document-purger.ts";
import { DocumentReader, type ReadRule } from "./documents/document-reader.ts";
import { DocumentRows } from "./documents/document-rows.ts";
import { DocumentWriter } from "./documents/document-writer.ts";
import { Documents } from "./documents/documents.ts";
import { LeafWriter } from "./documents/leaf-writer.ts";
import { LocalDocuments } from "./documents/local-documents.ts";
import { type KeepOldBodies, OldBodies } from "./documents/old-bodies.ts";
import { PurgeSize } from "./documents/purge-size.ts";
import { Resolutions } from "./documents/resolutions.ts";
import type { DatabaseHook, HookedDatabase, WriteContext } from "./hooks.ts";
import { checkDocumentId, LOCAL_PREFIX } from "./names.ts";
import { bodySeals } from "./records/body-seals.ts";
import { readCounter } from "./records/counter-record.ts";
import type { DatabaseKeys, RegistryKeys } from "./records/database-keys.ts";
import {
  type DatabaseRecord,
  decodeDatabaseRecord,
  encodeDatabaseRecord,
} from "./records/database-record.ts";
import { readSecurity, writeSecurity } from "./security/security.ts";
import { isDatabaseAdmin, type SecuritySubject } from "./security/security-object.ts";
import { openState, stateOf, type TransactionState } from "./transaction-state.ts";

/** Exclusive upper bound of the ids of index sets. */
const INDEX_SETS = 2 ** 48;

export interface DatabaseParts {
  readonly registryKeys: RegistryKeys;
  readonly name: string;
  readonly record: DatabaseRecord;
  readonly hooks: readonly DatabaseHook[];
  readonly updates: DatabaseUpdates;
  readonly storeTimes: StoreTimes;
  /** Returns the security object to use until one is set. */
  readonly securityDefault: () => JsonText;
  readonly keepOldBodiesMs: KeepOldBodies;
  readonly isFormat3: IsFormat3;
  readonly readRule?: ReadRule;
}

export class Database implements HookedDatabase {
  readonly name: string;
  readonly uuid: string;
  readonly instanceStartTime: string;
  readonly keys: DatabaseKeys;
  readonly isSealed: boolean;
  readonly documents: Documents;
  readonly allDocuments: AllDocuments;
  readonly changes: ChangesFeed;
  readonly local: LocalDocuments;
  readonly conflicts: Conflicts;
  readonly resolutions: Resolutions;
  readonly purges: DocumentPurger;
  readonly times: Times;
  readonly tombstones: Tombstones;
  readonly oldBodies: OldBodies;
  readonly bodyRenewal: BodyRenewal;
  readonly #runtime: Runtime;
  readonly #parts: DatabaseParts;
  readonly #registryKeys: RegistryKeys;
  readonly #updates: DatabaseUpdates;
  readonly #securityDefault: () => JsonText;
  readonly #batches: BatchWriter;

  constructor(runtime: Runtime, parts: DatabaseParts) {
    const { registryKeys, name, record, hooks, securityDefault } = parts;
    this.#runtime = runtime;
    this.#parts = parts;
    this.name = name;
    this.uuid = record.uuid;
    this.instanceStartTime = record.instanceStartTime.toString();
    this.keys = registryKeys.databaseKeys(record);
    this.#registryKeys = registryKeys;
    this.#updates = parts.updates;
    this.#securityDefault = securityDefault;
    const { keys } = this;
    const seal = hooks.find((hook) => hook.seal !== undefined)?.seal;
    this.isSealed = seal !== undefined;
    const sealOf = bodySeals(seal, record.uuid);
    const rows = new DocumentRows(keys, record);
    const read = { readRule: parts.readRule, sealOf };
    const reader = new DocumentReader({ clock: runtime.clock, keys, rows }, record, read);
    const counts = new ChangeCounts(keys, runtime.random);
    const leaves = new LeafWriter(runtime, this, sealOf);
    const keepMs = seal === undefined ? parts.keepOldBodiesMs : () => 0;
    const assertExists = (tx: ReadTransaction) => this.assertExists(tx);
    const oldBodies = new OldBodies(runtime, { keys, reader, keepMs, assertExists });
    const countKey = registryKeys.conflictCount.key({ name });
    const conflicts = new Conflicts(runtime.clock, {
      keys,
      countKey,
      reader,
      isFormat3: parts.isFormat3,
    });
    const indexes = new DocumentIndexes(runtime.clock, keys, { rows, counts, conflicts });
    const writer = new DocumentWriter(runtime, { keys, reader, leaves, oldBodies, indexes });
    this.documents = new Documents(reader);
    this.allDocuments = new AllDocuments(rows, reader);
    this.local = new LocalDocuments(keys, assertExists);
    this.conflicts = conflicts;
    const policyKey = registryKeys.conflictPolicy.key({ name });
    this.resolutions = new Resolutions(runtime.clock, { keys, policyKey, assertExists });
    this.oldBodies = oldBodies;
    this.bodyRenewal = new BodyRenewal({ keys, rows, reader, sealOf, assertExists });
    this.purges = new DocumentPurger({
      keys,
      reader,
      leaves,
      conflicts,
      oldBodies,
      indexes,
      counts,
      hooks,
      assertExists,
    });
    this.changes = new ChangesFeed({ keys, reader, counts, purges: this.purges });
    const { local, changes } = this;
    const { storeTimes } = parts;
    this.times = new Times({ keys, storeTimes, counts, changes, assertExists });
    this.tombstones = new Tombstones({
      ...{ keys, reader, changes, assertExists },
      times: this.times,
      purge: (tx, purges, context, size) => this.purge(tx, purges, context, size),
    });
    this.#batches = new BatchWriter({
      ...{ runtime, keys, conflicts, writer, indexes, counts, local, hooks },
    });
  }

  /**
   * Throws STORE_DATABASE_NOT_FOUND if the database was removed. A concurrent removal conflicts
   * with this transaction.
   */
  async assertExists(tx: ReadTransaction): Promise<void> {
    await this.#state(tx);
  }

  async info(tx: ReadTransaction): Promise<DatabaseInfo> {
    const [updateSequence, purgeCount, ...counts] = await Promise.all([
      this.changes.lastSequence(tx),
      this.purges.count(tx),
      readCounter(tx, this.keys, "documents"),
      readCounter(tx, this.keys, "deletedDocuments"),
      readCounter(tx, this.keys, "externalBytes"),
      readCounter(tx, this.keys, "activeBytes"),
      readCounter(tx, this.keys, "supersededBytes"),
    ]);
    const [documentCount, deletedDocumentCount, external, active, superseded] = counts;
    return {
      name: this.name,
      documentCount,
      deletedDocumentCount,
      updateSequence,
      purgeCount,
      instanceStartTime: this.instanceStartTime,
      uuid: this.uuid,
      sizes: { file: active + superseded, external, active },
    };
  }

  // Reading

  /**
   * Returns this database with the documents and members that `afterRead` hooks show to the reader.
   */
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
   * `rest` to the next transaction. If a transaction is too large, the caller repeats it with a
   * smaller `size`. Purges of one database conflict with each other.
   */
  async purge(
    tx: Transaction,
    purges: readonly Purge[],
    context: WriteContext,
    size = new PurgeSize(),
  ): Promise<PurgedPage> {
    const page = await this.purges.purge(
      { tx, state: await this.#state(tx), database: this, context },
      purges,
      size,
    );
    if (page.purged.length > 0) await this.#updates.note(tx, this.name, "updated");
    return page;
  }

  async #noteUpdate(tx: Transaction, outcomes: readonly WriteOutcome[]): Promise<void> {
    const isUpdate = outcomes.some(
      ({ kind, id }) => kind === "written" && !id.startsWith(LOCAL_PREFIX),
    );
    if (isUpdate) await this.#updates.note(tx, this.name, "updated");
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
   * Sets the maximum number of revisions remembered per branch. Each document is stemmed at its
   * next write. Conflicts with concurrent writes in this database.
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
    // The id is random, so that ids chosen by transactions that did not commit are not used again.
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

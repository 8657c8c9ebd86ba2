/**
 * One database: a cheap handle on its keys. Every method takes the transaction first; nothing here opens one.
 *
 * The handle may outlive the transaction that opened it. Writes make sure that the database is still the one it was;
 * reads of a removed database find nothing.
 */
import { type JsonText, OperationalError, type Page, type Runtime } from "../base/index.ts";
import type { Key, ReadTransaction, Transaction, Versionstamp, Watch } from "../kv/index.ts";
import { AllDocuments, type AllDocumentsOptions, type DocumentRow } from "./all-documents.ts";
import { ChangeCounts } from "./change-counts.ts";
import { ChangesFeed, type ChangesOptions } from "./changes-feed.ts";
import { CounterDeltas } from "./counter-deltas.ts";
import { readCounter } from "./counter-record.ts";
import type { DatabaseKeys, RegistryKeys } from "./database-keys.ts";
import {
  type DatabaseRecord,
  decodeDatabaseRecord,
  encodeDatabaseRecord,
} from "./database-record.ts";
import type { DatabaseUpdates } from "./database-updates.ts";
import type {
  Change,
  DatabaseInfo,
  Document,
  DocumentEdit,
  Leaf,
  LocalDocument,
  Revision,
  WriteContext,
  WriteOutcome,
} from "./document.ts";
import { DocumentReader } from "./document-reader.ts";
import { DocumentWriter, isStale, type Prepared } from "./document-writer.ts";
import type { DatabaseHook } from "./hooks.ts";
import { LocalDocuments, type LocalDocumentsOptions, type LocalEdit } from "./local-documents.ts";
import { checkDocumentId, LOCAL_PREFIX } from "./names.ts";
import { formatRevision, parseRevision } from "./revision.ts";
import type { LeafNode, RevisionNode } from "./revision-tree.ts";
import { readSecurity, writeSecurity } from "./security.ts";
import { formatSequence, parseSequence } from "./sequence.ts";
import { openState, stateOf, type TransactionState } from "./transaction-state.ts";

/** A revision's place in `_revs_info`. */
export interface RevisionStatus {
  readonly revision: Revision;
  readonly status: "available" | "missing" | "deleted";
}

export interface MissingRevisions {
  readonly missing: readonly Revision[];
  readonly possibleAncestors: readonly Revision[];
}

export interface DatabaseParts {
  readonly registryKeys: RegistryKeys;
  readonly name: string;
  readonly record: DatabaseRecord;
  readonly hooks: readonly DatabaseHook[];
  readonly updates: DatabaseUpdates;
  /** The security object until somebody sets one. */
  readonly securityDefault: () => JsonText;
}

export class Database {
  readonly name: string;
  readonly uuid: string;
  readonly instanceStartTime: string;
  readonly keys: DatabaseKeys;
  readonly #registryKeys: RegistryKeys;
  readonly #hooks: readonly DatabaseHook[];
  readonly #updates: DatabaseUpdates;
  readonly #securityDefault: () => JsonText;
  readonly #reader: DocumentReader;
  readonly #writer: DocumentWriter;
  readonly #counts: ChangeCounts;
  readonly #changes: ChangesFeed;
  readonly #allDocuments: AllDocuments;
  readonly #locals: LocalDocuments;

  constructor(runtime: Runtime, parts: DatabaseParts) {
    const { registryKeys, name, record, hooks, securityDefault } = parts;
    this.name = name;
    this.uuid = record.uuid;
    this.instanceStartTime = record.instanceStartTime.toString();
    this.keys = registryKeys.databaseKeys(record.uuid);
    this.#registryKeys = registryKeys;
    this.#hooks = hooks;
    this.#updates = parts.updates;
    this.#securityDefault = securityDefault;
    const { keys } = this;
    const reader = new DocumentReader(keys, record.uuid);
    const counts = new ChangeCounts(keys, runtime.random);
    this.#reader = reader;
    this.#counts = counts;
    this.#writer = new DocumentWriter(runtime, { keys, reader, counts });
    this.#changes = new ChangesFeed(keys, reader);
    this.#allDocuments = new AllDocuments(keys, reader);
    this.#locals = new LocalDocuments(keys);
  }

  /** Throws STORE_DATABASE_NOT_FOUND when the database was removed; its removal conflicts with this transaction. */
  async assertExists(tx: ReadTransaction): Promise<void> {
    await this.#state(tx);
  }

  async info(tx: ReadTransaction): Promise<DatabaseInfo> {
    const [documentCount, deletedDocumentCount, external, active, updateSequence] =
      await Promise.all([
        readCounter(tx, this.keys, "documents"),
        readCounter(tx, this.keys, "deletedDocuments"),
        readCounter(tx, this.keys, "externalBytes"),
        readCounter(tx, this.keys, "activeBytes"),
        this.updateSequence(tx),
      ]);
    return {
      name: this.name,
      documentCount,
      deletedDocumentCount,
      updateSequence,
      instanceStartTime: this.instanceStartTime,
      uuid: this.uuid,
      sizes: { file: active, external, active },
    };
  }

  // Reading

  /** The winner, deleted or not. */
  async read(tx: ReadTransaction, id: string): Promise<Document | undefined> {
    const { tree } = await this.#reader.load(tx, id);
    const { winner } = tree;
    return winner === undefined ? undefined : this.#reader.document(tx, id, winner);
  }

  /** Empty when the revision is not known or its body is gone; with `latest`, the leaves that descend from it. */
  async readRevision(
    tx: ReadTransaction,
    id: string,
    revision: Revision,
    { latest = false }: { readonly latest?: boolean } = {},
  ): Promise<Document[]> {
    const { tree } = await this.#reader.load(tx, id);
    const parts = parseRevision(revision);
    let leaves: readonly LeafNode[];
    if (latest) {
      const node = tree.find(parts);
      leaves = node === undefined ? [] : tree.leavesBelow(node);
    } else {
      const leaf = tree.findLeaf(parts);
      leaves = leaf === undefined ? [] : [leaf];
    }
    return Promise.all(leaves.map((leaf) => this.#reader.document(tx, id, leaf)));
  }

  /** All leaves, winner first. */
  async readLeaves(tx: ReadTransaction, id: string): Promise<Document[]> {
    const { tree } = await this.#reader.load(tx, id);
    return Promise.all(tree.leaves.map((leaf) => this.#reader.document(tx, id, leaf)));
  }

  /** Winner first; empty for an unknown document. */
  async leaves(tx: ReadTransaction, id: string): Promise<Leaf[]> {
    const { tree } = await this.#reader.load(tx, id);
    return tree.leaves.map((node) => ({
      revision: formatRevision(node),
      deleted: node.leaf.deleted,
    }));
  }

  /** The revision and its known ancestors, and which bodies are there. Empty for an unknown revision. */
  async revisionStatuses(
    tx: ReadTransaction,
    id: string,
    revision: Revision,
  ): Promise<RevisionStatus[]> {
    const { tree } = await this.#reader.load(tx, id);
    const statuses: RevisionStatus[] = [];
    let node: RevisionNode | undefined = tree.find(parseRevision(revision));
    for (; node !== undefined; node = node.parent) {
      const status =
        node.leaf === undefined ? "missing" : node.leaf.deleted ? "deleted" : "available";
      statuses.push({ revision: formatRevision(node), status });
    }
    return statuses;
  }

  /** Which of the revisions are not in the tree, and the leaves that may be their ancestors. */
  async missingRevisions(
    tx: ReadTransaction,
    id: string,
    revisions: readonly Revision[],
  ): Promise<MissingRevisions> {
    const { tree } = await this.#reader.load(tx, id);
    const asked = revisions.map((revision) => ({ revision, parts: parseRevision(revision) }));
    const missing = asked.filter(({ parts }) => tree.find(parts) === undefined);
    const generationMax = Math.max(0, ...missing.map(({ parts }) => parts.generation));
    const ancestors = tree.leaves.filter(({ generation }) => generation < generationMax);
    return {
      missing: missing.map(({ revision }) => revision),
      possibleAncestors: ancestors.map(formatRevision),
    };
  }

  /** Documents that are not deleted, in the byte order of their ids. */
  allDocuments(tx: ReadTransaction, options: AllDocumentsOptions = {}): Promise<Page<DocumentRow>> {
    return this.#allDocuments.page(tx, options);
  }

  // Writing

  async write(tx: Transaction, edit: DocumentEdit, context: WriteContext): Promise<WriteOutcome> {
    const [outcome] = await this.writeMany(tx, [edit], context);
    return outcome as WriteOutcome;
  }

  /**
   * The edits in their order, as if written one after the other, and an outcome for each. Local documents among them are
   * written too. Throws STORE_DOCUMENT_ID_INVALID, STORE_REVISION_INVALID, STORE_ATTACHMENT_NAME_INVALID and
   * STORE_DOCUMENT_TOO_LARGE, for which the transaction is to be given up.
   */
  async writeMany(
    tx: Transaction,
    edits: readonly DocumentEdit[],
    context: WriteContext,
  ): Promise<WriteOutcome[]> {
    for (const { id } of edits) checkDocumentId(id);
    if (edits.length === 0) return [];
    const state = await this.#state(tx);
    await this.#counts.begin(tx, state, edits.length);
    const outcomes: WriteOutcome[] = new Array(edits.length);
    for (const round of this.#rounds(edits)) {
      const written = await this.#writeRound(tx, state, round, context);
      for (const [at, { index }] of round.entries()) outcomes[index] = written[at] as WriteOutcome;
    }
    await this.#noteUpdate(tx, outcomes);
    return outcomes;
  }

  async #noteUpdate(tx: Transaction, outcomes: readonly WriteOutcome[]): Promise<void> {
    const isUpdate = outcomes.some(
      ({ kind, id }) => kind === "written" && !id.startsWith(LOCAL_PREFIX),
    );
    if (isUpdate) await this.#updates.note(tx, this.name, "updated");
  }

  // Changes

  /** One page of the update sequence: each document at its latest change. */
  changes(tx: ReadTransaction, options: ChangesOptions): Promise<Page<Change>> {
    return this.#changes.page(tx, options);
  }

  /** How many entries stand behind the sequence. */
  pendingChanges(tx: ReadTransaction, since: string): Promise<number> {
    return this.#counts.countAfter(tx, parseSequence(since));
  }

  /** The sequence of the last change; of a database that never had one, the first sequence. */
  async updateSequence(tx: ReadTransaction): Promise<string> {
    const { begin, end } = this.keys.changes();
    const page = await tx.snapshot.getRangePage({ begin, end }, { limit: 1, reverse: true });
    const last = page.entries[0];
    return last === undefined ? "0" : formatSequence(this.keys.changeVersionstamp(last.key));
  }

  /** Fires after the next commit that writes a document here, or removes the database. */
  watchChanges(tx: Transaction): Watch {
    return tx.watch(this.keys.changed());
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

  /** The security object's text. */
  async security(tx: ReadTransaction): Promise<JsonText> {
    return (await readSecurity(tx, this.keys)) ?? this.#securityDefault();
  }

  async setSecurity(tx: Transaction, text: JsonText): Promise<void> {
    await this.#state(tx);
    writeSecurity(tx, this.keys, text);
  }

  /** How many revisions of a branch are remembered. */
  async revisionLimit(tx: ReadTransaction): Promise<number> {
    return (await this.#record(tx)).revisionLimit;
  }

  /** Takes effect on each document at its next write. Conflicts with all who write here at the moment. */
  async setRevisionLimit(tx: Transaction, revisionLimit: number): Promise<void> {
    if (!Number.isSafeInteger(revisionLimit) || revisionLimit < 1) {
      throw new OperationalError(
        "STORE_REVISION_LIMIT_INVALID",
        "The limit is a positive integer",
        {
          revisionLimit,
        },
      );
    }
    const record = { ...(await this.#record(tx)), revisionLimit };
    tx.set(this.#registryKeys.database(this.name), encodeDatabaseRecord(record));
  }

  /** Groups of edits that do not depend on each other: no document twice, and one by one when a hook writes after each. */
  #rounds(edits: readonly DocumentEdit[]): { edit: DocumentEdit; index: number }[][] {
    const indexed = edits.map((edit, index) => ({ edit, index }));
    if (this.#hooks.some((hook) => hook.afterWrite !== undefined)) {
      return indexed.map((entry) => [entry]);
    }
    const rounds: { edit: DocumentEdit; index: number }[][] = [];
    const depths = new Map<string, number>();
    for (const entry of indexed) {
      const depth = depths.get(entry.edit.id) ?? 0;
      depths.set(entry.edit.id, depth + 1);
      const round = rounds[depth];
      if (round === undefined) rounds.push([entry]);
      else round.push(entry);
    }
    return rounds;
  }

  async #writeRound(
    tx: Transaction,
    state: TransactionState,
    round: readonly { readonly edit: DocumentEdit }[],
    context: WriteContext,
  ): Promise<WriteOutcome[]> {
    const prepared = await Promise.all(
      round.map(({ edit }) => this.#prepare(tx, state, edit, context)),
    );
    let lefts: (Key | undefined)[];
    for (;;) {
      lefts = await this.#counts.prepareLeave(tx, state, prepared.map(storedPlace));
      const stale = [...prepared.entries()].filter(([, entry]) => {
        return !("kind" in entry) && isStale(state, entry);
      });
      if (stale.length === 0) break;
      for (const [index] of stale) {
        const { edit } = round[index] as { readonly edit: DocumentEdit };
        prepared[index] = await this.#prepare(tx, state, edit, context);
      }
    }
    const deltas = new CounterDeltas(this.keys);
    const outcomes = prepared.map((entry, index) => {
      if ("kind" in entry) return entry;
      return this.#writer.carryOut(tx, state, entry, { deltas, left: lefts[index] });
    });
    deltas.apply(tx);
    this.#counts.finish(tx, state);
    for (const outcome of outcomes) {
      if (outcome.kind === "written" && !outcome.id.startsWith(LOCAL_PREFIX)) {
        await this.#announce(tx, outcome.id, context);
      }
    }
    return outcomes;
  }

  async #prepare(
    tx: Transaction,
    state: TransactionState,
    edit: DocumentEdit,
    context: WriteContext,
  ): Promise<Prepared | WriteOutcome> {
    if (edit.id.startsWith(LOCAL_PREFIX)) return this.#locals.writeEdit(tx, edit);
    const judged = await this.#writer.judge(tx, state, edit);
    if (judged.kind === "outcome") return judged.outcome;
    let accepted = edit;
    for (const hook of this.#hooks) {
      const verdict = await hook.beforeWrite?.(tx, this, accepted, context);
      if (verdict === undefined) continue;
      if ("rejected" in verdict) {
        const { rejected, reason } = verdict;
        return { kind: "rejected", id: edit.id, error: rejected, reason } as const;
      }
      accepted = verdict.edit;
    }
    return this.#writer.prepare(tx, accepted, judged);
  }

  async #announce(tx: Transaction, id: string, context: WriteContext): Promise<void> {
    for (const hook of this.#hooks) {
      if (hook.afterWrite === undefined) continue;
      const winner = await this.read(tx, id);
      await hook.afterWrite(tx, this, winner as Document, context);
    }
  }

  /** The transaction's state here. Its first use reads the registry, so that a removal conflicts with this transaction. */
  async #state(tx: ReadTransaction): Promise<TransactionState> {
    return stateOf(tx, this.uuid) ?? openState(tx, await this.#record(tx));
  }

  async #record(tx: ReadTransaction): Promise<DatabaseRecord> {
    const value = await tx.get(this.#registryKeys.database(this.name));
    const record = value === undefined ? undefined : decodeDatabaseRecord(value);
    if (record?.uuid !== this.uuid) {
      throw new OperationalError("STORE_DATABASE_NOT_FOUND", "Database does not exist", {
        database: this.name,
      });
    }
    return record as DatabaseRecord;
  }
}

/** The place that a document leaves when it is written. */
function storedPlace(entry: Prepared | WriteOutcome): Versionstamp | undefined {
  if ("kind" in entry) return undefined;
  const { place } = entry.judged.loaded;
  return place.kind === "stored" ? place.versionstamp : undefined;
}

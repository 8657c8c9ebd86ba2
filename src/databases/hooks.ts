/**
 * What the layers above may do in a transaction that writes here: refuse or change an edit before it is written, and
 * add writes of their own after it. So a replication document and its job are written in one transaction.
 */
import type { JsonText, Page, Seal } from "../base/index.ts";
import type { ReadTransaction, Subspace, Transaction } from "../kv/index.ts";
import type { Document, DocumentEdit, Leaf, Revision, WriteOutcome } from "./document.ts";
import type { AllDocumentsOptions, DocumentRow } from "./documents/all-documents.ts";
import type { SecuritySubject } from "./security/security-object.ts";

export interface ReadRevisionOptions {
  /** The leaves that descend from it instead. */
  readonly latest?: boolean;
  /** Also a revision that another one follows, while its body is kept. Not together with `latest`. */
  readonly superseded?: boolean;
}

/** The database that a hook belongs to, as far as hooks use it. */
export interface HookedDatabase {
  readonly name: string;
  readonly uuid: string;
  security(tx: ReadTransaction): Promise<JsonText>;
  /** The winner, deleted or not. */
  read(tx: ReadTransaction, id: string): Promise<Document | undefined>;
  /** Empty when the revision is no leaf; the options ask for others, too. */
  readRevision(
    tx: ReadTransaction,
    id: string,
    revision: Revision,
    options?: ReadRevisionOptions,
  ): Promise<Document[]>;
  leaves(tx: ReadTransaction, id: string): Promise<Leaf[]>;
  /** The winners of documents, in one read and in the order of the ids; undefined for one without leaves, and for a hidden one. */
  winners(tx: ReadTransaction, ids: readonly string[]): Promise<(Document | undefined)[]>;
  /** Whether bodies are sealed in the store: then nothing of them may be stored elsewhere. */
  readonly isSealed: boolean;
  /** Where a layer above keeps the indexes of the database; it is cleared with the database. */
  readonly indexSubspace: Subspace;
  /** The set of indexes that every write keeps up to date; 0 without indexes. Its change conflicts with this transaction. */
  indexSet(tx: ReadTransaction): Promise<number>;
  /** Draws a new name for a changed set, or sets 0 for an empty one. Conflicts with all who write here at the moment. */
  changeIndexSet(tx: Transaction, isEmpty: boolean): Promise<void>;
  /** After the write that the hook follows. */
  write(tx: Transaction, edit: DocumentEdit, context: WriteContext): Promise<WriteOutcome>;
  allDocuments(tx: ReadTransaction, options?: AllDocumentsOptions): Promise<Page<DocumentRow>>;
}

export type EditVerdict =
  | { readonly edit: DocumentEdit }
  | {
      /** `forbidden`, `unauthorized`, or the name of what went wrong while it was judged. */
      readonly rejected: string;
      readonly reason: string;
    };

/** What the functions of design documents say of a user's edit; the layer above knows how to ask them. */
export interface WriteValidation {
  judge(
    tx: Transaction,
    database: HookedDatabase,
    edit: DocumentEdit,
    context: WriteContext,
  ): EditVerdict | Promise<EditVerdict>;
}

/** Who writes, and how the edit is judged: the hooks decide by it. */
export interface WriteContext extends SecuritySubject {
  /** How the edit is validated; absent when the server itself writes. */
  readonly validation?: WriteValidation;
  /** Whether a replication brings the revisions from another database, whose authors are unknown here. */
  readonly bringsCopies?: boolean;
  /** The replicator's own update of a replication document; an object identity, so it cannot be forged. */
  readonly replicator?: symbol;
  /** Replication jobs that the write adds wait for an operator, and why; absent: they run. */
  readonly pausing?: Pausing;
}

/** A write whose jobs wait, beside who writes. */
export interface Pausing {
  /** In characters as many as a decision may have; absent: nothing was said. */
  readonly why?: string;
  readonly requestId: string;
}

export interface DatabaseHook {
  /** Asked when a database is opened. */
  appliesTo(databaseName: string): boolean;
  /** Seals the bodies of the database's documents in the store. */
  readonly seal?: Seal | undefined;
  /**
   * Judges an edit that is no conflict and not yet known. It may return another edit of the same document and mode, and
   * writes no documents here. Local documents are not asked about.
   */
  beforeWrite?(
    tx: Transaction,
    database: HookedDatabase,
    edit: DocumentEdit,
    context: WriteContext,
  ): EditVerdict | Promise<EditVerdict>;
  /** Runs once for each edit that was written, with the winner that it left. It may write documents here. */
  afterWrite?(
    tx: Transaction,
    database: HookedDatabase,
    winner: Document,
    context: WriteContext,
  ): Promise<void>;
  /**
   * Runs once for each batch of edits or purges that wrote, with the ids of its documents in no order, after `afterWrite`. `indexSet` is that
   * of the database. It writes no documents here.
   */
  afterBatch?(
    tx: Transaction,
    database: HookedDatabase,
    written: { readonly ids: readonly string[]; readonly indexSet: number },
  ): Promise<void>;
  /** The document as it is shown to who is no admin of the database; undefined when it is hidden. */
  afterRead?(document: Document, reader: SecuritySubject): Document | undefined;
  databaseCreated?(tx: Transaction, database: HookedDatabase): Promise<void>;
  /** Runs before the database's keys are cleared. */
  databaseRemoved?(tx: Transaction, database: HookedDatabase): Promise<void>;
}

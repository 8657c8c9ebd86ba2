/**
 * Extension points for higher layers, called in the transaction of a write. A hook can refuse or
 * change an edit before it is written, and can add writes after it. For example, a replication
 * document and its job are written in one transaction.
 */
import type { JsonText, Seal } from "../base/index.ts";
import type { ReadTransaction, Subspace, Transaction } from "../kv/index.ts";
import type { Document, DocumentEdit, WriteOutcome } from "./document.ts";
import type { AllDocuments } from "./documents/all-documents.ts";
import type { Documents } from "./documents/documents.ts";
import type { SecuritySubject } from "./security/security-object.ts";

/** The part of a database that hooks use. */
export interface HookedDatabase {
  readonly name: string;
  readonly uuid: string;
  readonly documents: Documents;
  readonly allDocuments: AllDocuments;
  security(tx: ReadTransaction): Promise<JsonText>;
  /**
   * Whether bodies are sealed in the store. If so, hooks must not store any part of a body
   * elsewhere.
   */
  readonly isSealed: boolean;
  /** Key space for a higher layer's indexes of the database, cleared together with the database. */
  readonly indexSubspace: Subspace;
  /**
   * Id of the set of indexes that every write keeps up to date; 0 without indexes. A change of the
   * set conflicts with this transaction.
   */
  indexSet(tx: ReadTransaction): Promise<number>;
  /**
   * Assigns a new random id to a changed set, or 0 to an empty one. Conflicts with concurrent
   * writes in this database.
   */
  changeIndexSet(tx: Transaction, isEmpty: boolean): Promise<void>;
  /** Writes a document as a follow-up to the write that triggered the hook. */
  write(tx: Transaction, edit: DocumentEdit, context: WriteContext): Promise<WriteOutcome>;
}

/** Called after an edit is written. The function is allowed to write documents. */
export type FollowUp = () => Promise<void>;

export type EditVerdict =
  | {
      readonly edit: DocumentEdit;
      /**
       * Called instead of the hook's `afterWrite` if the edit adds a revision that becomes the
       * winner. The hook must have an `afterWrite`.
       */
      readonly followUp?: FollowUp;
    }
  | {
      /** `forbidden`, `unauthorized`, or the name of the error that occurred while judging. */
      readonly rejected: string;
      readonly reason: string;
    };

/**
 * Validates a user's edit with the functions of design documents, which only the layer above can
 * run.
 */
export interface WriteValidation {
  judge(
    tx: Transaction,
    database: HookedDatabase,
    edit: DocumentEdit,
    context: WriteContext,
  ): EditVerdict | Promise<EditVerdict>;
}

/**
 * Author of a write, and the validation of its edits. Hooks base their decisions on this context.
 */
export interface WriteContext extends SecuritySubject {
  /** Validation of the edit; absent for writes by the server itself. */
  readonly validation?: WriteValidation;
  /**
   * Whether a replication copies the revisions from another database. Their authors are then
   * unknown.
   */
  readonly bringsCopies?: boolean;
  /**
   * Marks the replicator's own update of a replication document. A symbol, so it cannot be forged.
   */
  readonly replicator?: symbol;
  /** The replication job that writes. */
  readonly jobId?: string | undefined;
  /**
   * Time until which the bodies of replaced leaves stay readable. Default: as configured by
   * `[couchdb] keep_old_bodies_sec`.
   */
  readonly keepUntilMs?: number | undefined;
  /** If set, replication jobs that this write adds start paused. */
  readonly pausing?: Pausing;
}

/** Details of a write that creates paused jobs. */
export interface Pausing {
  /** Reason given by the operator, with the same maximum length as in other commands. */
  readonly why?: string;
  readonly requestId: string;
}

export interface DatabaseHook {
  /** Whether the hook applies to a database. Evaluated when the database is opened. */
  appliesTo(databaseName: string): boolean;
  /** Seal for the bodies of the database's documents. */
  readonly seal?: Seal | undefined;
  /**
   * Judges an edit that is neither a conflict nor already known. The hook can return a different
   * edit of the same document and mode, but must not write documents. Not called for local
   * documents.
   */
  beforeWrite?(
    tx: Transaction,
    database: HookedDatabase,
    edit: DocumentEdit,
    context: WriteContext,
  ): EditVerdict | Promise<EditVerdict>;
  /**
   * Called once for each written edit, with the resulting winner, after the other documents of the
   * batch are written. The hook is allowed to write documents.
   */
  afterWrite?(
    tx: Transaction,
    database: HookedDatabase,
    winner: Document,
    context: WriteContext,
  ): Promise<void>;
  /**
   * Called once for each batch of edits or purges that wrote documents, after `afterWrite`. `ids`
   * are the ids of these documents in no particular order; `indexSet` is the database's index set.
   * Must not write documents.
   */
  afterBatch?(
    tx: Transaction,
    database: HookedDatabase,
    written: { readonly ids: readonly string[]; readonly indexSet: number },
  ): Promise<void>;
  /**
   * Returns the document as shown to a reader who is not an administrator of the database, or
   * `undefined` if the document is hidden.
   */
  afterRead?(document: Document, reader: SecuritySubject): Document | undefined;
  databaseCreated?(tx: Transaction, database: HookedDatabase): Promise<void>;
  /** Called before the database's keys are cleared. */
  databaseRemoved?(tx: Transaction, database: HookedDatabase): Promise<void>;
}

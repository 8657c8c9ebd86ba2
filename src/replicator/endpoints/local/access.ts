/** A replication's access to a local database, with the current rights of the job's owner. */

import { errorCode, type JsonText, type Runtime } from "../../../base/index.ts";
import {
  type AttachmentStore,
  type Authority,
  type Database,
  type DatabaseRegistry,
  isDatabaseMember,
  isSystemName,
  SandboxError,
  type SecuritySubject,
  vouchedSubject,
} from "../../../databases/index.ts";
import type { DesignFunctions } from "../../../documents/index.ts";
import type { KeyValueStore, ReadTransaction, Transaction } from "../../../kv/index.ts";
import { percentEncode } from "../../../protocol/index.ts";
import { EndpointError } from "../endpoint.ts";

/**
 * Databases whose documents contain secrets or the rights of other users. Access to some of the
 * documents does not imply access to all.
 */
const SYSTEM_DATABASE = /^_users$|^_global_changes$|(^|\/)_replicator$/;

const COPIED =
  "The document of this job arrived by replication; only a document saved on this server may name a system database";

/**
 * - written: the log has a new revision
 * - missing: there is no log to continue
 * - too-long: the stored log is too long to be parsed
 * - ends-elsewhere: the stored log does not end where the new one begins
 * - re-created: the database's instance start time differs
 */
export type ContinuedOutcome =
  | { readonly kind: "written"; readonly revision: string }
  | { readonly kind: "missing" | "too-long" | "ends-elsewhere" | "re-created" };

/** A log to be written. */
export interface LogContinuation {
  /** Id of the `_local` document without its prefix. */
  readonly name: string;
  /** A replication log with the entry of one run. */
  readonly text: JsonText;
  /** Instance start time of the database. If defined, the log is written even if none is stored. */
  readonly madeAt?: string | undefined;
}

export interface LocalEndpointParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly attachments: AttachmentStore;
  /** Filters in design documents. */
  readonly functions: DesignFunctions;
  /**
   * Returns the current rights of a directory user, or undefined if there is no such user.
   * `userName` is null for clients of a server without administrators.
   */
  readonly resolveUser: (userName: string | null) => Promise<SecuritySubject | undefined>;
  /** Limits for documents to be written. Read at each use, so that changed settings apply. */
  readonly documentLimits: {
    /** Maximum size of a document (`max_document_size`). */
    readonly documentBytesMax: number;
  };
  /** The external URL of local databases, with a trailing slash. */
  readonly serverUrl: string;
  /** Appends the stored history to a log, and stores the log. */
  readonly continueLog: (
    tx: Transaction,
    database: Database,
    continuation: LogContinuation,
  ) => Promise<ContinuedOutcome>;
}

export class LocalAccess {
  /** External URL of the database, for messages and pages. */
  readonly shownUrl: string;
  readonly name: string;
  readonly parts: LocalEndpointParts;
  readonly #owner: Authority;

  constructor(parts: LocalEndpointParts, name: string, owner: Authority) {
    this.shownUrl = `${parts.serverUrl}${percentEncode(name)}/`;
    this.name = name;
    this.parts = parts;
    this.#owner = owner;
  }

  /** Returns the owner with current rights. Throws if the user no longer exists. */
  async user(): Promise<SecuritySubject> {
    const { userName, vouched } = this.#owner;
    if (vouched !== undefined) return vouchedSubject(userName, vouched);
    const user = await this.parts.resolveUser(userName);
    if (user !== undefined) return user;
    throw new EndpointError("forbidden", `the owner "${userName}" is no longer a user`);
  }

  async read<T>(body: (tx: ReadTransaction, database: Database) => Promise<T>): Promise<T> {
    const user = await this.user();
    try {
      return await this.parts.kv.read(async (tx) => body(tx, await this.open(tx, user)));
    } catch (error) {
      throw this.shown(error);
    }
  }

  /** Opens the database. Throws if the user has no access. */
  async open(tx: ReadTransaction, user: SecuritySubject): Promise<Database> {
    const database = await this.parts.databases.open(tx, this.name);
    if (!user.isAdmin && SYSTEM_DATABASE.test(this.name)) {
      throw new EndpointError("forbidden", "You are not a server admin.");
    }
    this.refuseSystemName();
    if (user.isAdmin || isDatabaseMember(await database.security(tx), user)) return database;
    throw new EndpointError("forbidden", "You are not allowed to access this db.");
  }

  /**
   * Throws if the database is a system database, and the document of the owner's job was written by
   * a replication.
   */
  refuseSystemName(): void {
    if (this.#owner.isCopy !== true || !isSystemName(this.name)) return;
    throw new EndpointError("forbidden", COPIED);
  }

  /** Converts a store error to an error that a job can show. */
  shown(error: unknown): unknown {
    if (error instanceof SandboxError) {
      return new EndpointError(error.error, error.reason, { cause: error });
    }
    if (errorCode(error) !== "STORE_DATABASE_NOT_FOUND") return error;
    return new EndpointError("db_not_found", `could not open ${this.shownUrl}`, { cause: error });
  }
}

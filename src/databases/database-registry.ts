/** The databases of a store, by name. */
import {
  type JsonText,
  OperationalError,
  type Page,
  type Runtime,
  randomHex,
} from "../base/index.ts";
import {
  firstGreaterOrEqual,
  firstGreaterThan,
  type ReadTransaction,
  removeInBackground,
  type Subspace,
  type Transaction,
} from "../kv/index.ts";
import { DatabaseUpdates } from "./changes/database-updates.ts";
import { StoreTimes } from "./changes/store-times.ts";
import { Database } from "./database.ts";
import type { IsFormat3 } from "./documents/conflicts.ts";
import type { KeepOldBodies } from "./documents/old-bodies.ts";
import type { DatabaseHook } from "./hooks.ts";
import { isDatabaseName, rangeBound } from "./names.ts";
import { decodeCounter, encodeCounter } from "./records/counter-record.ts";
import { type RegistryKeys, registryKeys } from "./records/database-keys.ts";
import {
  type DatabaseRecord,
  decodeDatabaseRecord,
  encodeDatabaseRecord,
} from "./records/database-record.ts";
import { SECURITY_ADMIN_ONLY } from "./security/security.ts";
import { forgetState } from "./transaction-state.ts";

/** Default revision limit, as in CouchDB. */
const REVISION_LIMIT_DEFAULT = 1_000;

/**
 * Maximum difference between the numbers of two databases created in succession. The first numbers
 * have one byte, and are not wasted.
 */
const stepsAfter = (number: number): number => (number < 0x100 ? 16 : 128);

export interface NamesOptions {
  /** First name in reading order, inclusive: the highest one if `descending`. */
  readonly startName?: string;
  /** Last name in reading order, inclusive. */
  readonly endName?: string;
  /** Maximum number of names. Default: no limit. */
  readonly limit?: number;
  readonly descending?: boolean;
}

export class DatabaseRegistry {
  readonly #runtime: Runtime;
  readonly #keys: RegistryKeys;
  /** Updates of all databases (`_db_updates`). */
  readonly updates: DatabaseUpdates;
  /** Versions of the store at earlier times. */
  readonly times: StoreTimes;
  readonly #hooks: readonly DatabaseHook[];
  readonly #securityDefault: () => JsonText;
  readonly #keepOldBodiesMs: KeepOldBodies;
  readonly #isFormat3: IsFormat3;

  constructor({
    runtime,
    root,
    hooks = [],
    securityDefault = () => SECURITY_ADMIN_ONLY,
    keepOldBodiesMs = () => 0,
    isFormat3 = async () => true,
    timeMinMs = () => 0,
  }: {
    readonly runtime: Runtime;
    readonly root: Subspace;
    readonly hooks?: readonly DatabaseHook[];
    /** Security object of databases for which none is set; `[couchdb] default_security`. */
    readonly securityDefault?: () => JsonText;
    /**
     * Time for which superseded bodies are kept; `[couchdb] keep_old_bodies_sec`. Default: not
     * kept.
     */
    readonly keepOldBodiesMs?: KeepOldBodies;
    /** Default: always. */
    readonly isFormat3?: IsFormat3;
    /** Earliest time that is recorded; `[couchdb] time_seq_min_time`. */
    readonly timeMinMs?: () => number;
  }) {
    this.#runtime = { ...runtime, random: runtime.random.fork("databases") };
    this.#keys = registryKeys(root);
    this.updates = new DatabaseUpdates(this.#keys, this.#runtime.random);
    this.times = new StoreTimes(runtime.clock, this.#keys, timeMinMs);
    this.#hooks = hooks;
    this.#securityDefault = securityDefault;
    this.#keepOldBodiesMs = keepOldBodiesMs;
    this.#isFormat3 = isFormat3;
  }

  /** Creates a database. Throws STORE_DATABASE_EXISTS or STORE_DATABASE_NAME_INVALID. */
  async create(tx: Transaction, name: string): Promise<Database> {
    if (!isDatabaseName(name)) {
      throw new OperationalError("STORE_DATABASE_NAME_INVALID", "Illegal database name", {
        database: name,
      });
    }
    const key = this.#keys.database.key({ name });
    if ((await tx.get(key)) !== undefined) {
      throw new OperationalError("STORE_DATABASE_EXISTS", "Database exists", { database: name });
    }
    const { clock, random } = this.#runtime;
    const isFormat3 = await this.#isFormat3(tx);
    const record: DatabaseRecord = {
      uuid: randomHex(random),
      // Microseconds. The part below the clock's resolution is random, so that a database
      // re-created immediately gets a different value.
      instanceStartTime: Math.floor(clock.nowMs()) * 1_000 + random.integer(1_000),
      revisionLimit: REVISION_LIMIT_DEFAULT,
      indexSet: 0,
      hasWinnerRows: !isFormat3,
      number: isFormat3 ? await this.#newNumber(tx) : undefined,
    };
    tx.set(key, encodeDatabaseRecord(record));
    const database = this.#database(name, record);
    // A row for the key must exist, so that removing the database wakes feeds that wait for the
    // first change.
    tx.set(database.keys.changed.key({}), new Uint8Array(0));
    await database.conflicts.beginComplete(tx);
    await this.updates.note(tx, name, "created");
    for (const hook of this.#hooksOf(name)) await hook.databaseCreated?.(tx, database);
    return database;
  }

  /**
   * Returns a number that no database has had. Reads the last number without a conflict, and adds a
   * random step, so that concurrent creations rarely choose the same number.
   */
  async #newNumber(tx: Transaction): Promise<number> {
    const lastKey = this.#keys.lastNumber.key({});
    const last = decodeCounter(await tx.snapshot.get(lastKey));
    const number = last + 1 + this.#runtime.random.integer(stepsAfter(last));
    const key = this.#keys.number.key({ number });
    tx.addReadConflictKey(key);
    tx.addWriteConflictKey(key);
    tx.max(lastKey, encodeCounter(number));
    return number;
  }

  /**
   * Opens a database. Reads the registry, so that removal of the database conflicts with this
   * transaction. Throws STORE_DATABASE_NOT_FOUND.
   */
  async open(tx: ReadTransaction, name: string): Promise<Database> {
    const database = await this.find(tx, name);
    if (database === undefined) throw notFound(name);
    return database;
  }

  /** Like `open`, but returns `undefined` if the database does not exist. */
  async find(tx: ReadTransaction, name: string): Promise<Database | undefined> {
    const value = isDatabaseName(name)
      ? await tx.get(this.#keys.database.key({ name }))
      : undefined;
    return value && this.#database(name, decodeDatabaseRecord(value));
  }

  /**
   * Removes the database from the registry, which frees its name. The keys of the database are
   * removed in the background. Throws STORE_DATABASE_NOT_FOUND.
   */
  async remove(tx: Transaction, name: string): Promise<void> {
    const database = await this.open(tx, name);
    for (const hook of this.#hooksOf(name)) await hook.databaseRemoved?.(tx, database);
    tx.clear(this.#keys.database.key({ name }));
    // Fires the watches of changes feeds, which then detect the removal.
    tx.clear(database.keys.changed.key({}));
    tx.clear(this.#keys.conflictCount.key({ name }));
    tx.clear(this.#keys.conflictPolicy.key({ name }));
    const nowMs = this.#runtime.clock.nowMs();
    removeInBackground(tx, database.keys.everything, { kind: "database", subject: name, nowMs });
    forgetState(tx, database.uuid);
    await this.updates.note(tx, name, "deleted");
  }

  /**
   * Returns the number of conflicts in each database that has had conflicts, in byte order of the
   * database names, starting after the name `after`.
   */
  async conflictCounts(
    tx: ReadTransaction,
    { after, limit }: { readonly after?: string | undefined; readonly limit: number },
  ): Promise<Page<{ readonly name: string; readonly count: number }>> {
    const { begin, end } = this.#keys.conflictCount.range();
    const last = after === undefined ? undefined : this.#keys.conflictCount.key({ name: after });
    const range = { begin: last === undefined ? begin : firstGreaterThan(last), end };
    const page = await tx.snapshot.getRangePage(range, { limit });
    const entries = page.entries.map(({ key, value }) => {
      return { name: this.#keys.conflictCount.unpack(key).name, count: decodeCounter(value) };
    });
    return { entries, stoppedBy: page.stoppedBy };
  }

  /**
   * Returns the names of databases with a conflict policy, in byte order, starting after the name
   * `after`.
   */
  async conflictPolicies(
    tx: ReadTransaction,
    { after, limit }: { readonly after?: string | undefined; readonly limit: number },
  ): Promise<Page<string>> {
    const { begin, end } = this.#keys.conflictPolicy.range();
    const last = after === undefined ? undefined : this.#keys.conflictPolicy.key({ name: after });
    const range = { begin: last === undefined ? begin : firstGreaterThan(last), end };
    const page = await tx.snapshot.getRangePage(range, { limit });
    const entries = page.entries.map(({ key }) => this.#keys.conflictPolicy.unpack(key).name);
    return { entries, stoppedBy: page.stoppedBy };
  }

  /** Returns the names of databases in byte order. */
  async names(tx: ReadTransaction, options: NamesOptions = {}): Promise<string[]> {
    const { startName, endName, limit, descending = false } = options;
    const all = this.#keys.database.range();
    const [low, high] = descending ? [endName, startName] : [startName, endName];
    const begin =
      low === undefined ? all.begin : this.#keys.database.key({ name: rangeBound(low) });
    const end =
      high === undefined
        ? firstGreaterOrEqual(all.end)
        : firstGreaterThan(this.#keys.database.key({ name: rangeBound(high) }));
    if (limit === 0) return [];
    const page = await tx.getRangePage(
      { begin, end },
      { reverse: descending, ...(limit === undefined ? {} : { limit }) },
    );
    return page.entries.map(({ key }) => this.#keys.database.unpack(key).name);
  }

  #database(name: string, record: DatabaseRecord): Database {
    const hooks = this.#hooksOf(name);
    const securityDefault = this.#securityDefault;
    const registryKeys = this.#keys;
    const keepOldBodiesMs = this.#keepOldBodiesMs;
    const { updates, times: storeTimes } = this;
    const parts = {
      registryKeys,
      name,
      record,
      hooks,
      updates,
      storeTimes,
      securityDefault,
      keepOldBodiesMs,
      isFormat3: this.#isFormat3,
    };
    return new Database(this.#runtime, parts);
  }

  /** Whether a hook can write further rows after each edit of a document in the database. */
  hasFollowUps(name: string): boolean {
    return this.#hooksOf(name).some(({ afterWrite }) => afterWrite !== undefined);
  }

  #hooksOf(name: string): readonly DatabaseHook[] {
    return this.#hooks.filter((hook) => hook.appliesTo(name));
  }
}

function notFound(database: string): OperationalError {
  return new OperationalError("STORE_DATABASE_NOT_FOUND", "Database does not exist", { database });
}

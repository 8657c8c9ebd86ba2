/**
 * Opens the database named in a call, in a new transaction. All transactions of the API begin here.
 */
import type {
  Database,
  DatabaseRegistry,
  SecuritySubject,
  WriteContext,
} from "../../databases/index.ts";
import { isDatabaseName } from "../../databases/index.ts";
import type {
  KeyValueStore,
  ReadTransaction,
  Transaction,
  TransactOptions,
} from "../../kv/index.ts";
import { encodeDatabaseName, encodeDocumentId, ProtocolError } from "../../protocol/index.ts";
import { type Call, parameter } from "../http/call.ts";
import type { User } from "../http/exchange.ts";

interface Store {
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
}

/** Returns the database name in the path of a call. */
export function databaseName(call: Call): string {
  return parameter(call, "database");
}

/** Runs `body` in a read transaction on the database as visible to the caller. */
export function readDatabase<T>(
  { kv, databases }: Store,
  call: Call,
  body: (tx: ReadTransaction, database: Database) => Promise<T>,
): Promise<T> {
  const name = existingDatabaseName(call);
  const reader = securitySubject(call.user);
  return kv.read(
    async (tx) => body(tx, await (await databases.open(tx, name)).seenBy(tx, reader)),
    { signal: call.request.signal },
  );
}

/**
 * Runs `body` in a transaction on the database. `whenUnknown` is passed on to
 * `KeyValueStore.transact`.
 */
export function writeDatabase<T>(
  { kv, databases }: Store,
  call: Call,
  body: (tx: Transaction, database: Database) => Promise<T>,
  { whenUnknown }: Pick<TransactOptions, "whenUnknown"> = {},
): Promise<T> {
  const name = existingDatabaseName(call);
  return kv.transact(async (tx) => body(tx, await databases.open(tx, name)), {
    signal: call.request.signal,
    whenUnknown,
  });
}

/** Returns the database for use outside transactions. */
export function openDatabase(store: Store, call: Call): Promise<Database> {
  return readDatabase(store, call, async (_, database) => database);
}

export function writeContext(user: User): WriteContext {
  return securitySubject(user);
}

/** The user in the form that security objects use. */
export function securitySubject({ name, roles, isAdmin, vouchedBy }: User): SecuritySubject {
  const subject = { userName: name, roles, isAdmin };
  return vouchedBy === undefined ? subject : { ...subject, vouchedBy };
}

/** The security object of a database. Throws CouchDB's 404. */
export function openSecurity({ kv, databases }: Store, name: string): Promise<string> {
  return kv.read(async (tx) => (await databases.open(tx, name)).security(tx));
}

/** URL of the server as seen by the client, without a trailing slash. */
export function serverUrl({ request: { headers, isSecure } }: Call): string {
  const isForwardedTls = headers.get("x-forwarded-ssl") === "on";
  const own = isSecure ? "https" : "http";
  const scheme = isForwardedTls ? "https" : (headers.get("x-forwarded-proto") ?? own);
  const host = headers.get("x-forwarded-host") ?? headers.get("host") ?? "localhost";
  return `${scheme}://${host}`;
}

/** URL of a document, or of a database, as seen by the client. */
export function locationOf(call: Call, id?: string): string {
  const database = `${serverUrl(call)}/${encodeDatabaseName(databaseName(call))}`;
  return id === undefined ? database : `${database}/${encodeDocumentId(id)}`;
}

/**
 * The database name in the path. An invalid name is reported as a missing database, because no
 * database can have this name.
 */
export function existingDatabaseName(call: Call): string {
  const name = databaseName(call);
  if (isDatabaseName(name)) return name;
  throw new ProtocolError(404, "not_found", "Database does not exist.");
}

/**
 * Maintains a database for each user, if `[couch_peruser] enable` is set (CouchDB's
 * `couch_peruser`). The name of the database is `userdb-` followed by the bytes of the user's name
 * in hex. The user is one of the database's administrators and members.
 *
 * This service follows the changes of `_users`. It stores its progress in the same transaction as
 * the effects of the changes, so each change is processed exactly once. If several nodes process
 * the same page, one of them commits, and the others continue after that page. If there is no
 * progress for the current prefix and `_users` database, the service begins with the first user.
 * Existing users therefore get their databases when the service is enabled.
 */
import {
  hexEncode,
  membersOf,
  Notifier,
  parseJson,
  printJson,
  type Runtime,
  utf8Decode,
  utf8Encode,
  valuesNow,
} from "../../base/index.ts";
import {
  type Change,
  type Database,
  type DatabaseRegistry,
  isDatabaseName,
} from "../../databases/index.ts";
import type { Key, KeyValueStore, ReadTransaction, Transaction, Watch } from "../../kv/index.ts";
import type { Configuration } from "../settings/configuration.ts";
import {
  USER_DATABASES_SECTION,
  type UserDatabaseSettings,
} from "../settings/user-database-settings.ts";
import type { Service } from "../supervise.ts";
import { USER_ID_PREFIX } from "./user-directory.ts";

const USERS = "_users";
/** Maximum number of changes per transaction. Each change can create or delete a database. */
const PAGE_ROWS_MAX = 20;
const GROUPS = ["members", "admins"];

/** Progress in the changes of `_users`. */
interface Progress {
  /** Uuid of the database `_users`. */
  readonly uuid: string;
  readonly prefix: string;
  readonly since: string;
}

interface Deed {
  readonly event: "users.database-created" | "users.database-deleted" | "users.database-refused";
  readonly database: string;
}

export interface UserDatabasesParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly configuration: Configuration;
  /** Settings of `[couch_peruser]`, which can change at any time. */
  readonly settings: UserDatabaseSettings;
  /** Key of the stored progress. */
  readonly progressKey: Key;
}

export class UserDatabases implements Service {
  readonly name = "server.user-databases";
  readonly #parts: UserDatabasesParts;

  constructor(parts: UserDatabasesParts) {
    this.#parts = parts;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { configuration, settings } = this.#parts;
    const awaited = new Notifier();
    const unwatch = configuration.watch(USER_DATABASES_SECTION, () => awaited.notify());
    try {
      while (!signal.aborted) {
        const next = settings.isEnabled ? await this.#workOff() : undefined;
        if (next === "more") continue;
        void next?.fired(signal).then(
          () => awaited.notify(),
          () => {},
        );
        await awaited.notified(signal).catch(() => {});
        next?.cancel();
      }
    } finally {
      unwatch();
    }
  }

  /** Processes a page of changes. If none are left, returns a watch for the next change. */
  async #workOff(): Promise<"more" | Watch> {
    const { kv, runtime, databases, progressKey } = this.#parts;
    // Reads all settings once, for the whole transaction.
    const settings = valuesNow(this.#parts.settings);
    const { deeds, next } = await kv.transact(
      async (tx) => {
        const users = await databases.open(tx, USERS);
        const since = await this.#since(tx, users, settings);
        const page = await users.changes.page(tx, { since, limit: PAGE_ROWS_MAX });
        const deeds: Deed[] = [];
        for (const change of page.entries) {
          const deed = await this.#follow(tx, change, settings);
          if (deed !== undefined) deeds.push(deed);
        }
        const last = page.entries.at(-1);
        if (last === undefined) return { deeds, next: users.changes.watch(tx) };
        const { uuid } = users;
        const progress: Progress = { uuid, prefix: settings.prefix, since: last.sequence };
        tx.set(progressKey, utf8Encode(JSON.stringify(progress)));
        return { deeds, next: "more" as const };
      },
      { whenUnknown: "retry" },
    );
    for (const { event, database } of deeds) runtime.trace.event(event, { database });
    return next;
  }

  async #since(
    tx: ReadTransaction,
    { uuid }: Database,
    { prefix }: UserDatabaseSettings,
  ): Promise<string> {
    const value = await tx.get(this.#parts.progressKey);
    if (value === undefined) return "0";
    const progress = JSON.parse(utf8Decode(value)) as Progress;
    return progress.uuid === uuid && progress.prefix === prefix ? progress.since : "0";
  }

  async #follow(
    tx: Transaction,
    { id, deleted }: Change,
    { prefix, deletesDatabases }: UserDatabaseSettings,
  ): Promise<Deed | undefined> {
    if (!id.startsWith(USER_ID_PREFIX)) return undefined;
    const { databases } = this.#parts;
    const userName = id.slice(USER_ID_PREFIX.length);
    // In CouchDB, a byte below 16 is one hex digit, so two users can get the same database. Here,
    // each byte is two digits.
    const name = prefix + hexEncode(utf8Encode(userName));
    if (!isDatabaseName(name)) return { event: "users.database-refused", database: name };
    const existing = await databases.find(tx, name);
    if (!deleted) {
      const database = existing ?? (await databases.create(tx, name));
      await changeSecurity(tx, database, (names) => withName(names, userName));
      return existing === undefined
        ? { event: "users.database-created", database: name }
        : undefined;
    }
    if (existing === undefined) return undefined;
    if (deletesDatabases) {
      await databases.remove(tx, name);
      return { event: "users.database-deleted", database: name };
    }
    // As in CouchDB, the database is kept. If a user with the same name is created later, that user
    // gets the database.
    await changeSecurity(tx, existing, (names) => names.filter((other) => other !== userName));
    return undefined;
  }
}

function withName(names: readonly unknown[], userName: string): readonly unknown[] {
  return names.includes(userName) ? names : [userName, ...names];
}

type Members = Readonly<Record<string, unknown>>;

/**
 * Applies `change` to the list of administrators' names and to the list of members' names.
 * Everything else in the security object is kept.
 */
async function changeSecurity(
  tx: Transaction,
  database: Database,
  change: (names: readonly unknown[]) => readonly unknown[],
): Promise<void> {
  const before = parseJson(await database.security(tx)) as Members;
  const groups = GROUPS.flatMap((group) => {
    const members = membersOf(before[group]);
    const names = Array.isArray(members.names) ? (members.names as readonly unknown[]) : [];
    const changed = change(names);
    const isSame = changed.length === names.length;
    return isSame ? [] : [[group, { ...members, names: changed }] as const];
  });
  if (groups.length === 0) return;
  await database.setSecurity(tx, printJson({ ...before, ...Object.fromEntries(groups) }));
}

/**
 * Keeps a database for each user, where `[couch_peruser] enable` asks for it: `userdb-` and the bytes of the user's name as
 * hex digits, with the user among its admins and members (CouchDB's `couch_peruser`).
 *
 * It follows the changes of `_users`. How far it came is in the store, and is written in the transaction that does what
 * the changes ask for. So each change is worked off once, whatever fails: of several nodes that do the same page one
 * commits, and the others begin behind it. Without such a note, or with one for another prefix or database, it begins with
 * the first user: those that exist when it is turned on get their databases, too.
 */
import {
  hexEncode,
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
/** Changes in one transaction; each may make or delete a database. */
const PAGE_ROWS_MAX = 20;
const GROUPS = ["members", "admins"];

/** How far the changes of `_users` were worked off. */
interface Progress {
  /** Of the database `_users`. */
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
  /** Read at each use. */
  readonly settings: UserDatabaseSettings;
  /** Where the progress is kept. */
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

  /** A page of changes. Answers what fires after the next change when there is none left. */
  async #workOff(): Promise<"more" | Watch> {
    const { kv, runtime, databases, progressKey } = this.#parts;
    // One value of each for the whole transaction.
    const settings = valuesNow(this.#parts.settings);
    const { deeds, next } = await kv.transact(
      async (tx) => {
        const users = await databases.open(tx, USERS);
        const since = await this.#since(tx, users, settings);
        const page = await users.changes(tx, { since, limit: PAGE_ROWS_MAX });
        const deeds: Deed[] = [];
        for (const change of page.entries) {
          const deed = await this.#follow(tx, change, settings);
          if (deed !== undefined) deeds.push(deed);
        }
        const last = page.entries.at(-1);
        if (last === undefined) return { deeds, next: users.watchChanges(tx) };
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
    // CouchDB: a byte below 16 is one digit, and so users whose names hold such bytes get into the databases of others.
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
    // CouchDB: the database is kept, and a user of the same name has it again.
    await changeSecurity(tx, existing, (names) => names.filter((other) => other !== userName));
    return undefined;
  }
}

function withName(names: readonly unknown[], userName: string): readonly unknown[] {
  return names.includes(userName) ? names : [userName, ...names];
}

type Members = Readonly<Record<string, unknown>>;

/** Writes the names of both groups again, if they change. All else in the security object stays. */
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

function membersOf(value: unknown): Members {
  return typeof value === "object" && value !== null ? (value as Members) : {};
}

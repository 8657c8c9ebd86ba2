/** Users with passwords: the configured administrators, and the documents of `_users`. */

import { errorCode } from "../../base/index.ts";
import type { DatabaseRegistry, Document, SecuritySubject } from "../../databases/index.ts";
import type { KeyValueStore } from "../../kv/index.ts";
import { ProtocolError } from "../../protocol/index.ts";
import {
  hashFault,
  hashPassword,
  isOutdated,
  matchesHash,
  type PasswordHash,
  PSEUDO_RANDOM_FUNCTIONS,
  parseAdminHash,
  sameText,
} from "../passwords.ts";
import type { Configuration } from "../settings/configuration.ts";
import type { PasswordRules } from "../settings/password-settings.ts";
import { withHash } from "./user-passwords.ts";

export const USER_ID_PREFIX = "org.couchdb.user:";

/** Runs a password check when it is the client's turn. Throws if the check is not allowed. */
export type Turn = (check: () => Promise<boolean>) => Promise<boolean>;

export interface KnownUser {
  readonly name: string;
  readonly roles: readonly string[];
  /** Salt of the hash. A new password has a new salt, which ends sessions. */
  readonly salt: string;
  /**
   * Identifies the stored hash. If any part of the hash changes, this value changes too, which
   * invalidates cached credentials.
   */
  readonly hash: string;
  /**
   * Whether the password matches. Throws a ProtocolError 403 if the cost of the hash is not
   * permitted. Passwords of one user are checked one after the other.
   */
  matches(password: string, turn: Turn): Promise<boolean>;
}

export interface UserDirectoryParts {
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly configuration: Configuration;
  /** Settings for password hashes, which can change at any time. */
  readonly passwords: PasswordRules;
}

const SERVER: SecuritySubject = { userName: null, roles: ["_admin"], isAdmin: true };

export class UserDirectory {
  readonly #parts: UserDirectoryParts;
  /**
   * The last password check in progress for each user. A user's checks run one at a time, so that
   * they do not block the logins of all other users.
   */
  readonly #checksOf = new Map<string, Promise<unknown>>();

  constructor(parts: UserDirectoryParts) {
    this.#parts = parts;
  }

  /**
   * Finds a user. Returns `undefined` for an unknown name. Throws a ProtocolError 401 for a user
   * whose document is in conflict.
   */
  async find(name: string): Promise<KnownUser | undefined> {
    const stored = this.#parts.configuration.section("admins").get(name);
    return stored ? this.#adminOf(name, stored) : this.#userOf(name);
  }

  /**
   * Returns the current rights of a user of this directory, or `undefined` for an unknown name.
   * Throws like `find`.
   *
   * A server without administrators does not authenticate its clients. On such a server, `null`
   * stands for any client and gets the rights of an administrator, and an unknown name gets the
   * rights of a user without roles.
   */
  async resolve(userName: string | null): Promise<SecuritySubject | undefined> {
    const admins = this.#parts.configuration.section("admins");
    if (userName === null || admins.has(userName)) {
      return { userName, roles: ["_admin"], isAdmin: true };
    }
    const user = await this.#userOf(userName);
    if (user === undefined && admins.size > 0) return undefined;
    return { userName, roles: user?.roles ?? [], isAdmin: false };
  }

  /**
   * Rehashes a verified password if the settings for new hashes have changed (CouchDB's
   * `upgrade_hash_on_auth`), or if the stored salt is empty. Any other salt is kept, so that
   * sessions stay valid. If the document changes concurrently, that change takes precedence.
   */
  async upgradeHash(name: string, password: string): Promise<void> {
    const { kv, databases, configuration, passwords } = this.#parts;
    if (configuration.section("admins").has(name)) return;
    const document = await this.#read(`${USER_ID_PREFIX}${name}`);
    const hash = document && hashOf(JSON.parse(document.body.text));
    if (document === undefined || hash === undefined) return;
    const isUpgraded = passwords.upgradesHashes && isOutdated(hash, passwords);
    if (!isUpgraded && hash.salt !== "") return;
    const body = await withHash(document.body, password, passwords, hash.salt || undefined);
    const { id, revision: parent, attachments } = document;
    const kept = attachments.map((each) => ({ kind: "stub", name: each.name }) as const);
    const edit = { mode: "interactive", id, parent, deleted: false, body } as const;
    await kv.transact(async (tx) => {
      const database = await databases.open(tx, "_users");
      // Without this check, a document that has been purged would be re-created.
      if ((await database.documents.read(tx, id))?.revision !== parent) return;
      await database.write(tx, { ...edit, attachments: kept }, SERVER);
    });
  }

  async #userOf(name: string): Promise<KnownUser | undefined> {
    const document = await this.#read(`${USER_ID_PREFIX}${name}`);
    if (document === undefined) return undefined;
    const record: Readonly<Record<string, unknown>> = JSON.parse(document.body.text);
    const hash = hashOf(record);
    if (hash === undefined || record.name !== name) return undefined;
    const roles = Array.isArray(record.roles) ? record.roles : [];
    return {
      name,
      // A document cannot make its user a server administrator.
      roles: roles.filter((role) => typeof role === "string" && role !== "_admin"),
      salt: hash.salt,
      hash: `${hash.salt}${hash.key}`,
      matches: (password, turn) => this.#check({ name, hash }, password, turn),
    };
  }

  #adminOf(name: string, stored: string): KnownUser {
    const hash = parseAdminHash(stored);
    return {
      name,
      roles: ["_admin"],
      salt: stored,
      hash: stored,
      matches: (password, turn) =>
        hash === undefined
          ? this.#inTurn(name, turn, async () => {
              return sameText(password, stored) || this.#reject(password);
            })
          : this.#check({ name, hash }, password, turn),
    };
  }

  /**
   * Rejects the password of an unknown user. Takes as long as checking a wrong password of a known
   * user, so that the time does not reveal which users exist.
   */
  rejectUnknown(name: string, password: string, turn: Turn): Promise<boolean> {
    return this.#inTurn(name, turn, () => this.#reject(password));
  }

  async #reject(password: string): Promise<false> {
    await hashPassword(password, this.#parts.passwords);
    return false;
  }

  #check(
    { name, hash }: { readonly name: string; readonly hash: PasswordHash },
    password: string,
    turn: Turn,
  ): Promise<boolean> {
    const { passwords } = this.#parts;
    const fault = hashFault(hash, passwords);
    if (fault !== undefined) throw new ProtocolError(403, "forbidden", fault);
    return this.#inTurn(name, turn, async () => {
      if (await matchesHash(password, hash)) return true;
      return isOutdated(hash, passwords) && this.#reject(password);
    });
  }

  /** Runs a check after all earlier checks of the same name. */
  #inTurn(name: string, turn: Turn, match: () => Promise<boolean>): Promise<boolean> {
    const check = (): Promise<boolean> => turn(match);
    const before = this.#checksOf.get(name);
    const checked = before === undefined ? check() : before.then(check, check);
    this.#checksOf.set(name, checked);
    const forget = (): void => {
      if (this.#checksOf.get(name) === checked) this.#checksOf.delete(name);
    };
    checked.then(forget, forget);
    return checked;
  }

  async #read(id: string): Promise<Document | undefined> {
    const { kv, databases } = this.#parts;
    try {
      return await kv.read(async (tx) => {
        const users = await databases.open(tx, "_users");
        const leaves = await users.documents.leaves(tx, id);
        if (leaves.filter(({ deleted }) => !deleted).length > 1) throw conflict();
        const document = await users.documents.read(tx, id);
        return document === undefined || document.deleted ? undefined : document;
      });
    } catch (error) {
      if (errorCode(error) === "STORE_DATABASE_NOT_FOUND") return undefined;
      throw error;
    }
  }
}

/**
 * Returns CouchDB's error for a user document in conflict. The user must not log in, because one of
 * the leaves might contain a leaked password or revoked roles.
 */
function conflict(): ProtocolError {
  const reason =
    "User document conflicts must be resolved before the document is used for authentication purposes.";
  return new ProtocolError(401, "unauthorized", reason);
}

/**
 * Returns the password hash in a user's document, in CouchDB's format. Returns `undefined` if the
 * hash is missing, incomplete or of an unknown kind.
 */
export function hashOf(record: Readonly<Record<string, unknown>>): PasswordHash | undefined {
  const { password_scheme: scheme = "simple", salt, derived_key: derived, iterations } = record;
  if (typeof salt !== "string") return undefined;
  if (scheme === "simple") {
    const key = record.password_sha;
    return typeof key === "string" ? { scheme, salt, key } : undefined;
  }
  const name = record.pbkdf2_prf ?? "sha";
  const pseudoRandomFunction = PSEUDO_RANDOM_FUNCTIONS.find((known) => known === name);
  const isWhole =
    scheme === "pbkdf2" &&
    pseudoRandomFunction !== undefined &&
    typeof derived === "string" &&
    typeof iterations === "number" &&
    Number.isSafeInteger(iterations) &&
    iterations > 0;
  return isWhole ? { scheme, pseudoRandomFunction, iterations, salt, key: derived } : undefined;
}

/** Who is known by a password: the administrators of the configuration, and the documents of `_users`. */

import { errorCode } from "../../base/index.ts";
import type { DatabaseRegistry, Document, SecuritySubject } from "../../databases/index.ts";
import type { KeyValueStore } from "../../kv/index.ts";
import { ProtocolError } from "../../protocol/index.ts";
import {
  hashFault,
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

export interface KnownUser {
  readonly name: string;
  readonly roles: readonly string[];
  /** Changes with the password: sessions end with it. */
  readonly salt: string;
  /** Changes with all that is kept of the password: remembered credentials end with it. */
  readonly hash: string;
  /**
   * Throws a ProtocolError 403 for a hash that asks for more than this server does. Passwords of one user are checked one after the
   * other; `admit` is called when it is this one's turn, and may throw.
   */
  matches(password: string, admit: () => void): Promise<boolean>;
}

export interface UserDirectoryParts {
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly configuration: Configuration;
  /** Read at each use. */
  readonly passwords: PasswordRules;
}

const SERVER: SecuritySubject = { userName: null, roles: ["_admin"], isAdmin: true };

export class UserDirectory {
  readonly #parts: UserDirectoryParts;
  /** Of users whose passwords are being checked: one at a time, so that logins of one user do not hold up all others. */
  readonly #checksOf = new Map<string, Promise<unknown>>();

  constructor(parts: UserDirectoryParts) {
    this.#parts = parts;
  }

  /** Undefined for a name that nobody has. */
  async find(name: string): Promise<KnownUser | undefined> {
    const stored = this.#parts.configuration.section("admins").get(name);
    return stored ? this.#adminOf(name, stored) : this.#userOf(name);
  }

  /**
   * What a user of this directory may do now; undefined for a name that nobody has. `null` is whoever reaches a server that has no
   * administrators; such a server asks nobody who they are, so there a name that nobody has is that of a user without roles.
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
   * Hashes a user's password, which was found right, in the way in which new ones are hashed now (CouchDB's
   * `upgrade_hash_on_auth`). Keeps the salt, and with it the sessions. Whoever changes the document meanwhile goes first.
   */
  async upgradeHash(name: string, password: string): Promise<void> {
    const { kv, databases, configuration, passwords } = this.#parts;
    if (!passwords.upgradesHashes || configuration.section("admins").has(name)) return;
    const document = await this.#read(`${USER_ID_PREFIX}${name}`);
    const hash = document && hashOf(JSON.parse(document.body.text));
    if (document === undefined || hash === undefined || !isOutdated(hash, passwords)) return;
    const body = await withHash(document.body, password, passwords, hash.salt);
    const { id, revision: parent, attachments } = document;
    const kept = attachments.map((each) => ({ kind: "stub", name: each.name }) as const);
    const edit = { mode: "interactive", id, parent, deleted: false, body } as const;
    await kv.transact(async (tx) => {
      const database = await databases.open(tx, "_users");
      // One that is gone without a trace would be made again.
      if ((await database.read(tx, id))?.revision !== parent) return;
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
      // No document makes somebody a server admin.
      roles: roles.filter((role) => typeof role === "string" && role !== "_admin"),
      salt: hash.salt,
      hash: `${hash.salt}${hash.key}`,
      matches: (password, admit) => this.#check({ name, hash }, password, admit),
    };
  }

  #adminOf(name: string, stored: string): KnownUser {
    const hash = parseAdminHash(stored);
    return {
      name,
      roles: ["_admin"],
      salt: stored,
      hash: stored,
      matches: (password, admit) =>
        hash === undefined
          ? Promise.resolve(sameText(password, stored))
          : this.#check({ name, hash }, password, admit),
    };
  }

  #check(
    { name, hash }: { readonly name: string; readonly hash: PasswordHash },
    password: string,
    admit: () => void,
  ): Promise<boolean> {
    const fault = hashFault(hash, this.#parts.passwords);
    if (fault !== undefined) throw new ProtocolError(403, "forbidden", fault);
    const check = async (): Promise<boolean> => {
      admit();
      return matchesHash(password, hash);
    };
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
      const document = await kv.read(async (tx) =>
        (await databases.open(tx, "_users")).read(tx, id),
      );
      return document === undefined || document.deleted ? undefined : document;
    } catch (error) {
      if (errorCode(error) === "STORE_DATABASE_NOT_FOUND") return undefined;
      throw error;
    }
  }
}

/** What CouchDB keeps of a password in a user's document; undefined when it keeps nothing that a password matches. */
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

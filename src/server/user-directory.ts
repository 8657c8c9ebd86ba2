/** Who is known by a password: the administrators of the configuration, and the documents of `_users`. */

import { errorCode } from "../base/index.ts";
import type { DatabaseRegistry, SecuritySubject } from "../databases/index.ts";
import type { KeyValueStore } from "../kv/index.ts";
import type { Configuration } from "./configuration.ts";
import {
  matchesHash,
  type PasswordHash,
  PSEUDO_RANDOM_FUNCTIONS,
  parseAdminHash,
  sameText,
} from "./passwords.ts";

export const USER_ID_PREFIX = "org.couchdb.user:";

export interface KnownUser {
  readonly name: string;
  readonly roles: readonly string[];
  /** Changes with the password: sessions and remembered credentials end with it. */
  readonly salt: string;
  matches(password: string): Promise<boolean>;
}

export class UserDirectory {
  readonly #kv: KeyValueStore;
  readonly #databases: DatabaseRegistry;
  readonly #configuration: Configuration;

  constructor(kv: KeyValueStore, databases: DatabaseRegistry, configuration: Configuration) {
    this.#kv = kv;
    this.#databases = databases;
    this.#configuration = configuration;
  }

  /** Undefined for a name that nobody has. */
  async find(name: string): Promise<KnownUser | undefined> {
    const stored = this.#configuration.section("admins").get(name);
    return stored ? adminOf(name, stored) : this.#userOf(name);
  }

  /** What the user may do now. `null` is whoever reaches a server that has no administrators. */
  async resolve(userName: string | null): Promise<SecuritySubject> {
    if (userName === null || this.#configuration.section("admins").has(userName)) {
      return { userName, roles: ["_admin"], isAdmin: true };
    }
    const user = await this.#userOf(userName);
    return { userName, roles: user?.roles ?? [], isAdmin: false };
  }

  async #userOf(name: string): Promise<KnownUser | undefined> {
    const body = await this.#read(`${USER_ID_PREFIX}${name}`);
    if (body === undefined) return undefined;
    const record: Readonly<Record<string, unknown>> = JSON.parse(body);
    const hash = hashOf(record);
    if (hash === undefined || record.name !== name) return undefined;
    const roles = Array.isArray(record.roles) ? record.roles : [];
    return {
      name,
      // No document makes somebody a server admin.
      roles: roles.filter((role) => typeof role === "string" && role !== "_admin"),
      salt: `${hash.salt}${hash.key}`,
      matches: (password) => matchesHash(password, hash),
    };
  }

  async #read(id: string): Promise<string | undefined> {
    try {
      const document = await this.#kv.read(async (tx) =>
        (await this.#databases.open(tx, "_users")).read(tx, id),
      );
      return document === undefined || document.deleted ? undefined : document.body;
    } catch (error) {
      if (errorCode(error) === "STORE_DATABASE_NOT_FOUND") return undefined;
      throw error;
    }
  }
}

function adminOf(name: string, stored: string): KnownUser {
  const hash = parseAdminHash(stored);
  return {
    name,
    roles: ["_admin"],
    salt: stored,
    matches: async (password) =>
      hash === undefined ? sameText(password, stored) : matchesHash(password, hash),
  };
}

/** What CouchDB keeps of a password in a user's document. */
function hashOf(record: Readonly<Record<string, unknown>>): PasswordHash | undefined {
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

/**
 * Stores rules, and the databases for which they have jobs. Rules are sealed because they contain
 * credentials.
 */

import {
  assert,
  errorCode,
  type JsonText,
  printJson,
  type Seal,
  splitObject,
  utf8Decode,
  utf8Encode,
} from "../../base/index.ts";
import type { Authority } from "../../databases/index.ts";
import {
  keyAfter,
  packTuple,
  type ReadTransaction,
  removeInBackground,
  type Subspace,
  type Transaction,
  unpackTuple,
} from "../../kv/index.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import { type Members, replicationMembers } from "../request/parse-fields.ts";

/** Format version, stored as the first element. */
const FORMAT = 1;

/**
 * Identity of a rule, readable without the key. `uuid` distinguishes a re-created rule from the
 * deleted one.
 */
export interface RuleIdentity {
  readonly uuid: string;
  /** Number incremented by each change of the rule. */
  readonly generation: number;
}

export interface RuleContent {
  /** Members of the rule as given, including secrets. */
  readonly members: Members;
  /** Last author of the rule. The jobs of the rule belong to this user. */
  readonly owner: Authority;
  readonly changedMs: number;
}

export interface StoredRule extends RuleIdentity {
  /** Content of the rule; undefined if this node lacks the key. */
  readonly content: RuleContent | undefined;
}

export interface NamedRule extends StoredRule {
  readonly name: string;
}

/** A database with a job of a rule. */
export interface RuleDatabase {
  readonly database: string;
  readonly generation: number;
  /**
   * Digest of the security object that is being copied, or was copied last; undefined if unknown.
   */
  readonly securityDigest: string | undefined;
}

export class RuleStore {
  readonly #keys: ReplicatorKeys;
  readonly #seal: Seal | undefined;

  constructor(subspace: Subspace, seal: Seal | undefined) {
    this.#keys = replicatorKeys(subspace);
    this.#seal = seal;
  }

  async get(tx: ReadTransaction, name: string): Promise<StoredRule | undefined> {
    const value = await tx.get(this.#keys.rule.key({ name }));
    return value && this.#decode(name, value);
  }

  set(
    tx: Transaction,
    name: string,
    { uuid, generation }: RuleIdentity,
    content: RuleContent,
  ): void {
    const plain = utf8Encode(printJson(content));
    const bytes = this.#seal === undefined ? plain : this.#seal.seal(plain, placeOf(name));
    const isSealed = this.#seal === undefined ? 0 : 1;
    tx.set(this.#keys.rule.key({ name }), packTuple([FORMAT, uuid, generation, isSealed, bytes]));
  }

  /** Removes a rule and, in the background, the rows of its databases. Does not remove its jobs. */
  remove(tx: Transaction, name: string, { uuid }: RuleIdentity, nowMs: number): void {
    tx.clear(this.#keys.rule.key({ name }));
    removeInBackground(tx, this.#keys.ruleDatabase.range({ uuid }), {
      kind: "rule",
      subject: name,
      nowMs,
    });
  }

  /** Returns a page of rules by name, starting after `after`. */
  async page(
    tx: ReadTransaction,
    { after, limit }: { readonly after: string | undefined; readonly limit: number },
  ): Promise<readonly NamedRule[]> {
    const { begin, end } = this.#keys.rule.range();
    const from = after === undefined ? begin : keyAfter(this.#keys.rule.key({ name: after }));
    const { entries } = await tx.getRangePage({ begin: from, end }, { limit });
    return entries.map(({ key, value }) => {
      const name = this.#keys.rule.unpack(key).name;
      return { name, ...this.#decode(name, value) };
    });
  }

  /**
   * Seals the rule with the current key, unless it already is. Returns false if nothing was
   * written.
   */
  async renewSeal(tx: Transaction, name: string): Promise<boolean> {
    const value = await tx.get(this.#keys.rule.key({ name }));
    if (value === undefined || this.#seal === undefined) return false;
    const { bytes, isSealed } = rowOf(value);
    if (isSealed && this.#seal.isCurrent(bytes)) return false;
    const { content, ...identity } = this.#decode(name, value);
    if (content === undefined) return false;
    this.set(tx, name, identity, content);
    return true;
  }

  /** Returns databases of a rule by name, after `after`, up to and including `last`. */
  async databases(
    tx: ReadTransaction,
    { uuid }: Pick<RuleIdentity, "uuid">,
    {
      after,
      last,
      limit,
    }: { readonly after?: string; readonly last?: string | undefined; readonly limit: number },
  ): Promise<readonly RuleDatabase[]> {
    const all = this.#keys.ruleDatabase.range({ uuid });
    const begin =
      after === undefined
        ? all.begin
        : keyAfter(this.#keys.ruleDatabase.key({ uuid, database: after }));
    const end =
      last === undefined
        ? all.end
        : keyAfter(this.#keys.ruleDatabase.key({ uuid, database: last }));
    const { entries } = await tx.getRangePage({ begin, end }, { limit });
    return entries.map(({ key, value }) =>
      decodeDatabase(this.#keys.ruleDatabase.unpack(key).database, value),
    );
  }

  /**
   * Returns the rows of these databases, in the order of `names`; undefined for a database without
   * a job of the rule.
   */
  async databasesNamed(
    tx: ReadTransaction,
    { uuid }: Pick<RuleIdentity, "uuid">,
    names: readonly string[],
  ): Promise<readonly (RuleDatabase | undefined)[]> {
    const values = await tx.getMany(
      names.map((name) => this.#keys.ruleDatabase.key({ uuid, database: name })),
    );
    return names.map((name, index) => {
      const value = values[index];
      return value === undefined ? undefined : decodeDatabase(name, value);
    });
  }

  setDatabase(
    tx: Transaction,
    { uuid }: Pick<RuleIdentity, "uuid">,
    { database, generation, securityDigest }: RuleDatabase,
  ): void {
    const value = packTuple([FORMAT, generation, securityDigest ?? null]);
    tx.set(this.#keys.ruleDatabase.key({ uuid, database }), value);
  }

  removeDatabase(tx: Transaction, { uuid }: Pick<RuleIdentity, "uuid">, database: string): void {
    tx.clear(this.#keys.ruleDatabase.key({ uuid, database }));
  }

  #decode(name: string, value: Uint8Array): StoredRule {
    const { uuid, generation, isSealed, bytes } = rowOf(value);
    return { uuid, generation, content: this.#open(name, bytes, isSealed) };
  }

  /**
   * Returns the content of a rule, or undefined if it is unreadable: other rules must still be
   * listed.
   */
  #open(name: string, bytes: Uint8Array, isSealed: boolean): RuleContent | undefined {
    if (isSealed && this.#seal === undefined) return undefined;
    try {
      const plain = isSealed ? this.#seal?.open(bytes, placeOf(name)) : bytes;
      return plain && decodeContent(utf8Decode(plain));
    } catch (error) {
      if (errorCode(error)?.startsWith("SECRETS_") === true) return undefined;
      throw error;
    }
  }
}

function rowOf(value: Uint8Array) {
  const [format, uuid, generation, isSealed, bytes] = unpackTuple(value);
  assert(
    format === FORMAT && bytes instanceof Uint8Array,
    "A rule must have a supported format version",
  );
  return { uuid: String(uuid), generation: Number(generation), isSealed: isSealed === 1, bytes };
}

/** Decodes a rule. The form of numbers is preserved as in `replicationMembers`. */
function decodeContent(text: JsonText): RuleContent {
  const content = JSON.parse(text) as RuleContent;
  const members = splitObject(text).find(({ name }) => name === "members");
  assert(members !== undefined, "A stored rule must have members");
  return { ...content, members: replicationMembers(members.value) };
}

function decodeDatabase(database: string, value: Uint8Array): RuleDatabase {
  const [format, generation, digest] = unpackTuple(value);
  assert(format === FORMAT, "A database of a rule must have a supported format version");
  const securityDigest = typeof digest === "string" ? digest : undefined;
  return { database, generation: Number(generation), securityDigest };
}

function placeOf(name: string): string {
  return JSON.stringify(["rule", name]);
}

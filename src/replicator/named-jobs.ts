/** Finds jobs by their names (`job-name.ts`). */
import type { Authority, DatabaseRegistry } from "../databases/index.ts";
import type { KeyValueStore, ReadTransaction, Subspace } from "../kv/index.ts";
import { isReplicatorDatabase } from "./documents/replication-hook.ts";
import type { ReplicationOwnership } from "./job-changes/replication-ownership.ts";
import type { NameFilter } from "./job-lists/job-filter.ts";
import { Glob } from "./jobs/glob.ts";
import { databaseUuidOf, persistentJobId } from "./jobs/job-data.ts";
import { type NamePlace, namePlaces } from "./jobs/job-name.ts";
import { type ReplicatorKeys, replicatorKeys } from "./replicator-keys.ts";
import type { RuleStore } from "./rules/rule-store.ts";

/**
 * Maximum number of databases, rules and replications read for a filter. If there are more, all
 * jobs are tested.
 */
const READ_MAX = 1_000;
/** Maximum number of id ranges that a list merges. If there are more, all jobs are tested. */
const PREFIXES_MAX = 50;

export interface NamedJobsParts {
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly ownership: ReplicationOwnership;
  readonly ruleStore: RuleStore;
  readonly subspace: Subspace;
}

export class NamedJobs {
  readonly #parts: NamedJobsParts;
  readonly #keys: ReplicatorKeys;

  constructor(parts: NamedJobsParts) {
    this.#parts = parts;
    this.#keys = replicatorKeys(parts.subspace);
  }

  /**
   * Returns the ids of the jobs that can have this name, most likely first. A name can be a
   * replication id (then `asker`'s job is preferred), a job id, or a display name. Jobs with these
   * ids need not exist.
   */
  idsOf(name: string, asker: Authority): Promise<readonly string[]> {
    const { kv, ownership } = this.#parts;
    return kv.read(async (tx) => {
      const id = await ownership.jobOf(tx, name, asker);
      const places = await Promise.all(namePlaces(name).map((place) => this.#idIn(tx, place)));
      return [id, ...places.filter((found) => found !== undefined)];
    });
  }

  /**
   * Returns a filter for names that begin with `text` or, if `text` contains stars, match it as a
   * pattern.
   */
  async filter(text: string): Promise<NameFilter> {
    const [literal = "", ...others] = text.split("*");
    const glob = new Glob(others.length === 0 ? `${text}*` : text);
    // Any job can match, so all jobs have to be tested.
    if (literal === "") return { glob, idPrefixes: undefined };
    return this.#parts.kv.read(async (tx) => {
      const [named, databases, rules, replications] = await Promise.all([
        Promise.all(namePlaces(literal).map((place) => this.#idIn(tx, place))),
        this.#databaseUuids(tx, literal),
        this.#ruleUuids(tx, literal),
        this.#jobsOfReplications(tx, literal),
      ]);
      if (databases === undefined || rules === undefined || replications === undefined) {
        return { glob, idPrefixes: undefined };
      }
      const idPrefixes = new Set([
        ...named.filter((prefix) => prefix !== undefined),
        ...[...databases, ...rules].map((uuid) => persistentJobId(uuid, "")),
        ...replications,
        // The name of a transient job without a replication id is its job id.
        literal,
      ]);
      return { glob, idPrefixes: idPrefixes.size > PREFIXES_MAX ? undefined : [...idPrefixes] };
    });
  }

  async #idIn(tx: ReadTransaction, { kind, name, rest }: NamePlace): Promise<string | undefined> {
    const { databases, ruleStore } = this.#parts;
    const place = kind === "database" ? databases.find(tx, name) : ruleStore.get(tx, name);
    const uuid = (await place)?.uuid;
    return uuid === undefined ? undefined : persistentJobId(uuid, rest);
  }

  /** Returns the uuids of the `_replicator` databases whose names begin with `prefix`. */
  async #databaseUuids(
    tx: ReadTransaction,
    prefix: string,
  ): Promise<readonly string[] | undefined> {
    const { databases } = this.#parts;
    const range = { startName: prefix, endName: `${prefix}\uffff` };
    const names = await databases.names(tx.snapshot, { ...range, limit: READ_MAX + 1 });
    if (names.length > READ_MAX) return undefined;
    const found = names.filter(isReplicatorDatabase).map((name) => databases.find(tx, name));
    return (await Promise.all(found)).flatMap((database) => database?.uuid ?? []);
  }

  async #ruleUuids(tx: ReadTransaction, prefix: string): Promise<readonly string[] | undefined> {
    const { ruleStore } = this.#parts;
    const rules = await ruleStore.page(tx.snapshot, { after: undefined, limit: READ_MAX + 1 });
    if (rules.length > READ_MAX) return undefined;
    return rules.filter(({ name }) => name.startsWith(prefix)).map(({ uuid }) => uuid);
  }

  /** Returns the ids of the transient jobs whose replication ids begin with `prefix`. */
  async #jobsOfReplications(
    tx: ReadTransaction,
    prefix: string,
  ): Promise<readonly string[] | undefined> {
    const { replicationJob } = this.#keys;
    const range = {
      begin: replicationJob.prefixKey({ replicationId: prefix }),
      end: replicationJob.prefixKey({ replicationId: `${prefix}\uffff` }),
    };
    const { entries } = await tx.snapshot.getRangePage(range, { limit: READ_MAX + 1 });
    if (entries.length > READ_MAX) return undefined;
    const jobIds = entries.map(({ key }) => replicationJob.unpack(key).jobId);
    // Skip jobs of documents and rules, which are not named by their replication id.
    return jobIds.filter((jobId) => databaseUuidOf(jobId) === undefined);
  }
}

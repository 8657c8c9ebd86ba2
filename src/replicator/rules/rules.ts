/** Creates, changes, removes and shows rules. Followers (`rule-follower.ts`) apply them. */

import {
  OperationalError,
  printJson,
  type Runtime,
  Utf8Text,
  utf8Encode,
} from "../../base/index.ts";
import type { Authority } from "../../databases/index.ts";
import { type Jobs, NO_LABELS } from "../../jobs/index.ts";
import type { KeyValueStore, ReadTransaction, Subspace, Transaction } from "../../kv/index.ts";
import { withStoredSecrets } from "../documents/masked-secrets.ts";
import type { RemovedDatabases } from "../documents/removed-databases.ts";
import type { JobIndex } from "../job-lists/job-index.ts";
import { REPLICATION_JOB_TYPE } from "../jobs/job-data.ts";
import { ruleGroup } from "../jobs/replication-group.ts";
import { LOCAL_RULE_TYPE, newRuleUuid, RULE_TYPE, RULE_TYPES } from "../jobs/rule-jobs.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import { checkRuleAfter } from "../request/after.ts";
import {
  type Members,
  ReplicationInvalidError,
  replicationMembers,
} from "../request/parse-fields.ts";
import type { Replication } from "../request/replication.ts";
import { checkFormat, type HasPlacement } from "../request/run-on.ts";
import { parseTags, type Tags } from "../request/tags.ts";
import { parseRule, type Rule, sampleReplication } from "./rule.ts";
import type { RuleFailure } from "./rule-progress.ts";
import type { NamedRule, RuleIdentity, RuleStore } from "./rule-store.ts";
import { RuleSummaries, type RuleSummary } from "./rule-summaries.ts";

/** Maximum number of rules. Each rule has a job on some node. */
export const RULES_MAX = 1000;
/** Maximum size of a rule's JSON, to fit into a value of the store. */
const RULE_BYTES_MAX = 32_768;
/** Maximum number of rules resealed per transaction. */
const PAGE_ROWS_MAX = 50;
const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$/;

/** Thrown if a masked secret has no stored counterpart, or would be sent to another server. */
export class RuleSecretError extends OperationalError {
  override readonly name = "RuleSecretError";
  readonly reason: string;

  constructor(reason: string) {
    super("REPLICATOR_RULE_SECRET", "A masked secret cannot be replaced by the stored one", {
      reason,
    });
    this.reason = reason;
  }
}

export interface RulesParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly index: JobIndex;
  readonly subspace: Subspace;
  readonly ruleStore: RuleStore;
  readonly removedDatabases: RemovedDatabases;
  readonly hasPlacement: HasPlacement;
  /** Settings for parsing rules. Read at each use, so that changed settings apply. */
  readonly config: Pick<ReplicatorConfig, "options" | "protocols">;
}

/** A rule with a summary of its jobs. */
export interface ShownRule extends NamedRule {
  readonly summary: RuleSummary;
}

/** A valid rule in which stored secrets have replaced their masks. */
interface CheckedRule {
  readonly whole: Members;
  readonly rule: Rule;
}

export type PutOutcome = "created" | "changed" | "same";

export class Rules {
  readonly #parts: RulesParts;
  readonly #summaries: RuleSummaries;

  constructor(parts: RulesParts) {
    this.#parts = parts;
    this.#summaries = new RuleSummaries(parts);
  }

  async get(name: string): Promise<ShownRule | undefined> {
    const { kv, index, ruleStore: store } = this.#parts;
    return index.read(kv, async (view) => {
      const stored = await store.get(view.tx, name);
      if (stored === undefined) return undefined;
      return { name, ...stored, summary: await this.#summaries.read(view, name, stored.uuid) };
    });
  }

  /** Returns the failures of the rules whose source cannot be listed, by rule name. */
  failures(): Promise<ReadonlyMap<string, RuleFailure>> {
    return this.#parts.kv.read((tx) => this.#summaries.failures(tx));
  }

  /** Returns the tags of a rule, if any; undefined also if this node cannot read the rule. */
  async tagsOf(tx: ReadTransaction, name: string): Promise<Tags | undefined> {
    const stored = await this.#parts.ruleStore.get(tx, name);
    return parseTags(stored?.content?.members.tags);
  }

  /** Returns a page of the rules whose source cannot be listed, by name, starting after `after`. */
  async failingPage(after = "", limit = RULES_MAX): Promise<readonly ShownRule[]> {
    const names = [...(await this.failures()).keys()].filter((name) => name > after).sort();
    const found = await Promise.all(names.slice(0, limit).map((name) => this.get(name)));
    return found.filter((rule) => rule !== undefined);
  }

  /** Returns a page of rules by name, starting after `after`. */
  async page(after: string | undefined, limit: number): Promise<readonly ShownRule[]> {
    const { kv, index, ruleStore: store } = this.#parts;
    const found = await kv.read((tx) => store.page(tx.snapshot, { after, limit }));
    const shown: ShownRule[] = [];
    for (const rule of found) {
      const { name, uuid } = rule;
      const summary = await index.read(kv, (view) => this.#summaries.read(view, name, uuid));
      shown.push({ ...rule, summary });
    }
    return shown;
  }

  async count(): Promise<number> {
    return (await this.names()).length;
  }

  async names(): Promise<readonly string[]> {
    const { kv, ruleStore: store } = this.#parts;
    const all = await kv.read((tx) =>
      store.page(tx.snapshot, { after: undefined, limit: RULES_MAX }),
    );
    return all.map(({ name }) => name);
  }

  /**
   * Returns the uuid of the rule, which is part of its jobs' ids; undefined if there is no such
   * rule.
   */
  async uuidOf(name: string): Promise<string | undefined> {
    const { kv, ruleStore: store } = this.#parts;
    return (await kv.read((tx) => store.get(tx, name)))?.uuid;
  }

  /**
   * Validates a rule and restores masked secrets. Throws a ReplicationInvalidError or
   * RuleSecretError.
   */
  async check(name: string, members: Members): Promise<Members> {
    const { kv, ruleStore: store } = this.#parts;
    const stored = await kv.read((tx) => store.get(tx, name));
    return this.#checked(name, members, stored?.content?.members).whole;
  }

  /**
   * Creates or changes a rule. Throws the errors of `check`, and a ReplicationInvalidError if there
   * are too many rules.
   */
  async put(name: string, members: Members, owner: Authority): Promise<PutOutcome> {
    const { runtime, kv, jobs, ruleStore: store } = this.#parts;
    return kv.transact(async (tx): Promise<PutOutcome> => {
      const stored = await store.get(tx, name);
      const { whole, rule } = this.#checked(name, members, stored?.content?.members);
      await checkFormat(tx, sampleReplication(rule, this.#parts.config), this.#parts.hasPlacement);
      const before = stored?.content?.members;
      if (before !== undefined && printJson(before) === printJson(whole)) return "same";
      if (stored === undefined) {
        const all = await store.page(tx.snapshot, { after: undefined, limit: RULES_MAX });
        if (all.length >= RULES_MAX) throw new ReplicationInvalidError(TOO_MANY);
      }
      await this.#write(tx, name, stored, { whole, rule }, owner);
      const { concurrency, runOn } = rule;
      await jobs.setGroupLimit(tx, REPLICATION_JOB_TYPE, ruleGroup(name), concurrency, runOn);
      const { userName } = owner;
      tx.afterCommit(() => runtime.trace.event("replication.rule-put", { rule: name, userName }));
      return stored === undefined ? "created" : "changed";
    });
  }

  /**
   * Replaces the members of a rule by the result of `change`, keeping the rule's owner. If `change`
   * returns undefined, the rule stays unchanged. Returns false if the rule is unchanged, missing or
   * unreadable.
   */
  async amend(
    name: string,
    change: (members: Members, sample: Replication, owner: Authority) => Members | undefined,
  ): Promise<boolean> {
    const { kv, ruleStore: store, config } = this.#parts;
    return kv.transact(async (tx) => {
      const stored = await store.get(tx, name);
      if (stored?.content === undefined) return false;
      const { members, owner } = stored.content;
      const changed = change(members, sampleReplication(parseRule(members, config), config), owner);
      if (changed === undefined) return false;
      await this.#write(tx, name, stored, this.#checked(name, changed, members), owner);
      return true;
    });
  }

  /** Stores the rule as a new generation, and schedules its follower. */
  async #write(
    tx: Transaction,
    name: string,
    stored: RuleIdentity | undefined,
    { whole: members, rule }: CheckedRule,
    owner: Authority,
  ): Promise<void> {
    const { runtime, jobs, ruleStore: store } = this.#parts;
    const uuid = stored?.uuid ?? newRuleUuid(runtime.random);
    const generation = (stored?.generation ?? 0) + 1;
    const nowMs = runtime.clock.nowMs();
    store.set(tx, name, { uuid, generation }, { members, owner, changedMs: nowMs });
    const [type, formerType] =
      rule.server === undefined ? [LOCAL_RULE_TYPE, RULE_TYPE] : [RULE_TYPE, LOCAL_RULE_TYPE];
    await jobs.remove(tx, { type: formerType, id: name });
    const job = { type, id: name };
    // A remote source might be reachable only from nodes with the labels. Any node can list our own
    // store.
    const labels = rule.server === undefined ? NO_LABELS : rule.runOn;
    await jobs.setLabels(tx, job, labels);
    const nowSec = Math.floor(nowMs / 1000);
    const isFollowed = await jobs.resubmit(tx, job, nowSec);
    if (!isFollowed) await jobs.add(tx, job, {}, { scheduledAtSec: nowSec, labels });
  }

  /** Removes the rule, and later its jobs. Returns false if the rule does not exist. */
  async remove(name: string, { userName }: Authority): Promise<boolean> {
    const { runtime, kv, jobs, ruleStore: store, removedDatabases } = this.#parts;
    return kv.transact(async (tx) => {
      const stored = await store.get(tx, name);
      if (stored === undefined) return false;
      store.remove(tx, name, stored, runtime.clock.nowMs());
      for (const type of RULE_TYPES) await jobs.remove(tx, { type, id: name });
      await jobs.setGroupLimit(tx, REPLICATION_JOB_TYPE, ruleGroup(name), undefined);
      removedDatabases.mark(tx, stored.uuid);
      tx.afterCommit(() =>
        runtime.trace.event("replication.rule-removed", { rule: name, userName }),
      );
      return true;
    });
  }

  /** Seals all rules with the current key. Returns the number of changed rules. */
  async renewSeals(): Promise<number> {
    const { kv, ruleStore: store } = this.#parts;
    let renewedCount = 0;
    let after: string | undefined;
    do {
      const from = { after, limit: PAGE_ROWS_MAX };
      const names = await kv.transact(
        async (tx) => {
          const page = await store.page(tx.snapshot, from);
          let count = 0;
          for (const { name } of page) if (await store.renewSeal(tx, name)) count++;
          return { page, count };
        },
        { whenUnknown: "retry" },
      );
      renewedCount += names.count;
      after = names.page.length === PAGE_ROWS_MAX ? names.page.at(-1)?.name : undefined;
    } while (after !== undefined);
    return renewedCount;
  }

  #checked(name: string, members: Members, stored: Members | undefined): CheckedRule {
    if (!NAME.test(name)) throw new ReplicationInvalidError(nameFault(name));
    const body = Utf8Text.of(printJson(members));
    const byteCount = utf8Encode(body.text).length;
    if (byteCount > RULE_BYTES_MAX) {
      throw new ReplicationInvalidError(
        `The rule has ${byteCount} bytes; at most ${RULE_BYTES_MAX} are allowed`,
      );
    }
    const before = stored === undefined ? undefined : Utf8Text.of(printJson(stored));
    const unmasked = withStoredSecrets(body, before);
    if (unmasked.kind === "refused") throw new RuleSecretError(unmasked.reason);
    const whole = replicationMembers(unmasked.body.text);
    const rule = parseRule(whole, this.#parts.config);
    checkRuleAfter(rule.after, name);
    return { whole, rule };
  }
}

const TOO_MANY = `There are already ${RULES_MAX} rules, the maximum`;

function nameFault(name: string): string {
  const shown = JSON.stringify(name.slice(0, 100));
  return `The name of a rule must have 1 to 100 letters, digits, _, . and -, and begin with a letter or a digit, but is ${shown}`;
}

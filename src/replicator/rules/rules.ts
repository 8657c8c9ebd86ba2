/**
 * Rules as the rest of the program sees them: they are put, shown and removed on every node. The job that follows a rule
 * (`rule-follower.ts`) does what they say.
 */

import {
  OperationalError,
  printJson,
  type Runtime,
  Utf8Text,
  utf8Encode,
} from "../../base/index.ts";
import type { Authority } from "../../databases/index.ts";
import type { Jobs } from "../../jobs/index.ts";
import type { KeyValueStore, Subspace, Transaction } from "../../kv/index.ts";
import { withStoredSecrets } from "../documents/masked-secrets.ts";
import type { RemovedDatabases } from "../documents/removed-databases.ts";
import { REPLICATION_JOB_TYPE } from "../jobs/job-data.ts";
import type { JobIndex } from "../jobs/job-index.ts";
import { ruleGroup } from "../jobs/replication-group.ts";
import { LOCAL_RULE_TYPE, newRuleUuid, RULE_TYPE, RULE_TYPES } from "../jobs/rule-jobs.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import {
  type Members,
  ReplicationInvalidError,
  replicationMembers,
} from "../request/parse-fields.ts";
import type { Replication } from "../request/replication.ts";
import { parseRule, type Rule, sampleReplication } from "./rule.ts";
import type { NamedRule, RuleIdentity, RuleStore } from "./rule-store.ts";
import { RuleSummaries, type RuleSummary } from "./rule-summaries.ts";

/** Each holds a job of its own on some node. */
const RULES_MAX = 1000;
/** Bytes of its JSON: more would not fit into a value of the store. */
const RULE_BYTES_MAX = 32_768;
/** Rules that are sealed again in one transaction. */
const PAGE_ROWS_MAX = 50;
const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$/;

/** A masked secret has nothing to stand for, or would go to another server. */
export class RuleSecretError extends OperationalError {
  override readonly name = "RuleSecretError";
  readonly reason: string;

  constructor(reason: string) {
    super("REPLICATOR_RULE_SECRET", "A masked secret cannot be put in its place", { reason });
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
  /** Read at each use. */
  readonly config: Pick<ReplicatorConfig, "options" | "protocols">;
}

/** A rule with what is known of its jobs. */
export interface ShownRule extends NamedRule {
  readonly summary: RuleSummary;
}

/** A rule with its secrets in place of their masks. */
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

  /** In the order of their names, behind `after`. */
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

  /** Of all of them. */
  async names(): Promise<readonly string[]> {
    const { kv, ruleStore: store } = this.#parts;
    const all = await kv.read((tx) =>
      store.page(tx.snapshot, { after: undefined, limit: RULES_MAX }),
    );
    return all.map(({ name }) => name);
  }

  /** The uuid that the ids of its jobs begin with; undefined: there is no such rule. */
  async uuidOf(name: string): Promise<string | undefined> {
    const { kv, ruleStore: store } = this.#parts;
    return (await kv.read((tx) => store.get(tx, name)))?.uuid;
  }

  /**
   * The members of a rule as they would be stored: with the secrets that masks stand for. Throws a ReplicationInvalidError for what is
   * no rule, and a RuleSecretError.
   */
  async check(name: string, members: Members): Promise<Members> {
    const { kv, ruleStore: store } = this.#parts;
    const stored = await kv.read((tx) => store.get(tx, name));
    return this.#checked(name, members, stored?.content?.members).whole;
  }

  /** Makes the rule, or changes it. Its jobs follow later. Throws as `check`, and when there are too many rules. */
  async put(name: string, members: Members, owner: Authority): Promise<PutOutcome> {
    const { runtime, kv, jobs, ruleStore: store } = this.#parts;
    return kv.transact(async (tx): Promise<PutOutcome> => {
      const stored = await store.get(tx, name);
      const { whole, rule } = this.#checked(name, members, stored?.content?.members);
      const before = stored?.content?.members;
      if (before !== undefined && printJson(before) === printJson(whole)) return "same";
      if (stored === undefined) {
        const all = await store.page(tx.snapshot, { after: undefined, limit: RULES_MAX });
        if (all.length >= RULES_MAX) throw new ReplicationInvalidError(TOO_MANY);
      }
      await this.#write(tx, name, stored, { whole, rule }, owner);
      await jobs.setGroupLimit(tx, REPLICATION_JOB_TYPE, ruleGroup(name), rule.concurrency);
      const { userName } = owner;
      tx.afterCommit(() => runtime.trace.event("replication.rule-put", { rule: name, userName }));
      return stored === undefined ? "created" : "changed";
    });
  }

  /**
   * Changes the members of a rule to what `change` makes of them, and of a replication as the rule asks for it; undefined: they stay. The
   * rule stays its owner's. False: it stays as it is, is gone, or this node cannot read it.
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

  /** Stores the rule, as another generation of the one that is there, and has it followed again. */
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
    const nowSec = Math.floor(nowMs / 1000);
    const isFollowed = await jobs.resubmit(tx, job, nowSec);
    if (!isFollowed) await jobs.add(tx, job, {}, { scheduledAtSec: nowSec });
  }

  /** Removes the rule; its jobs are cancelled after that, in pages. False when there is none. */
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

  /** Seals all rules with the key that seals now; how many were sealed otherwise. */
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
    if (utf8Encode(body.text).length > RULE_BYTES_MAX) {
      throw new ReplicationInvalidError(`A rule has ${RULE_BYTES_MAX} bytes at most`);
    }
    const before = stored === undefined ? undefined : Utf8Text.of(printJson(stored));
    const unmasked = withStoredSecrets(body, before);
    if (unmasked.kind === "refused") throw new RuleSecretError(unmasked.reason);
    const whole = replicationMembers(unmasked.body.text);
    return { whole, rule: parseRule(whole, this.#parts.config) };
  }
}

const TOO_MANY = `There are ${RULES_MAX} rules, and there can be no more`;

function nameFault(name: string): string {
  const shown = JSON.stringify(name.slice(0, 100));
  return `The name of a rule must have 1 to 100 letters, digits, _, . and -, and begin with a letter or a digit, but is ${shown}`;
}

/**
 * Dry run of a change or removal of a rule. Lists the databases of the source, as the follower
 * does.
 */

import { finishWithin, forEachConcurrent, type Runtime } from "../../base/index.ts";
import type { Authority } from "../../databases/index.ts";
import { ChecksBusyError } from "../checks-busy.ts";
import { EndpointError } from "../endpoints/endpoint.ts";
import type { ListedServer } from "../parking/watched-server.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import { decode, type Members } from "../request/parse-fields.ts";
import { fixedMembers } from "../request/replication.ts";
import { isSameSecurity } from "../run/same-security.ts";
import { type ListedServerParts, openListedServer } from "./listed-server.ts";
import { matchRule, parseRule, type Rule, ruleReplication } from "./rule.ts";
import { listNames, rowsOfRule } from "./rule-listing.ts";
import type { RuleStore, StoredRule } from "./rule-store.ts";
import type { Rules } from "./rules.ts";

/** Time limit for listing the source. */
export const LISTING_MS_MAX = 60_000;
/** Maximum number of concurrent plans per node. */
const PLANS_MAX = 4;
/** Maximum number of security objects compared concurrently. */
const COMPARED_AT_ONCE_MAX = 8;
/** Stands for the previous rule of a database if the database has no job. */
const NO_JOB = "no job";
/** Maximum number of names listed per kind of change. */
const NAMES_MAX = 10;

/** Databases affected by a change: their number, and the first names. */
export class PlannedDatabases {
  count = 0;
  readonly first: string[] = [];

  add(name: string): void {
    this.count++;
    if (this.first.length < NAMES_MAX) this.first.push(name);
  }
}

export interface RulePlan {
  /** Databases that match. */
  readonly matched: PlannedDatabases;
  /** Databases that get a job. */
  readonly made: PlannedDatabases;
  /** Databases whose job is replaced. */
  readonly changed: PlannedDatabases;
  /** Databases whose job is cancelled. */
  readonly ended: PlannedDatabases;
  /** Databases that match but cannot be copied. */
  readonly faulty: PlannedDatabases;
  /**
   * Targets whose security objects would be replaced; undefined if the rule copies no security
   * objects.
   */
  readonly overwritten: PlannedDatabases | undefined;
}

export interface RulePlansParts extends ListedServerParts {
  readonly runtime: Runtime;
  readonly ruleStore: RuleStore;
  readonly rules: Rules;
  /** Settings for parsing rules. Read at each use, so that changed settings apply. */
  readonly config: Pick<ReplicatorConfig, "options" | "protocols">;
}

export class RulePlans {
  readonly #parts: RulePlansParts;
  #underWay = 0;

  constructor(parts: RulePlansParts) {
    this.#parts = parts;
  }

  /**
   * Plans the creation or change of a rule. Throws the errors of `Rules.check`, or a
   * ChecksBusyError.
   */
  async ofPut(
    name: string,
    members: Members,
    owner: Authority,
    signal: AbortSignal,
  ): Promise<RulePlan> {
    const { kv, ruleStore, rules, config, runtime } = this.#parts;
    const rule = parseRule(await rules.check(name, members), config);
    if (this.#underWay >= PLANS_MAX) throw new ChecksBusyError();
    this.#underWay++;
    try {
      const stored = await kv.read((tx) => ruleStore.get(tx, name));
      return await finishWithin(runtime.clock, LISTING_MS_MAX, signal, {
        work: (limited) => this.#plan({ rule, owner }, stored, limited),
        late: () =>
          new EndpointError(
            "timeout",
            `The source was not listed within ${LISTING_MS_MAX / 1000} s`,
          ),
      });
    } finally {
      this.#underWay--;
    }
  }

  /** Plans the removal of a rule. Returns undefined if the rule does not exist. */
  async ofRemoval(name: string): Promise<RulePlan | undefined> {
    const { kv, ruleStore } = this.#parts;
    const stored = await kv.read((tx) => ruleStore.get(tx, name));
    if (stored === undefined) return undefined;
    const plan = emptyPlan();
    for await (const rows of rowsOfRule(kv, ruleStore, stored)) {
      for (const { database } of rows) plan.ended.add(database);
    }
    return plan;
  }

  async #plan(
    { rule, owner }: { readonly rule: Rule; readonly owner: Authority },
    stored: StoredRule | undefined,
    signal: AbortSignal,
  ): Promise<RulePlan> {
    const { kv, ruleStore, config } = this.#parts;
    const overwritten = rule.copiesSecurity ? new PlannedDatabases() : undefined;
    const plan: RulePlan = { ...emptyPlan(), overwritten };
    const before = stored?.content && parseRule(stored.content.members, config);
    const server = await openListedServer(this.#parts, { rule, owner });
    const turn = async (): Promise<void> => signal.throwIfAborted();
    for await (const { names, ...range } of listNames(server, turn, signal)) {
      const withJob = new Set<string>();
      if (stored !== undefined) {
        for await (const rows of rowsOfRule(kv, ruleStore, stored, range)) {
          for (const { database } of rows) withJob.add(database);
        }
      }
      const there = new Set(names);
      for (const name of names) {
        this.#planDatabase(plan, name, rule, withJob.has(name) ? before : NO_JOB);
      }
      for (const name of withJob) {
        if (!there.has(name)) this.#planGone(plan, name, rule);
      }
      if (overwritten === undefined) continue;
      await forEachConcurrent(names, COMPARED_AT_ONCE_MAX, async (name) => {
        signal.throwIfAborted();
        const target = await this.#overwrittenTarget(name, { rule, owner }, server, signal);
        if (target !== undefined) overwritten.add(target);
      });
    }
    return plan;
  }

  /**
   * Adds a database to a plan. `before` is the previous rule; undefined if that rule cannot be
   * read.
   */
  #planDatabase(
    plan: RulePlan,
    name: string,
    rule: Rule,
    before: Rule | typeof NO_JOB | undefined,
  ): void {
    const hasJob = before !== NO_JOB;
    const match = matchRule(rule, name);
    if (match.kind === "match") plan.matched.add(name);
    if (match.kind === "match" && match.target.kind === "invalid") plan.faulty.add(name);
    if (match.kind === "none" || match.target.kind === "invalid") {
      if (hasJob) plan.ended.add(name);
    } else if (!hasJob) plan.made.add(name);
    else if (this.#text(rule, name) !== (before && this.#text(before, name)))
      plan.changed.add(name);
  }

  /** Returns the target, without credentials, if its security object would be replaced. */
  async #overwrittenTarget(
    name: string,
    { rule, owner }: { readonly rule: Rule; readonly owner: Authority },
    server: ListedServer,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const match = matchRule(rule, name);
    if (match.kind === "none" || match.target.kind === "invalid") return undefined;
    const replication = ruleReplication(rule, name, match.target.url, this.#parts.config);
    if (replication.overwritesSecurity !== true) return undefined;
    const { target, options } = replication;
    const endpoint = this.#parts.endpoints.open(
      target,
      { ...options, retriesPerRequest: 0 },
      owner,
    );
    const [wanted, actual] = await Promise.all([
      server.security(name, signal),
      endpoint
        .info(signal)
        .then(() => endpoint.security(signal))
        .catch((error: unknown) => {
          if (error instanceof EndpointError && error.error === "db_not_found") return undefined;
          throw error;
        }),
    ]);
    const isReplaced =
      wanted !== undefined && actual !== undefined && !isSameSecurity(wanted, actual);
    return isReplaced ? nameOf(match.target.url) : undefined;
  }

  #planGone(plan: RulePlan, name: string, rule: Rule): void {
    const stays = matchRule(rule, name).kind === "match" && rule.whenDeleted === "keep";
    if (!stays) plan.ended.add(name);
  }

  /**
   * Returns the JSON of a database's replication, for comparison; undefined if the rule does not
   * copy the database. Omits tags and placement, because changing them does not replace the job.
   */
  #text(rule: Rule, name: string): string | undefined {
    const match = matchRule(rule, name);
    if (match.kind === "none" || match.target.kind === "invalid") return undefined;
    const { config } = this.#parts;
    return JSON.stringify(fixedMembers(ruleReplication(rule, name, match.target.url, config)));
  }
}

/** Returns the database name of a URL: its last segment. */
function nameOf(targetUrl: string): string {
  return decode(targetUrl.slice(targetUrl.lastIndexOf("/") + 1));
}

function emptyPlan(): RulePlan {
  return {
    matched: new PlannedDatabases(),
    made: new PlannedDatabases(),
    changed: new PlannedDatabases(),
    ended: new PlannedDatabases(),
    faulty: new PlannedDatabases(),
    overwritten: undefined,
  };
}

/**
 * `/_tandem/rules`: rules, which create a replication for each matching database of a server.
 * CouchDB has no counterpart.
 */

import { errorCode, joinObject, printJson } from "../../base/index.ts";
import { type RulePlan as Plan, QUERIES, type Rule, type RulesPage } from "../../contract/index.ts";
import { authorityOf } from "../../databases/index.ts";
import { badRequest, ProtocolError } from "../../protocol/index.ts";
import {
  describeFailure,
  EndpointError,
  isoTime,
  maskedRule,
  type PlannedDatabases,
  type RulePlan,
  type RulePlans,
  RuleSecretError,
  type Rules,
  replicationMembers,
  type ShownRule,
} from "../../replicator/index.ts";
import { securitySubject } from "../access/database-access.ts";
import { type Call, parameter } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readQuery } from "../http/query.ts";
import { readJsonMembers } from "../http/request-body.ts";
import { json, jsonText } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { noSuch } from "./no-such.ts";

export interface RulesParts {
  readonly replicator: { readonly rules: Rules };
  readonly rulePlans: Pick<RulePlans, "ofPut" | "ofRemoval">;
}

export function ruleRoutes(parts: RulesParts): readonly Route[] {
  const path = "/_tandem/rules/{name}";
  const { rules } = parts.replicator;
  return [
    defineRoute("GET", "/_tandem/rules", OPERATIONS, (call) => listRules(rules, call)),
    defineRoute("GET", path, OPERATIONS, (call) => showRule(rules, call)),
    defineRoute("PUT", path, OPERATIONS, (call) => putRule(parts, call)),
    defineRoute("DELETE", path, OPERATIONS, (call) => removeRule(parts, call)),
  ];
}

async function listRules(rules: Rules, call: Call): Promise<ApiResponse> {
  const { limit, bookmark: after, failing } = readQuery(call, QUERIES["GET /_tandem/rules"]);
  // Reads one more row than requested, to see whether there is a next page.
  const found = await (failing === true
    ? rules.failingPage(after, limit + 1)
    : rules.page(after, limit + 1));
  const page = found.slice(0, limit);
  const answer = {
    total_rows: failing === true ? (await rules.failures()).size : await rules.count(),
    bookmark: found.length > limit ? (page.at(-1)?.name ?? null) : null,
    rules: page.map(ruleView),
  } satisfies RulesPage;
  return jsonText(200, printJson(answer));
}

async function showRule(rules: Rules, call: Call): Promise<ApiResponse> {
  const rule = await rules.get(parameter(call, "name"));
  if (rule === undefined) throw missing(call);
  return jsonText(200, printJson(ruleView(rule)));
}

async function putRule(
  { replicator: { rules }, rulePlans }: RulesParts,
  call: Call,
): Promise<ApiResponse> {
  const { dry_run: isDryRun } = readQuery(call, QUERIES["PUT /_tandem/rules/{name}"]);
  const name = parameter(call, "name");
  const members = await readRule(call, name);
  const owner = authorityOf(securitySubject(call.user));
  if (isDryRun) {
    const { signal } = call.request;
    return planned(await checked(() => rulePlans.ofPut(name, members, owner, signal)));
  }
  const outcome = await checked(() => rules.put(name, members, owner));
  if (outcome === "same") return json(200, { ok: true, no_changes: true });
  return json(outcome === "created" ? 201 : 200, { ok: true });
}

async function removeRule(
  { replicator: { rules }, rulePlans }: RulesParts,
  call: Call,
): Promise<ApiResponse> {
  const { dry_run: isDryRun } = readQuery(call, QUERIES["DELETE /_tandem/rules/{name}"]);
  const name = parameter(call, "name");
  if (isDryRun) {
    const plan = await rulePlans.ofRemoval(name);
    if (plan === undefined) throw missing(call);
    return planned(plan);
  }
  if (!(await rules.remove(name, authorityOf(securitySubject(call.user))))) throw missing(call);
  return json(200, { ok: true });
}

/** Planned changes: for each kind, their number and some names of databases. */
function planned({ matched, made, changed, ended, faulty, overwritten }: RulePlan): ApiResponse {
  return json(200, {
    ok: true,
    dry_run: true,
    databases: plannedView(matched),
    create: plannedView(made),
    replace: plannedView(changed),
    cancel: plannedView(ended),
    cannot_copy: plannedView(faulty),
    ...(overwritten === undefined ? {} : { overwrite_security: plannedView(overwritten) }),
  } satisfies Plan);
}

function plannedView({ count, first }: PlannedDatabases) {
  return { count, first };
}

/** Maximum size of a rule. Limited because a rule is matched against each database. */
const RULE_BYTES_MAX = 1_000_000;

/** The members of the rule in the body. `name` and `status`, which `GET` adds, are accepted too. */
async function readRule(call: Call, name: string): Promise<Readonly<Record<string, unknown>>> {
  const texts = await readJsonMembers(call, RULE_BYTES_MAX);
  const text = joinObject([...texts].map(([member, value]) => ({ name: member, value })));
  const { name: named = name, status: _, ...rule } = replicationMembers(text);
  if (named === name) return rule;
  throw badRequest(
    `\`name\` must equal the name in the path or be omitted, but is ${JSON.stringify(named)}`,
  );
}

async function checked<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof RuleSecretError) {
      throw new ProtocolError(403, "forbidden", error.reason, { cause: error });
    }
    if (error instanceof EndpointError || errorCode(error)?.startsWith("HTTP_") === true) {
      const { error: name, reason } = describeFailure(error);
      throw new ProtocolError(502, name, `The source cannot be listed: ${reason}`, {
        cause: error,
      });
    }
    throw error;
  }
}

/** The stored rule with masked secrets and the state of its jobs. */
function ruleView({ name, content, summary }: ShownRule): Rule {
  const { states, jobCount, failingCount, parkedCount, leftBehindCount, lagSec } = summary;
  const { matchedCount, faultCount, faults, listedMs, followedBy, failure } = summary;
  return {
    name,
    ...(content === undefined ? {} : maskedRule(content.members)),
    status: {
      owner: content?.owner.userName ?? null,
      changed: content === undefined ? null : isoTime(content.changedMs),
      databases: matchedCount ?? null,
      jobs: jobCount,
      states,
      failing: failingCount,
      parked: parkedCount,
      left_behind: leftBehindCount,
      lag_sec: lagSec,
      listed: listedMs === undefined ? null : isoTime(listedMs),
      followed_by: followedBy ?? null,
      last_error: failure === undefined ? null : { error: failure.error, reason: failure.reason },
      cannot_copy: faultCount,
      faults,
    },
  };
}

function missing(call: Call): ProtocolError {
  const hint = "/_tandem/rules and `tandem rules list` show the names";
  return noSuch("rule", parameter(call, "name"), hint);
}

/**
 * Rules, each of which creates a replication for every matching database of a server
 * (docs/api/rules.md).
 */
import { parseJson } from "../../base/index.ts";
import type { Rule, RulePlan, RulesPage } from "../../contract/index.ts";
import { exchange, get, request, segmentOf, withQuery } from "./request.ts";

/**
 * A page of rules, ordered by name. `bookmark` comes from the previous page. Default: the first
 * page.
 */
export function readRules(bookmark: string | undefined, signal: AbortSignal): Promise<RulesPage> {
  return get<RulesPage>(
    withQuery("_tandem/rules", bookmark === undefined ? {} : { bookmark }),
    signal,
  );
}

/** Returns the first rules that cannot list their source. */
export function readFailingRules(signal: AbortSignal): Promise<RulesPage> {
  return get<RulesPage>("_tandem/rules?failing=true&limit=10", signal);
}

export async function readRule(name: string, signal: AbortSignal): Promise<Rule> {
  const { text } = await exchange("GET", pathOf(name), { signal });
  return parseJson(text) as Rule;
}

/** A rule as JSON. */
export type RuleBody = Readonly<Record<string, unknown>>;

/** Returns the effects of a rule without storing it. Throws a RequestError that names the error. */
export async function planRule(name: string, body: RuleBody): Promise<RulePlan> {
  return request<RulePlan>("PUT", `${pathOf(name)}?dry_run=true`, { body });
}

export async function putRule(name: string, body: RuleBody): Promise<void> {
  await request("PUT", pathOf(name), { body });
}

export async function planRemoval(name: string): Promise<RulePlan> {
  return request<RulePlan>("DELETE", `${pathOf(name)}?dry_run=true`);
}

export async function removeRule(name: string): Promise<void> {
  await request("DELETE", pathOf(name));
}

function pathOf(name: string): string {
  return `_tandem/rules/${segmentOf(name)}`;
}

/** `/_tandem/credentials/_replace`: gives many jobs other credentials. CouchDB has no counterpart. */
import { forEachConcurrent } from "../../base/index.ts";
import { badRequest } from "../../protocol/index.ts";
import {
  type CredentialReplacement,
  parseReplacement,
  type Replicator,
} from "../../replicator/index.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { booleanParameter } from "../http/query.ts";
import { readMembers } from "../http/request-body.ts";
import { json } from "../http/responses.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { deciderOf } from "./decider.ts";

/** Jobs that are changed at once, each in a transaction of its own. */
const AT_ONCE_MAX = 8;
const MEMBERS = ["host", "username", "side", "auth", "why"];

export interface CredentialsParts {
  readonly replicator: Replicator;
}

export function credentialsRoutes({ replicator }: CredentialsParts): readonly Route[] {
  const path = "/_tandem/credentials/_replace";
  return [defineRoute("POST", path, (call) => replaceCredentials(replicator, call))];
}

/** With `dry_run`, only counts. Safe to ask again: what has the new credentials is not found any more, unless the user is the same. */
async function replaceCredentials(replicator: Replicator, call: Call): Promise<ApiResponse> {
  const isDryRun = booleanParameter(call, "dry_run") ?? false;
  const members = await readMembers(call);
  const unknown = [...members.keys()].find((name) => !MEMBERS.includes(name));
  if (unknown !== undefined) throw badRequest(`\`${unknown}\` is not known`);
  const given = Object.fromEntries(members);
  const replacement = parseReplacement(given);
  const decider = deciderOf(call, given.why);
  const ids: string[] = [];
  let documents = 0;
  for await (const { jobId, data } of replicator.entries()) {
    if (!replicator.credentials.concerns(replacement, data)) continue;
    ids.push(jobId);
    if (data.document !== undefined) documents++;
  }
  const found = { matched: ids.length, documents, transient: ids.length - documents };
  if (isDryRun) {
    const rules = await replaceInRules(replicator, replacement, isDryRun);
    return json(200, { ok: true, dry_run: true, ...found, rules });
  }
  const counts = { replaced: 0, unmatched: 0, refused: 0 };
  await forEachConcurrent(ids, AT_ONCE_MAX, async (id) => {
    counts[await replicator.credentials.replace(id, replacement, decider)]++;
  });
  const { replaced: changed, refused } = counts;
  // After the jobs: those that have the new credentials then are as the rule says, and go on.
  const rules = await replaceInRules(replicator, replacement, isDryRun);
  return json(200, { ok: refused === 0, ...found, changed, refused, rules });
}

/** In rules, of which the next jobs would have the former credentials. Returns the names of those that changed, or would. */
async function replaceInRules(
  { rules, credentials }: Replicator,
  replacement: CredentialReplacement,
  isDryRun: boolean,
): Promise<readonly string[]> {
  const changed: string[] = [];
  for (const name of await rules.names()) {
    if (await credentials.replaceInRule(name, replacement, { isDryRun })) changed.push(name);
  }
  return changed;
}

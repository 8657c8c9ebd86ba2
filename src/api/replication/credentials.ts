/**
 * `/_tandem/credentials/_replace`: replaces the credentials of many jobs. CouchDB has no
 * counterpart.
 */
import { forEachConcurrent } from "../../base/index.ts";
import { QUERIES } from "../../contract/index.ts";
import { authorityOf, ownerKey } from "../../databases/index.ts";
import { badRequest } from "../../protocol/index.ts";
import {
  type CredentialReplacement,
  type Entitlement,
  type JobEntry,
  parseReplacement,
  type Replicator,
} from "../../replicator/index.ts";
import { securitySubject } from "../access/database-access.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readQuery } from "../http/query.ts";
import { readMembers } from "../http/request-body.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { deciderOf } from "./decider.ts";

/** Number of jobs changed concurrently, each in its own transaction. */
const AT_ONCE_MAX = 8;
const MEMBERS = ["host", "username", "side", "owner", "auth", "why"];
/** Maximum number of owners listed for jobs that were skipped. */
const OWNERS_MAX = 10;

export interface CredentialsParts {
  readonly replicator: Replicator;
}

export function credentialsRoutes({ replicator }: CredentialsParts): readonly Route[] {
  const path = "/_tandem/credentials/_replace";
  return [defineRoute("POST", path, OPERATIONS, (call) => replaceCredentials(replicator, call))];
}

/**
 * Replaces the credentials of all matching jobs; with `dry_run`, only counts them. Can be repeated:
 * jobs with the new credentials no longer match, unless the user name is the same.
 */
async function replaceCredentials(replicator: Replicator, call: Call): Promise<ApiResponse> {
  const { dry_run: isDryRun = false } = readQuery(
    call,
    QUERIES["POST /_tandem/credentials/_replace"],
  );
  const members = await readMembers(call);
  const unknown = [...members.keys()].find((name) => !MEMBERS.includes(name));
  if (unknown !== undefined) throw badRequest(`\`${unknown}\` is not known`);
  const given = Object.fromEntries(members);
  const replacement = parseReplacement(given);
  const decider = deciderOf(call, given.why);
  const { credentials } = replicator;
  const concerned: JobEntry[] = [];
  for await (const entry of replicator.entries()) {
    if (credentials.concerns(replacement, entry.data)) concerned.push(entry);
  }
  const caller = authorityOf(securitySubject(call.user));
  const entitlement = credentials.entitlement(
    replacement,
    caller,
    concerned.map(({ data }) => data),
  );
  const isEntitled = ({ data }: JobEntry) => credentials.isEntitled(replacement, data, entitlement);
  const entitled = concerned.filter(isEntitled);
  const ids = entitled.map(({ jobId }) => jobId);
  const documents = entitled.filter(({ data }) => data.document !== undefined).length;
  const found = {
    matched: ids.length,
    documents,
    transient: ids.length - documents,
    ...withheldFrom(concerned.filter((entry) => !isEntitled(entry))),
  };
  if (isDryRun) {
    const rules = await replaceInRules(replicator, replacement, { isDryRun, entitlement });
    return json(200, { ok: true, dry_run: true, ...found, rules });
  }
  const counts = { replaced: 0, unmatched: 0, withheld: 0, refused: 0 };
  await forEachConcurrent(ids, AT_ONCE_MAX, async (id) => {
    counts[await credentials.replace(id, replacement, decider, entitlement)]++;
  });
  const { replaced: changed, refused } = counts;
  // Rules are changed after the jobs, because jobs that already match the changed rule are not
  // restarted.
  const rules = await replaceInRules(replicator, replacement, { isDryRun, entitlement });
  return json(200, { ok: refused === 0, ...found, changed, refused, rules });
}

/**
 * Number of unchanged jobs that log in as the same user, with some of their owners; an empty object
 * if there are no such jobs.
 */
function withheldFrom(entries: readonly JobEntry[]): object {
  if (entries.length === 0) return {};
  const owners = new Set(entries.map(({ data }) => ownerKey(data)));
  return { withheld: { count: entries.length, owners: [...owners].slice(0, OWNERS_MAX) } };
}

/**
 * Replaces the credentials in rules, so that jobs created later get the new ones. Returns the names
 * of the changed rules; with `dry_run`, of the rules that would change.
 */
async function replaceInRules(
  { rules, credentials }: Replicator,
  replacement: CredentialReplacement,
  options: { readonly isDryRun: boolean; readonly entitlement: Entitlement },
): Promise<readonly string[]> {
  const changed: string[] = [];
  for (const name of await rules.names()) {
    if (await credentials.replaceInRule(name, replacement, options)) changed.push(name);
  }
  return changed;
}

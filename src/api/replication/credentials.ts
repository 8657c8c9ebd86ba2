/**
 * `/_tandem/credentials/_replace`: replaces the credentials of many jobs, as a command. CouchDB has
 * no counterpart.
 */
import { QUERIES, type ReplacedCredentials } from "../../contract/index.ts";
import { authorityOf } from "../../databases/index.ts";
import { parseReplacement } from "../../replicator/index.ts";
import { securitySubject } from "../access/database-access.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readQuery } from "../http/query.ts";
import { readMembers, refuseUnknownNames } from "../http/request-body.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { deciderOf } from "./decider.ts";
import { optionalFilterOf } from "./job-query.ts";
import { type JobsParts, resolvedFilter } from "./jobs.ts";

const MEMBERS = ["host", "username", "side", "owner", "auth", "why"];

export function credentialsRoutes(parts: JobsParts): readonly Route[] {
  const path = "/_tandem/credentials/_replace";
  return [defineRoute("POST", path, OPERATIONS, (call) => replaceCredentials(parts, call))];
}

/**
 * Replaces the credentials of an account in all jobs, or in the jobs that match the query; with
 * `dry_run`, only counts these jobs. Can be repeated: if the replacement changes the user name,
 * jobs that already have the new credentials no longer match.
 */
async function replaceCredentials(parts: JobsParts, call: Call): Promise<ApiResponse> {
  const query = readQuery(call, QUERIES["POST /_tandem/credentials/_replace"]);
  const { dry_run: isDryRun = false, ...filters } = query;
  const asked = optionalFilterOf(filters);
  const members = await readMembers(call);
  refuseUnknownNames(members.keys(), MEMBERS);
  const given = Object.fromEntries(members);
  const replacement = parseReplacement(given);
  const decider = deciderOf(call, given.why);
  const { credentials, bulk } = parts.replicator;
  const caller = authorityOf(securitySubject(call.user));
  const filter = asked && (await resolvedFilter(parts, asked));
  const { jobIds, documentCount, withheld, content } = await credentials.find(
    replacement,
    caller,
    filter,
  );
  const found = {
    matched: jobIds.length,
    documents: documentCount,
    transient: jobIds.length - documentCount,
    ...(withheld.count === 0 ? {} : { withheld }),
    rules: content.rules,
  };
  if (isDryRun) {
    return json(200, { ok: true, dry_run: true, ...found } satisfies ReplacedCredentials);
  }
  const { id, state, changed, failed } = await bulk.replaceCredentials(jobIds, content, decider);
  const headers = { Location: `/_tandem/commands/${id}` };
  if (state !== "completed") {
    return json(202, { ok: true, id, ...found } satisfies ReplacedCredentials, headers);
  }
  const done = { ok: failed === 0, ...found, changed, refused: failed };
  return json(200, done satisfies ReplacedCredentials, headers);
}

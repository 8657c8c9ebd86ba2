/**
 * `GET /_tandem/failing`: failing jobs, grouped by class, side and host of their last failure, or
 * by a tag. CouchDB has no counterpart.
 */
import {
  type FailingPage,
  type FailingGroup as FailingRow,
  QUERIES,
} from "../../contract/index.ts";
import { badRequest } from "../../protocol/index.ts";
import {
  type FailingGroup,
  type GatedAccount,
  isoTime,
  isTagName,
  jobName,
  type Replicator,
  replaceableLogin,
} from "../../replicator/index.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readQuery } from "../http/query.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { loginGateView } from "./logins.ts";

export function failingRoutes(replicator: Replicator): readonly Route[] {
  return [
    defineRoute("GET", "/_tandem/failing", OPERATIONS, (call) => listGroups(replicator, call)),
  ];
}

async function listGroups(replicator: Replicator, call: Call): Promise<ApiResponse> {
  const { group_by, ...page } = readQuery(call, QUERIES["GET /_tandem/failing"]);
  const tag = group_by === undefined ? undefined : tagOf(group_by);
  const { groups, total, jobCount } = await replicator.failing.page({ ...page, tag });
  const gates = await replicator.logins.ofJobs(groups.map(({ example }) => example));
  return json(200, {
    total_rows: total,
    jobs: jobCount,
    groups: groups.map((group, index) => groupView(group, gates[index])),
  } satisfies FailingPage);
}

/** The name of the tag in `tag:NAME`. Throws a ProtocolError 400. */
function tagOf(text: string): string {
  const name = text.startsWith("tag:") ? text.slice(4) : "";
  if (isTagName(name)) return name;
  throw badRequest(`group_by is ${text.slice(0, 200)}; expected the name of a tag, as in tag:team`);
}

function groupView(
  { count, example, failing, nextTryMs, ...key }: FailingGroup,
  gate: GatedAccount | undefined,
): FailingRow {
  const login = replaceableLogin(example);
  return {
    tag: key.tag ?? null,
    class: key.class,
    side: key.side ?? null,
    host: key.host ?? null,
    count,
    since: isoTime(failing.sinceMs),
    next_try: nextTryMs === undefined ? null : isoTime(nextTryMs),
    error: failing.error,
    reason: failing.reason,
    example: jobName(example.jobId, example.data),
    login: login === undefined ? null : { host: login.origin, username: login.account },
    login_gate: gate === undefined ? null : loginGateView(gate),
  };
}

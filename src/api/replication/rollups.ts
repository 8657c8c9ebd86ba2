/**
 * `GET /_tandem/endpoints` and `/_tandem/groups`: the state of the cluster by server and by group.
 * CouchDB has no counterpart.
 */
import {
  type EndpointPage,
  type EndpointRow,
  type GroupPage,
  type GroupRow,
  QUERIES,
} from "../../contract/index.ts";
import {
  type Budgets,
  budgetView,
  type ClusterEndpoint,
  isoTime,
  type JobGroup,
  type Replicator,
} from "../../replicator/index.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readQuery } from "../http/query.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

export interface RollupsParts {
  readonly replicator: Replicator;
  readonly budgets: Budgets;
}

export function rollupRoutes(parts: RollupsParts): readonly Route[] {
  return [
    defineRoute("GET", "/_tandem/endpoints", OPERATIONS, (call) => listEndpoints(parts, call)),
    defineRoute("GET", "/_tandem/groups", OPERATIONS, (call) => listGroups(parts, call)),
  ];
}

async function listEndpoints(
  { replicator, budgets }: RollupsParts,
  call: Call,
): Promise<ApiResponse> {
  const { endpoints, total } = await replicator.endpoints.page(
    readQuery(call, QUERIES["GET /_tandem/endpoints"]),
  );
  const known = [...(await budgets.list())].map(([name, budget]) => ({
    name,
    ...budgetView(budget),
  }));
  const views = endpoints.map((endpoint) => ({
    ...endpointView(endpoint),
    // The budgets of a host include those of accounts on it.
    budgets: known.filter(({ name }) => name.replace(/^.*@/, "") === endpoint.host),
  }));
  return json(200, { total_rows: total, endpoints: views } satisfies EndpointPage);
}

async function listGroups({ replicator }: RollupsParts, call: Call): Promise<ApiResponse> {
  const { skip, limit } = readQuery(call, QUERIES["GET /_tandem/groups"]);
  const groups = await replicator.groups.list();
  const views = groups.slice(skip, skip + limit).map(groupView);
  return json(200, { total_rows: groups.length, groups: views } satisfies GroupPage);
}

function endpointView(endpoint: ClusterEndpoint): Omit<EndpointRow, "budgets"> {
  const { host, sourceCount, targetCount, failing, outage } = endpoint;
  const { requestCount, latencyMs, limiterMs } = endpoint;
  return {
    host,
    source_jobs: sourceCount,
    target_jobs: targetCount,
    failing: Object.fromEntries(failing),
    outage:
      outage === undefined
        ? null
        : { confirmed: outage.isConfirmed, probed: isoTime(outage.probedAtMs) },
    limiter_ms: limiterMs,
    requests: requestCount,
    latency_ms: latencyMs === undefined ? null : Math.round(latencyMs * 10) / 10,
  };
}

function groupView({ name, shares, usageSec, standing, counts, waitSec }: JobGroup): GroupRow {
  const { running, pending, finished } = counts;
  return {
    name,
    shares,
    usage_sec: Math.round(usageSec * 10) / 10,
    standing: Math.round(standing * 1000) / 1000,
    jobs: { running, pending, ended: finished },
    longest_wait_sec: Math.round(waitSec * 10) / 10,
  };
}

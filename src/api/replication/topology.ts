/** `GET /_tandem/topology`: who copies to whom. CouchDB has no counterpart. */
import { QUERIES, type Topology } from "../../contract/index.ts";
import { TOPOLOGY_JOBS_MAX, TopologyBuilder } from "../../replicator/index.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readQuery } from "../http/query.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { filterOf } from "./job-query.ts";
import { type JobsParts, resolvedFilter } from "./jobs.ts";

export interface TopologyParts extends JobsParts {
  readonly runtime: { readonly clock: { nowMs(): number } };
}

export function topologyRoutes(parts: TopologyParts): readonly Route[] {
  return [defineRoute("GET", "/_tandem/topology", OPERATIONS, (call) => showTopology(parts, call))];
}

async function showTopology(parts: TopologyParts, call: Call): Promise<ApiResponse> {
  const query = readQuery(call, QUERIES["GET /_tandem/topology"]);
  const filter = await resolvedFilter(parts, filterOf(query));
  const builder = new TopologyBuilder(parts.shownUrl(), parts.runtime.clock.nowMs());
  let count = 0;
  for await (const entry of parts.replicator.lists.all(filter)) {
    if (count++ === TOPOLOGY_JOBS_MAX) {
      builder.truncate();
      break;
    }
    builder.add(entry);
  }
  const { jobs, databases, edges, loops, truncated } = builder.build();
  return json(200, {
    jobs,
    databases: databases.map(({ name, host = null }) => ({ name, host })),
    edges: edges.map(({ lagSec = null, ...edge }) => ({ ...edge, lag_sec: lagSec })),
    loops,
    truncated,
  } as Topology);
}

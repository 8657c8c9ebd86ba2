/**
 * `GET /_tandem/topology`: the databases that jobs copy from and to. CouchDB has no counterpart.
 * Reading 10,000 jobs takes seconds, so requests with equal filters share a response for two
 * seconds.
 */
import { QUERIES, type Topology } from "../../contract/index.ts";
import { TOPOLOGY_JOBS_MAX, TopologyBuilder } from "../../replicator/index.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readQuery } from "../http/query.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { type AskedFilter, filterOf } from "./job-query.ts";
import { type JobsParts, resolvedFilter } from "./jobs.ts";

/** Time for which a computed response is cached. */
const SHARED_MS = 2_000;

export interface TopologyParts extends JobsParts {
  readonly runtime: { readonly clock: { nowMs(): number; monotonicMs(): number } };
}

/** The last response. While it is being computed, `untilMs` is infinite. */
interface SharedAnswer {
  readonly filters: string;
  readonly topology: Promise<Topology>;
  untilMs: number;
}

export function topologyRoutes(parts: TopologyParts): readonly Route[] {
  const { clock } = parts.runtime;
  let last: SharedAnswer | undefined;
  const share = (filters: string, asked: AskedFilter): Promise<Topology> => {
    if (last?.filters === filters && clock.monotonicMs() < last.untilMs) return last.topology;
    const topology = readTopology(parts, asked);
    const answer: SharedAnswer = { filters, topology, untilMs: Number.POSITIVE_INFINITY };
    last = answer;
    const end = (sharedMs: number) => () => {
      answer.untilMs = clock.monotonicMs() + sharedMs;
    };
    topology.then(end(SHARED_MS), end(0));
    return topology;
  };
  const show = async (call: Call): Promise<ApiResponse> => {
    const query = readQuery(call, QUERIES["GET /_tandem/topology"]);
    return json(200, await share(JSON.stringify(query), filterOf(query)));
  };
  return [defineRoute("GET", "/_tandem/topology", OPERATIONS, show)];
}

async function readTopology(parts: TopologyParts, asked: AskedFilter): Promise<Topology> {
  const filter = await resolvedFilter(parts, asked);
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
  return {
    jobs,
    databases: databases.map(({ name, host = null }) => ({ name, host })),
    edges: edges.map(({ lagSec = null, ...edge }) => ({ ...edge, lag_sec: lagSec })),
    loops,
    truncated,
  } as Topology;
}

/**
 * `/_tandem/nodes`: lists the processes that run jobs, and drains them; `/_tandem/rates`:
 * statistics of the last hour. CouchDB has no counterpart.
 */

import type { Clock, Runtime } from "../../base/index.ts";
import type { NodePage, NodeRow, RateMinute, Rates } from "../../contract/index.ts";
import {
  isoTime,
  MINUTE_MS,
  type MinuteCounts,
  type NodeEntry,
  type Replicator,
} from "../../replicator/index.ts";
import { type Call, parameter } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { noSuch } from "./no-such.ts";

export interface NodesParts {
  readonly runtime: Pick<Runtime, "clock">;
  readonly replicator: Replicator;
  /** Name of the node that serves the request; paths can abbreviate it to `_local`. */
  readonly nodeName: string;
}

export function nodesRoutes(parts: NodesParts): readonly Route[] {
  const path = "/_tandem/nodes";
  return [
    defineRoute("GET", path, OPERATIONS, () => listNodes(parts)),
    defineRoute("GET", "/_tandem/rates", OPERATIONS, () => listRates(parts)),
    defineRoute("POST", `${path}/{name}/_drain`, OPERATIONS, (call) =>
      setDraining(parts, call, true),
    ),
    defineRoute("POST", `${path}/{name}/_undrain`, OPERATIONS, (call) =>
      setDraining(parts, call, false),
    ),
  ];
}

async function listNodes({ runtime, replicator }: NodesParts): Promise<ApiResponse> {
  const nodes = await replicator.nodes.list();
  const views = nodes.map((node) => nodeView(node, runtime.clock));
  return json(200, { total_rows: views.length, nodes: views } satisfies NodePage);
}

async function listRates({ runtime, replicator }: NodesParts): Promise<ApiResponse> {
  const minutes = await replicator.nodes.rates();
  const nowMs = runtime.clock.nowMs();
  return json(200, { minutes: minutes.map((minute) => minuteView(minute, nowMs)) } satisfies Rates);
}

async function setDraining(
  { replicator, nodeName }: NodesParts,
  call: Call,
  isDraining: boolean,
): Promise<ApiResponse> {
  const asked = parameter(call, "name");
  const name = asked === "_local" ? nodeName : asked;
  const { matchedCount, changedCount } = await replicator.nodes.setDraining(name, isDraining);
  if (matchedCount === 0) {
    const hint = "use a name or id shown by /_tandem/nodes and `tandem nodes list`, or _local";
    throw noSuch("node", asked, hint);
  }
  return json(200, { ok: true, matched: matchedCount, changed: changedCount });
}

function minuteView({ startMs, counts }: MinuteCounts, nowMs: number): RateMinute {
  return {
    time: isoTime(startMs),
    // Elapsed part of the minute: 60 s, or less for the current minute.
    seconds: Math.min(MINUTE_MS, Math.max(0, nowMs - startMs)) / 1000,
    starts: counts?.startCount ?? null,
    failures: counts?.failureCount ?? null,
    docs_written: counts?.documentCount ?? null,
  };
}

function nodeView(entry: NodeEntry, clock: Clock): NodeRow {
  const { id, node, processId, state, isDraining, jobCount, renewedMs, report, program } = entry;
  const { labels } = entry;
  const leaseMs = renewedMs === undefined ? undefined : Math.max(0, clock.nowMs() - renewedMs);
  return {
    id: id ?? null,
    name: node,
    pid: processId,
    state,
    draining: isDraining,
    // True once the node itself has reported that it is draining and has no jobs left.
    drained: isDraining && report?.isDraining === true && jobCount === 0,
    jobs: jobCount,
    slots: report?.slots ?? null,
    labels,
    memory_bytes: report?.memoryBytes ?? null,
    event_loop_delay_ms: report === undefined ? null : tenths(report.eventLoopDelayMs),
    lease_age_sec: leaseMs === undefined ? null : tenths(leaseMs / 1000),
    version: program?.version ?? report?.version ?? null,
    formats: program?.formats ?? null,
    started: report === undefined ? null : isoTime(report.startedMs),
    last_report: report === undefined ? null : isoTime(report.reportedMs),
  };
}

function tenths(number: number): number {
  return Math.round(number * 10) / 10;
}

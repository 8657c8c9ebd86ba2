/**
 * `/_node/{name}/_prometheus`, `_stats` and `_system`: the metrics of a node (`chttpd_node`,
 * `couch_prometheus_http`).
 */
import { type Call, parameter } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { requireNode } from "../http/node-name.ts";
import { json } from "../http/responses.ts";
import { METRICS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

export interface NodeMetrics {
  /** All metrics in Prometheus's text format. */
  prometheus(): Promise<{ readonly type: string; readonly text: string }>;
  /** Metrics in the form of `_stats`, nested by the segments of their names. */
  statistics(): Promise<StatisticsTree>;
  /** Statistics of the process. */
  system(): Readonly<Record<string, unknown>>;
}

export type Statistic =
  | { readonly value: number; readonly type: "counter" | "gauge"; readonly desc: string }
  | { readonly value: Distribution; readonly type: "histogram"; readonly desc: string };

/** A histogram with CouchDB's members; `percentile` and `histogram` are lists of pairs. */
export interface Distribution {
  readonly min: number;
  readonly max: number;
  readonly arithmetic_mean: number;
  readonly geometric_mean: number;
  readonly harmonic_mean: number;
  readonly median: number;
  readonly variance: number;
  readonly standard_deviation: number;
  readonly skewness: number;
  readonly kurtosis: number;
  readonly percentile: readonly (readonly [number, number])[];
  readonly histogram: readonly (readonly [number, number])[];
  readonly n: number;
}

export interface StatisticsTree {
  readonly [segment: string]: Statistic | StatisticsTree;
}

export function nodeMetricsRoutes(metrics: NodeMetrics, nodeName: string): readonly Route[] {
  const here =
    (handle: (call: Call) => Promise<ApiResponse>) =>
    async (call: Call): Promise<ApiResponse> => {
      requireNode(parameter(call, "node"), nodeName);
      return handle(call);
    };
  const statistics = here(async (call) => json(200, await showStatistics(metrics, call)));
  return [
    defineRoute("GET", "/_node/{node}/_stats", METRICS, statistics),
    defineRoute("GET", "/_node/{node}/_stats/{path...}", METRICS, statistics),
    defineRoute(
      "GET",
      "/_node/{node}/_system",
      METRICS,
      here(async () => json(200, metrics.system())),
    ),
    defineRoute(
      "GET",
      "/_node/{node}/_prometheus",
      METRICS,
      here(async () => showPrometheus(metrics)),
    ),
  ];
}

async function showPrometheus(metrics: NodeMetrics): Promise<ApiResponse> {
  const { type, text } = await metrics.prometheus();
  return { status: 200, headers: { "Content-Type": type }, body: text };
}

/** One statistic, or all statistics below a name; as in CouchDB, null for an unknown name. */
async function showStatistics(metrics: NodeMetrics, call: Call): Promise<unknown> {
  let shown: unknown = await metrics.statistics();
  for (const segment of parameter(call, "path").split("/")) {
    if (segment === "") continue;
    const isTree = typeof shown === "object" && shown !== null && Object.hasOwn(shown, segment);
    shown = isTree ? (shown as StatisticsTree)[segment] : null;
  }
  return shown;
}

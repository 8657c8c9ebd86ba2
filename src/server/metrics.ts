/**
 * Metrics. Counters follow from the stream of announced events (`metric-table.ts`); gauges are read from the store when somebody
 * asks. What a process counts is its own: that of replication processes is not in the API node's counters, gauges are the cluster's.
 */
import { Counter, collectDefaultMetrics, Gauge, Registry, Summary } from "prom-client";
import type { NodeMetrics, Statistic, StatisticsTree } from "../api/index.ts";
import type { Clock, Trace } from "../base/index.ts";
import type { Jobs } from "../jobs/index.ts";
import type { KeyValueStore } from "../kv/index.ts";
import { REPLICATION_JOB_TYPE } from "../replicator/index.ts";
import { COUNTERS, type CounterRow } from "./metric-table.ts";

const QUANTILES = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999];
/** Of ready groups that are looked at for the longest wait. */
const GROUP_COUNT_MAX = 1_000;

/** Counts events, and hands them on. */
export class EventCounts implements Trace {
  readonly registry = new Registry();
  readonly #next: Trace;
  readonly #rows = new Map<string, { readonly row: CounterRow; readonly counter: Counter }[]>();
  readonly #requestTime: Summary;

  constructor(next: Trace) {
    this.#next = next;
    for (const row of COUNTERS) {
      const counter = new Counter({
        name: row.name ?? `${prometheusName(row.path)}_total`,
        help: row.description,
        labelNames: row.label === undefined ? [] : [row.label],
        registers: [this.registry],
      });
      this.#rows.set(row.event, [...(this.#rows.get(row.event) ?? []), { row, counter }]);
    }
    this.#requestTime = new Summary({
      name: "couchdb_request_time_seconds",
      help: "length of a request, until its answer begins",
      percentiles: QUANTILES,
      maxAgeSeconds: 60,
      ageBuckets: 6,
      registers: [this.registry],
    });
    collectDefaultMetrics({ register: this.registry });
  }

  event(name: string, fields: Readonly<Record<string, unknown>> = {}): void {
    this.#next.event(name, fields);
    for (const { row, counter } of this.#rows.get(name) ?? []) {
      const amount = row.amount?.(fields) ?? 1;
      if (!(amount > 0)) continue;
      if (row.label === undefined || row.labelOf === undefined) counter.inc(amount);
      else counter.inc({ [row.label]: row.labelOf(fields) }, amount);
    }
    if (name === "api.answered") this.#requestTime.observe(Number(fields.durationMs) / 1000);
  }

  /** The counters' values by their names in `_stats`. */
  async statistics(): Promise<StatisticsTree> {
    const tree: MutableTree = {};
    for (const { row, counter } of [...this.#rows.values()].flat()) {
      const { values } = await counter.get();
      const leaf = (value: number): Statistic => ({
        value,
        type: "counter",
        desc: row.description,
      });
      if (row.label === undefined) place(tree, row.path, leaf(values[0]?.value ?? 0));
      for (const { labels, value } of values) {
        const label = row.label === undefined ? undefined : labels[row.label];
        if (label !== undefined) place(tree, [...row.path, String(label)], leaf(value));
      }
    }
    return tree;
  }
}

interface MetricsParts {
  readonly clock: Clock;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly counts: EventCounts;
}

interface GaugeRow {
  readonly path: readonly string[];
  readonly description: string;
  readonly value: number;
}

export class Metrics implements NodeMetrics {
  readonly #parts: MetricsParts;
  readonly #startedAtMs: number;

  constructor(parts: MetricsParts) {
    this.#parts = parts;
    this.#startedAtMs = parts.clock.monotonicMs();
  }

  async prometheus(): Promise<{ readonly type: string; readonly text: string }> {
    const { registry } = this.#parts.counts;
    const gauges = new Registry();
    for (const { path, description, value } of await this.#gauges()) {
      const name = prometheusName(path);
      new Gauge({ name, help: description, registers: [gauges] }).set(value);
    }
    const texts = await Promise.all([registry.metrics(), gauges.metrics()]);
    return { type: registry.contentType, text: texts.join("\n") };
  }

  async statistics(): Promise<StatisticsTree> {
    const tree = (await this.#parts.counts.statistics()) as MutableTree;
    for (const { path, description: desc, value } of await this.#gauges()) {
      place(tree, path, { value, type: "gauge", desc });
    }
    return tree;
  }

  /** CouchDB's members, as far as a process of Node.js has the like. */
  system(): Readonly<Record<string, unknown>> {
    const { rss, heapTotal, heapUsed, external } = process.memoryUsage();
    const { voluntaryContextSwitches, involuntaryContextSwitches } = process.resourceUsage();
    return {
      uptime: this.#uptimeSec(),
      memory: {
        other: Math.max(0, rss - heapTotal - external),
        processes: heapTotal,
        processes_used: heapUsed,
        binary: external,
      },
      context_switches: voluntaryContextSwitches + involuntaryContextSwitches,
    };
  }

  #uptimeSec(): number {
    return Math.floor((this.#parts.clock.monotonicMs() - this.#startedAtMs) / 1000);
  }

  /** What the whole cluster has: the same on every node. */
  async #gauges(): Promise<readonly GaugeRow[]> {
    const { kv, jobs, clock } = this.#parts;
    const { counts, dueSec } = await kv.read(async (tx) => ({
      counts: await jobs.counts.read(tx, REPLICATION_JOB_TYPE),
      dueSec: await jobs.groups.longestDueSec(tx, REPLICATION_JOB_TYPE, GROUP_COUNT_MAX),
    }));
    const waitSec = dueSec === undefined ? 0 : Math.max(0, clock.nowMs() / 1000 - dueSec);
    const { running, pending, finished } = counts;
    const replicator = (name: string, description: string, value: number): GaugeRow => ({
      path: ["couch_replicator", "jobs", name],
      description,
      value,
    });
    return [
      replicator("running", "jobs that run, on all nodes", running),
      replicator("pending", "jobs that wait for their time or for a slot", pending),
      replicator("total", "all jobs, finished ones included", running + pending + finished),
      {
        path: ["tandem", "jobs", "finished"],
        description: "jobs that have ended and are kept",
        value: finished,
      },
      {
        path: ["tandem", "groups", "longest_wait_seconds"],
        description: "how long the job that is due longest has waited for a slot",
        value: waitSec,
      },
      {
        path: ["couchdb", "uptime_seconds"],
        description: "seconds since the start of this process",
        value: this.#uptimeSec(),
      },
    ];
  }
}

interface MutableTree {
  [segment: string]: Statistic | MutableTree;
}

function place(tree: MutableTree, path: readonly string[], leaf: Statistic): void {
  const [segment = "", ...rest] = path;
  if (rest.length === 0) tree[segment] = leaf;
  else {
    tree[segment] ??= {};
    place(tree[segment] as MutableTree, rest, leaf);
  }
}

/** As CouchDB makes them: `couch_replicator.checkpoints.success` is `couchdb_couch_replicator_checkpoints`, and `_total`. */
function prometheusName(path: readonly string[]): string {
  const [first, ...rest] = path;
  const prefix =
    first === "couchdb" ? ["couchdb"] : first === "tandem" ? ["tandem"] : ["couchdb", first];
  const segments = rest.at(-1) === "success" ? rest.slice(0, -1) : rest;
  return [...prefix, ...segments].join("_");
}

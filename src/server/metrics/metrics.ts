/**
 * Metrics. Counters follow from the stream of announced events (`metric-table.ts`); gauges are read from the store on
 * request. The counters are those of this process and of the replication processes that it started; gauges are the
 * cluster's.
 */
import { Counter, collectDefaultMetrics, Gauge, Registry, Summary } from "prom-client";
import type { NodeMetrics, Statistic, StatisticsTree } from "../../api/index.ts";
import type { Clock, EventName, Events, Trace } from "../../base/index.ts";
import type { Jobs } from "../../jobs/index.ts";
import type { KeyValueStore } from "../../kv/index.ts";
import { REPLICATION_JOB_TYPE } from "../../replicator/index.ts";
import { COUNTERS, type CounterRow } from "./metric-table.ts";

const QUANTILES = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999];

/** What was counted since the last report: numbers of rows of the table, values of their labels ("" without), amounts. */
export type CountReport = readonly (readonly [row: number, label: string, amount: number])[];

/** Counts events, and hands them on. */
export class EventCounts implements Trace {
  readonly registry = new Registry();
  readonly #next: Trace;
  readonly #counters: readonly Counter[];
  /** By event: numbers of rows. */
  readonly #counting = new Map<EventName, number[]>();
  /** By row and label. */
  readonly #unreported = new Map<string, [row: number, label: string, amount: number]>();
  readonly #requestTime: Summary;

  constructor(next: Trace) {
    this.#next = next;
    this.#counters = COUNTERS.map(
      ({ path, name, description: help, label }) =>
        new Counter({
          name: name ?? `${prometheusName(path)}_total`,
          help,
          labelNames: label === undefined ? [] : [label],
          registers: [this.registry],
        }),
    );
    for (const [number, { event }] of COUNTERS.entries()) {
      this.#counting.set(event, [...(this.#counting.get(event) ?? []), number]);
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

  event<Name extends EventName>(name: Name, fields: Events[Name]): void {
    this.#next.event(name, fields);
    for (const number of this.#counting.get(name) ?? []) {
      const row = COUNTERS[number] as CounterRow;
      const amount = row.amount?.(fields) ?? 1;
      if (amount > 0) this.#count(number, row.labelOf?.(fields) ?? "", amount);
    }
    if (name !== "api.answered") return;
    const { durationMs } = fields as Events["api.answered"];
    this.#requestTime.observe(durationMs / 1000);
  }

  /** For the process that started this one. */
  takeReport(): CountReport {
    const report = [...this.#unreported.values()];
    this.#unreported.clear();
    return report;
  }

  /** Adds what a process counted that this one started. */
  absorb(report: CountReport): void {
    for (const [number, label, amount] of report) this.#count(number, label, amount);
  }

  #count(number: number, label: string, amount: number): void {
    const { label: name } = COUNTERS[number] as CounterRow;
    this.#counters[number]?.inc(name === undefined ? {} : { [name]: label }, amount);
    const key = `${number} ${label}`;
    const unreported = this.#unreported.get(key);
    if (unreported === undefined) this.#unreported.set(key, [number, label, amount]);
    else unreported[2] += amount;
  }

  /** The counters' values by their names in `_stats`. */
  async statistics(): Promise<StatisticsTree> {
    const tree: MutableTree = {};
    for (const [number, row] of COUNTERS.entries()) {
      const { values } = await (this.#counters[number] as Counter).get();
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
    const counts = await kv.read((tx) => jobs.counts.read(tx, REPLICATION_JOB_TYPE));
    const dueSec = await jobs.groups.longestDueSec(kv, REPLICATION_JOB_TYPE);
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

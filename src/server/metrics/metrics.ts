/**
 * Metrics. Counters are derived from the stream of traced events (`metric-table.ts`); gauges are
 * read from the store on request. Counters cover this process and its replication processes; gauges
 * cover the cluster.
 */
import { Counter, collectDefaultMetrics, Gauge, type Metric, Registry } from "prom-client";
import type { NodeMetrics, Statistic, StatisticsTree } from "../../api/index.ts";
import type { Clock, EventName, Events, Trace } from "../../base/index.ts";
import type { DatabaseRegistry } from "../../databases/index.ts";
import type { Jobs } from "../../jobs/index.ts";
import { type KeyValueStore, listRemovals } from "../../kv/index.ts";
import { REPLICATION_JOB_TYPE, type Replicator, UNPLACED_MAX } from "../../replicator/index.ts";
import type { TagSettings } from "../settings/tag-settings.ts";
import {
  COUNTED_METHODS,
  COUNTED_STATUSES,
  FIXED_STATISTICS,
  type FixedStatistic,
} from "./couchdb-statistics.ts";
import {
  type GaugeRow,
  jobGauges,
  loginGauge,
  plainGauge,
  registerGauge,
  spaceGauges,
  TAG_VALUES_MAX,
  tagGauges,
} from "./gauges.ts";
import { COUNTERS, type CounterRow } from "./metric-table.ts";
import { emptyDistribution, RequestTimes } from "./request-times.ts";
import { RunTally } from "./run-tally.ts";

const REQUEST_TIME = "couchdb_request_time_seconds";
/**
 * Interval between ticks, and thus the smallest value of `nodejs_eventloop_lag_…`. Not shorter,
 * because each tick wakes even an idle process.
 */
const EVENT_LOOP_TICK_MS = 100;
const REMOVALS_COUNTED_MAX = 1_000;
const CONFLICTING_DATABASES_MAX = 10_000;

/** Counts since the last report: row number in the table, label value ("" for none), amount. */
export type CountReport = readonly (readonly [row: number, label: string, amount: number])[];

/** Counts traced events and forwards them to the next trace. */
export class EventCounts implements Trace {
  readonly registry = new Registry();
  /** Statistics on the runs of this process only. */
  readonly runs: RunTally;
  readonly #counters: readonly Counter[];
  /** Row numbers by event. */
  readonly #counting = new Map<EventName, number[]>();
  /** Counts since the last report, by row and label. */
  readonly #unreported = new Map<string, [row: number, label: string, amount: number]>();
  readonly #requestTimes: RequestTimes;

  constructor(next: Trace, clock: Pick<Clock, "monotonicMs">) {
    this.runs = new RunTally(next);
    this.#requestTimes = new RequestTimes(clock);
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
    this.registry.registerMetric(summaryOf(this.#requestTimes));
    this.#showFixed();
    collectDefaultMetrics({
      register: this.registry,
      eventLoopMonitoringPrecision: EVENT_LOOP_TICK_MS,
    });
  }

  /**
   * Registers CouchDB's metrics that Tandem does not count, so that `_prometheus` shows them too.
   */
  #showFixed(): void {
    for (const row of FIXED_STATISTICS) {
      const { path, type, value, description: help, prometheus } = row;
      const name =
        prometheus?.name ?? `${prometheusName(path)}${type === "counter" ? "_total" : ""}`;
      const labels = prometheus === undefined ? [] : [prometheus.label];
      const options = { name, help, labelNames: labels, registers: [this.registry] };
      const known = this.registry.getSingleMetric(name) as Counter | undefined;
      const metric = known ?? (type === "counter" ? new Counter(options) : new Gauge(options));
      metric.inc(prometheus === undefined ? {} : { [prometheus.label]: path.at(-1) ?? "" }, value);
    }
  }

  event<Name extends EventName>(name: Name, fields: Events[Name]): void {
    this.runs.event(name, fields);
    for (const number of this.#counting.get(name) ?? []) {
      const row = COUNTERS[number] as CounterRow;
      const amount = row.amount?.(fields) ?? 1;
      if (amount > 0) this.#count(number, row.labelOf?.(fields) ?? "", amount);
    }
    if (name !== "api.answered") return;
    const { durationMs } = fields as Events["api.answered"];
    this.#requestTimes.record(durationMs);
  }

  /** Returns the counts since the last report, for the parent process. */
  takeReport(): CountReport {
    const report = [...this.#unreported.values()];
    this.#unreported.clear();
    return report;
  }

  /** Adds the counts of a child process. */
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

  /**
   * Returns the values of the counters by their names in `_stats`, and CouchDB's other statistics.
   */
  async statistics(): Promise<StatisticsTree> {
    const tree = emptyTree();
    for (const { path, type, value, description: desc } of NEVER_MISSING) {
      place(tree, path, { value, type, desc });
    }
    place(tree, ["couchdb", "request_time"], {
      value: this.#requestTimes.distribution(),
      type: "histogram",
      desc: "length of a request inside CouchDB without MochiWeb",
    });
    place(tree, ["mango", "query_time"], {
      value: emptyDistribution(),
      type: "histogram",
      desc: "length of time processing a mango query",
    });
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

/**
 * Returns the request times as a summary. The summary of `prom-client` is not used, because its
 * digests of quantiles took 5 % of the CPU time of a process that serves small requests.
 */
function summaryOf(times: RequestTimes): Metric {
  const summary = {
    name: REQUEST_TIME,
    help: "time until the response to a request begins",
    type: "summary",
    get: async () => ({ ...summary, values: times.samples(REQUEST_TIME) }),
    reset: () => {},
  };
  return summary as unknown as Metric;
}

interface MetricsParts {
  readonly clock: Clock;
  readonly kv: KeyValueStore;
  readonly databases: Pick<DatabaseRegistry, "conflictCounts">;
  readonly jobs: Jobs;
  readonly replicator: Pick<Replicator, "figures" | "logins" | "nodeLabels" | "rules">;
  readonly counts: EventCounts;
  readonly tags: TagSettings;
}

/**
 * Statistics that are shown with the value 0 before their first event. These include requests by
 * method and by status.
 */
const NEVER_MISSING: readonly FixedStatistic[] = [
  ...FIXED_STATISTICS,
  ...COUNTED_METHODS.map((method) => unseen("httpd_request_methods", method, "requests")),
  ...COUNTED_STATUSES.map((status) => unseen("httpd_status_codes", status, "responses")),
];

function unseen(name: string, value: string, what: string): FixedStatistic {
  const description = `number of HTTP ${value} ${what}`;
  return { path: ["couchdb", name, value], type: "counter", description, value: 0 };
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
    for (const row of await this.#gauges()) registerGauge(gauges, prometheusName(row.path), row);
    const texts = await Promise.all([registry.metrics(), gauges.metrics()]);
    return { type: registry.contentType, text: texts.join("\n") };
  }

  async statistics(): Promise<StatisticsTree> {
    const tree = (await this.#parts.counts.statistics()) as MutableTree;
    for (const { path, description: desc, samples } of await this.#gauges()) {
      for (const { labels, value } of samples) {
        place(tree, [...path, ...labels], { value, type: "gauge", desc });
      }
    }
    return tree;
  }

  /** Returns the members of CouchDB's `_system` that have an equivalent in a Node.js process. */
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
        atom: 0,
        atom_used: 0,
        code: 0,
        ets: 0,
      },
      context_switches: voluntaryContextSwitches + involuntaryContextSwitches,
    };
  }

  #uptimeSec(): number {
    return Math.floor((this.#parts.clock.monotonicMs() - this.#startedAtMs) / 1000);
  }

  /** Returns the gauges. Those of jobs and workers are cluster-wide and equal on every node. */
  async #gauges(): Promise<readonly GaugeRow[]> {
    const { kv, databases, jobs, replicator, clock, tags } = this.#parts;
    const figures = await replicator.figures.read();
    const tagged = await Promise.all(
      tags.metricTags.map(async (name) => {
        return { name, found: await replicator.figures.tagStates(name, TAG_VALUES_MAX) };
      }),
    );
    const logins = await replicator.logins.accounts();
    const workers = await kv.read((tx) => jobs.workers.members(tx.snapshot, REPLICATION_JOB_TYPE));
    const labels = workers.map((worker) => worker.labels);
    const dueSec = await jobs.groups.longestDueSec(kv, REPLICATION_JOB_TYPE, [[], ...labels]);
    const nowSec = clock.nowMs() / 1000;
    const unplacedCount = await kv.read((tx) => replicator.nodeLabels.unplacedCount(tx, nowSec));
    const waitSec = dueSec === undefined ? 0 : Math.max(0, nowSec - dueSec);
    const counts = await kv.read((tx) => jobs.counts.read(tx, REPLICATION_JOB_TYPE));
    const conflicting = await kv.read((tx) =>
      databases.conflictCounts(tx, { limit: CONFLICTING_DATABASES_MAX }),
    );
    const removals = await kv.read((tx) => listRemovals(tx.snapshot, REMOVALS_COUNTED_MAX));
    return [
      ...jobGauges(figures),
      ...tagGauges(tagged),
      {
        path: ["tandem", "queue", "jobs"],
        description: "jobs by their state in the queue",
        labels: ["place"],
        samples: Object.entries(counts).map(([place, value]) => ({ labels: [place], value })),
      },
      plainGauge(
        ["tandem", "jobs", "unplaced"],
        `due jobs with run_on labels that no running node has, at most ${UNPLACED_MAX}`,
        unplacedCount,
      ),
      loginGauge(logins),
      plainGauge(
        ["tandem", "rules", "failing"],
        "rules whose source cannot be listed",
        (await replicator.rules.failures()).size,
      ),
      plainGauge(
        ["tandem", "groups", "longest_wait_seconds"],
        "longest time that a due job has been waiting for a slot",
        waitSec,
      ),
      plainGauge(
        ["tandem", "store", "removals"],
        `removals in progress or waiting, counted up to ${REMOVALS_COUNTED_MAX}`,
        removals.length,
      ),
      plainGauge(
        ["tandem", "databases", "conflicts"],
        `documents with conflicts, in the first ${CONFLICTING_DATABASES_MAX} databases that have ever had conflicts`,
        conflicting.entries.reduce((sum, { count }) => sum + count, 0),
      ),
      plainGauge(["tandem", "nodes", "alive"], "nodes that run jobs", workers.length),
      plainGauge(
        ["tandem", "store", "disk_full"],
        "1 while the disk of this node's store refuses writes",
        Number(kv.isFull()),
      ),
      ...spaceGauges(kv.space()),
      plainGauge(
        ["tandem", "store", "available"],
        "1 if this node's store responds, otherwise 0",
        Number(kv.isAvailable()),
      ),
      plainGauge(
        ["couchdb", "uptime_seconds"],
        "seconds since the start of this process",
        this.#uptimeSec(),
      ),
    ];
  }
}

interface MutableTree {
  [segment: string]: Statistic | MutableTree;
}

/**
 * Creates an object without a prototype, because path segments such as host names are external
 * input.
 */
function emptyTree(): MutableTree {
  return Object.create(null) as MutableTree;
}

function place(tree: MutableTree, path: readonly string[], leaf: Statistic): void {
  const [segment = "", ...rest] = path;
  if (rest.length === 0) tree[segment] = leaf;
  else {
    tree[segment] ??= emptyTree();
    place(tree[segment] as MutableTree, rest, leaf);
  }
}

/**
 * Returns the Prometheus name of a metric, without the suffix `_total`. As in CouchDB,
 * `couch_replicator.checkpoints.success` becomes `couchdb_couch_replicator_checkpoints`.
 */
function prometheusName(path: readonly string[]): string {
  const [first, ...rest] = path;
  const prefix =
    first === "couchdb" ? ["couchdb"] : first === "tandem" ? ["tandem"] : ["couchdb", first];
  const segments = rest.at(-1) === "success" ? rest.slice(0, -1) : rest;
  return [...prefix, ...segments].join("_");
}

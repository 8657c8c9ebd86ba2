/** Gauges of the cluster and of this node, as named rows, read for each scrape. */
import { Gauge, type Registry } from "prom-client";
import { sum, utf8Decode, utf8Encode } from "../../base/index.ts";
import { JOB_STATES } from "../../contract/index.ts";
import type { StoreSpace } from "../../kv/index.ts";
import type {
  FailingCount,
  GatedAccount,
  JobFigures,
  Lag,
  TagStates,
} from "../../replicator/index.ts";

/**
 * A gauge. Each of its samples has a value for each label in `labels`. A gauge without labels has
 * one sample.
 */
export interface GaugeRow {
  readonly path: readonly string[];
  readonly description: string;
  readonly labels: readonly string[];
  readonly samples: readonly GaugeSample[];
}

export interface GaugeSample {
  /** Values of the gauge's labels, in order. They are unique among the samples of a gauge. */
  readonly labels: readonly string[];
  readonly value: number;
}

/** Maximum number of pairs of failure class and host that have their own samples. */
const FAILING_PAIRS_MAX = 50;
/** Maximum number of values of a tag that have their own samples. */
export const TAG_VALUES_MAX = 100;
/**
 * Label value that stands for all hosts without their own samples, or for all values of a tag
 * without their own samples.
 */
const OTHER = "other";
/** Label value for a local database, and for failures without a server. */
const NO_HOST = "none";
/** Maximum length of a displayed name. */
const NAME_LENGTH_MAX = 200;

export function plainGauge(path: readonly string[], description: string, value: number): GaugeRow {
  return { path, description, labels: [], samples: [{ labels: [], value }] };
}

/** Returns gauges for the sizes of the store's file, or none if the engine does not report them. */
export function spaceGauges(space: StoreSpace | undefined): readonly GaugeRow[] {
  if (space === undefined) return [];
  const { fileBytes, freeBytes } = space;
  return [
    plainGauge(["tandem", "store", "file_bytes"], "size of the store's file", fileBytes),
    plainGauge(
      ["tandem", "store", "free_bytes"],
      "free space in the store's file, which later writes reuse",
      freeBytes,
    ),
  ];
}

/** Returns cluster-wide gauges of jobs. */
export function jobGauges(figures: JobFigures): readonly GaugeRow[] {
  const { states, failing, groupLags, jobLags } = figures;
  const jobs = (name: string, description: string, value: number): GaugeRow =>
    plainGauge(["tandem", "jobs", name], description, value);
  const replicator = (name: string, description: string, value: number): GaugeRow =>
    plainGauge(["couch_replicator", "jobs", name], description, value);
  const stateCounts = Object.entries(states);
  return [
    replicator("running", "running jobs on all nodes", states.running),
    replicator("pending", "jobs that wait until they are due, or for a slot", states.pending),
    replicator("crashed", "jobs that wait for the next retry after a failure", states.crashing),
    replicator("total", "all jobs, including finished ones", sum(Object.values(states))),
    jobs("finished", "ended jobs that are still stored", states.completed + states.failed),
    {
      path: ["tandem", "jobs", "state"],
      description: "jobs by the state that _scheduler shows",
      labels: ["state"],
      samples: stateCounts.map(([state, value]) => ({ labels: [state], value })),
    },
    jobs(
      "failing",
      "failing jobs, including those being retried",
      sum(failing.map(({ jobCount }) => jobCount)),
    ),
    {
      path: ["tandem", "jobs", "failing_by_cause"],
      description: "failing jobs by class of the last failure and host of the server",
      labels: ["class", "host"],
      samples: failingSamples(failing),
    },
    jobs("paused", "paused jobs", figures.pausedCount),
    jobs("stalled", "jobs whose last runs made no progress", figures.stalledCount),
    jobs("left_behind", "jobs with failed documents", figures.leftBehindCount),
    jobs(
      "parked",
      "jobs that have caught up, and wait for changes without occupying a slot",
      figures.parkedCount,
    ),
    jobs("behind", "jobs with pending changes", figures.behindCount),
    jobs(
      "unknown",
      "jobs whose lag is unknown, for example because their source has not answered yet",
      figures.unknownCount,
    ),
    jobs(
      "oldest_lag_seconds",
      "longest lag of any job: the time since the job's oldest pending change became known",
      jobLags[0]?.lagSec ?? 0,
    ),
    lagGauge("groups", "group", "groups with the longest lag", groupLags),
    lagGauge("worst_jobs", "job", "the twenty jobs with the longest lag", jobLags),
  ];
}

/** A configured tag, and the states of its jobs, as returned by `tagStates`. */
export interface TaggedJobs {
  readonly name: string;
  readonly found: readonly TagStates[];
}

/**
 * Returns the number of jobs by state, for each value of each configured tag. Returns nothing if no
 * tags are configured.
 */
export function tagGauges(tagged: readonly TaggedJobs[]): readonly GaugeRow[] {
  if (tagged.length === 0) return [];
  return [
    {
      path: ["tandem", "jobs", "tagged"],
      description: `jobs by tag and state, for the tags in [tandem] metric_tags; of each tag, values after the first ${TAG_VALUES_MAX} are counted as ${OTHER}`,
      labels: ["tag", "value", "state"],
      samples: joined(tagged.flatMap(tagSamples), (left, right) => left + right),
    },
  ];
}

function tagSamples({ name, found }: TaggedJobs): readonly GaugeSample[] {
  return JOB_STATES.flatMap((state) => {
    const shown = found.flatMap(({ value, states }) =>
      value === undefined
        ? []
        : [{ labels: [name, shownName(value), state], value: states[state] }],
    );
    const all = found.find(({ value }) => value === undefined)?.states[state] ?? 0;
    const rest = all - sum(shown.map(({ value }) => value));
    return rest > 0 ? [...shown, { labels: [name, OTHER, state], value: rest }] : shown;
  });
}

/**
 * Returns the number of accounts whose logins have to wait, by reason. The names of the accounts
 * are not labels, because there could be too many.
 */
export function loginGauge(logins: readonly GatedAccount[]): GaugeRow {
  return {
    path: ["tandem", "logins", "gated"],
    description:
      "accounts at other servers whose logins are delayed, because a password was rejected (status refused) or the account is locked (status locked); at most 1,000",
    labels: ["status"],
    samples: (["refused", "locked"] as const).map((status) => ({
      labels: [status],
      value: logins.filter((login) => login.status === status).length,
    })),
  };
}

function lagGauge(
  name: string,
  label: string,
  description: string,
  lags: readonly Lag[],
): GaugeRow {
  const samples = lags.map(
    ({ name: named, lagSec }): GaugeSample => ({ labels: [shownName(named)], value: lagSec }),
  );
  // If truncation makes two names equal, keep the one with the longer lag.
  return {
    path: ["tandem", name, "lag_seconds"],
    description: `lag, the time since the oldest pending change became known: ${description}`,
    labels: [label],
    samples: joined(samples, Math.max),
  };
}

function failingSamples(failing: readonly FailingCount[]): readonly GaugeSample[] {
  const samples = failing.map(({ class: failureClass, host, jobCount }, index): GaugeSample => {
    const shown = host === null ? NO_HOST : shownName(host);
    return {
      labels: [failureClass, index < FAILING_PAIRS_MAX ? shown : OTHER],
      value: jobCount,
    };
  });
  return joined(samples, (left, right) => left + right);
}

/** Merges samples with the same labels. */
function joined(
  samples: readonly GaugeSample[],
  join: (left: number, right: number) => number,
): GaugeSample[] {
  const found = new Map<string, GaugeSample>();
  for (const { labels, value } of samples) {
    const name = JSON.stringify(labels);
    const before = found.get(name);
    found.set(name, { labels, value: before === undefined ? value : join(before.value, value) });
  }
  return [...found.values()];
}

/** Truncates very long names; a split character becomes U+FFFD. */
function shownName(name: string): string {
  return utf8Decode(utf8Encode(name.slice(0, NAME_LENGTH_MAX)));
}

/** Registers a gauge. Label values are passed unescaped, because `prom-client` escapes them. */
export function registerGauge(registry: Registry, name: string, row: GaugeRow): void {
  const { description: help, labels: labelNames, samples } = row;
  const gauge = new Gauge({ name, help, labelNames, registers: [registry] });
  for (const { labels, value } of samples) {
    gauge.set(
      Object.fromEntries(labelNames.map((label, index) => [label, labels[index] ?? ""])),
      value,
    );
  }
}

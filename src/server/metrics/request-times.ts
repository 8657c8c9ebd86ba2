/**
 * Durations of requests in the current and the previous minute, in the form of CouchDB's histograms
 * and as a Prometheus metric.
 */
import { createHistogram, type RecordableHistogram } from "node:perf_hooks";
import type { Distribution } from "../../api/index.ts";
import type { Clock } from "../../base/index.ts";

const WINDOW_MS = 60_000;
/**
 * Recorded units per millisecond. Histograms contain positive integers, so times are recorded in
 * microseconds.
 */
const UNITS_PER_MS = 1000;
/** Percentiles, each with the name that CouchDB uses in `_stats`. The name of 99.9 is 999. */
const PERCENTILES = [
  [50, 50],
  [75, 75],
  [90, 90],
  [95, 95],
  [99, 99],
  [999, 99.9],
] as const;

/** Quantiles of the metric, as ratios. */
const QUANTILES = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999];

/** A sample of a metric, in the form of `prom-client`. */
interface Sample {
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, number>>;
  readonly value: number;
}

export class RequestTimes {
  readonly #clock: Pick<Clock, "monotonicMs">;
  #former = createHistogram();
  #present = createHistogram();
  #beganMs: number;
  /** Number of requests since startup. */
  #count = 0;
  #totalMs = 0;

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
    this.#beganMs = clock.monotonicMs();
  }

  record(durationMs: number): void {
    this.#turn();
    this.#count++;
    this.#totalMs += durationMs;
    this.#present.record(Math.max(1, Math.round(durationMs * UNITS_PER_MS)));
  }

  /** Returns the distribution of durations in milliseconds. */
  distribution(): Distribution {
    return distributionOf(this.#both());
  }

  /**
   * Returns the samples of the metric, in seconds. The quantiles cover the last one to two minutes;
   * the sum and the count cover all requests since startup.
   */
  samples(name: string): Sample[] {
    const both = this.#both();
    const quantiles = QUANTILES.map((quantile) => ({
      labels: { quantile },
      value: both.count === 0 ? 0 : both.percentile(quantile * 100) / UNITS_PER_MS / 1000,
    }));
    return [
      ...quantiles,
      { metricName: `${name}_sum`, labels: {}, value: this.#totalMs / 1000 },
      { metricName: `${name}_count`, labels: {}, value: this.#count },
    ];
  }

  #both(): RecordableHistogram {
    this.#turn();
    const both = createHistogram();
    both.add(this.#former);
    both.add(this.#present);
    return both;
  }

  #turn(): void {
    const ageMs = this.#clock.monotonicMs() - this.#beganMs;
    if (ageMs < WINDOW_MS) return;
    this.#former = ageMs < 2 * WINDOW_MS ? this.#present : createHistogram();
    this.#present = createHistogram();
    this.#beganMs = this.#clock.monotonicMs();
  }
}

/** Returns the figures of an empty histogram: all members are 0. */
export function emptyDistribution(): Distribution {
  return distributionOf(createHistogram());
}

/**
 * Converts a histogram. Members that are not measured are 0. Without requests, all members are 0.
 */
function distributionOf(histogram: RecordableHistogram): Distribution {
  const { count } = histogram;
  const ms = (units: number): number => (count === 0 ? 0 : units / UNITS_PER_MS);
  return {
    min: ms(histogram.min),
    max: ms(histogram.max),
    arithmetic_mean: ms(histogram.mean),
    geometric_mean: 0,
    harmonic_mean: 0,
    median: ms(histogram.percentile(50)),
    variance: ms(histogram.stddev) ** 2,
    standard_deviation: ms(histogram.stddev),
    skewness: 0,
    kurtosis: 0,
    percentile: PERCENTILES.map(([name, part]) => [name, ms(histogram.percentile(part))]),
    histogram: [[0, 0]],
    n: count,
  };
}

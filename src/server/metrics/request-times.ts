/** How long requests took, in the present minute and the one before, as CouchDB's histograms show it. */
import { createHistogram, type RecordableHistogram } from "node:perf_hooks";
import type { Distribution } from "../../api/index.ts";
import type { Clock } from "../../base/index.ts";

const WINDOW_MS = 60_000;
/** Histograms count integers from 1. */
const UNITS_PER_MS = 1000;
/** CouchDB writes 99.9 so. */
const PERCENTILES = [
  [50, 50],
  [75, 75],
  [90, 90],
  [95, 95],
  [99, 99],
  [999, 99.9],
] as const;

export class RequestTimes {
  readonly #clock: Pick<Clock, "monotonicMs">;
  #former = createHistogram();
  #present = createHistogram();
  #beganMs: number;

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
    this.#beganMs = clock.monotonicMs();
  }

  record(durationMs: number): void {
    this.#turn();
    this.#present.record(Math.max(1, Math.round(durationMs * UNITS_PER_MS)));
  }

  /** In milliseconds. */
  distribution(): Distribution {
    this.#turn();
    const both = createHistogram();
    both.add(this.#former);
    both.add(this.#present);
    return distributionOf(both);
  }

  #turn(): void {
    const ageMs = this.#clock.monotonicMs() - this.#beganMs;
    if (ageMs < WINDOW_MS) return;
    this.#former = ageMs < 2 * WINDOW_MS ? this.#present : createHistogram();
    this.#present = createHistogram();
    this.#beganMs = this.#clock.monotonicMs();
  }
}

/** Of nothing: all members are 0. */
export function emptyDistribution(): Distribution {
  return distributionOf(createHistogram());
}

/** What is not measured is 0, as all is where there was no request. */
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

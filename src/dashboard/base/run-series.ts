/** Speed and lag of a job's runs as series over time. */
import type { JobRun } from "../../contract/index.ts";

export interface RunSeries {
  /** Times in seconds, ascending. */
  readonly times: readonly number[];
  readonly docsPerSec: readonly (number | null)[];
  readonly bytesPerSec: readonly (number | null)[];
}

/**
 * Returns the series of runs. Each run is a constant level from start to end, with gaps between
 * runs. `runs` is sorted newest first.
 */
export function seriesOf(runs: readonly JobRun[]): RunSeries {
  const times: number[] = [];
  const docsPerSec: (number | null)[] = [];
  const bytesPerSec: (number | null)[] = [];
  const add = (timeSec: number, docs: number | null, bytes: number | null) => {
    times.push(timeSec);
    docsPerSec.push(docs);
    bytesPerSec.push(bytes);
  };
  for (const { start, end, docs_written: docs, bytes } of runs.toReversed()) {
    const startSec = Date.parse(start) / 1000;
    // Times are in whole seconds, so a short run can have a duration of zero.
    const lengthSec = Math.max(1, Date.parse(end) / 1000 - startSec);
    const rate = (amount: number | null) => (amount === null ? null : amount / lengthSec);
    const lastSec = times.at(-1) ?? Number.NEGATIVE_INFINITY;
    const fromSec = Math.max(startSec, lastSec + 0.001);
    if (times.length > 0) add(fromSec, null, null);
    add(fromSec + 0.001, rate(docs), rate(bytes));
    add(Math.max(fromSec + 0.002, startSec + lengthSec), rate(docs), rate(bytes));
  }
  return { times, docsPerSec, bytesPerSec };
}

/** The lag of a job at a point in time. */
export interface LagSample {
  readonly timeSec: number;
  /** Lag in seconds; null if unknown. */
  readonly lagSec: number | null;
}

/**
 * Returns the lag at the end of each run, and then the lags in `seen` that were sampled after the
 * last run. `runs` is sorted newest first, `seen` oldest first.
 */
export function lagsOf(
  runs: readonly Pick<JobRun, "end" | "lag_sec">[],
  seen: readonly LagSample[],
): readonly LagSample[] {
  const ended = runs
    .toReversed()
    .map(({ end, lag_sec: lagSec }) => ({ timeSec: Date.parse(end) / 1000, lagSec }));
  const lags: LagSample[] = [];
  for (const sample of [...ended, ...seen]) {
    const lastSec = lags.at(-1)?.timeSec ?? Number.NEGATIVE_INFINITY;
    // Samples have timestamps of the browser, whose clock can be behind that of the server.
    if (sample.timeSec > lastSec) lags.push(sample);
  }
  return lags;
}

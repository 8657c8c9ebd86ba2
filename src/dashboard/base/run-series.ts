/** How fast the runs of a job were, as a line over time. Pure. */
import type { JobRun } from "../api/types.ts";

export interface RunSeries {
  /** In seconds, ascending. */
  readonly times: readonly number[];
  readonly docsPerSec: readonly (number | null)[];
  readonly bytesPerSec: readonly (number | null)[];
}

/** Each run is a level from its start to its end, and between runs there is none. `runs`: the newest first. */
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
    // Times are whole seconds.
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

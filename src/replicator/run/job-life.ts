/**
 * Keeps a running job up to date: sends heartbeats, and stores progress, rates, lag, and the reason
 * why requests wait.
 */
import { smallest } from "../../base/index.ts";
import type { Activity } from "../../http-client/index.ts";
import type { Endpoint } from "../endpoints/endpoint.ts";
import type { JobRun } from "../job-log/job-run.ts";
import { type CopyRates, NO_RATES, type ObservedDirection } from "../jobs/job-data.ts";
import { addStatistics, NO_STATISTICS } from "../jobs/replication-statistics.ts";
import type { HeldReplication } from "./held-replication.ts";
import type { LagMeter } from "./lag-meter.ts";
import { RateMeter } from "./rate-meter.ts";
import type { ReplicationRun } from "./replication-run.ts";

/**
 * Interval between requests for the number of pending changes, which are expensive for the source.
 * CouchDB 3.5 also uses 30 s.
 */
const PENDING_INTERVAL_MS = 30_000;
/** Delay before the first request for the number of pending changes. */
const PENDING_PAUSE_MS_FIRST = 1000;

/** A run of one direction, with meters for its lag, rates and transfers. */
export class MeasuredRun {
  readonly run: ReplicationRun;
  readonly lag: LagMeter;
  readonly activity: Activity;
  /** Pending changes as last reported by the source; undefined if unknown. */
  changesPending: number | undefined;
  /** Number of written documents and transferred bytes that events have reported so far. */
  #notified = { documents: 0, bytes: 0 };
  readonly #rates = new RateMeter();

  constructor(run: ReplicationRun, lag: LagMeter, activity: Activity) {
    this.run = run;
    this.lag = lag;
    this.activity = activity;
  }

  get rates(): CopyRates {
    return this.#rates.rates;
  }

  /** Whether the run has written a checkpoint, or is known to have no pending changes. */
  get isDone(): boolean {
    return this.run.hasCheckpoint || (this.lag.isKnown && this.lag.sinceMs === undefined);
  }

  /** Samples the rates, and reports the documents and bytes copied since the last sample. */
  sample(job: HeldReplication): void {
    const { progress, ownStatistics, hasBegun } = this.run;
    if (!hasBegun) return;
    const { byteCount: bytes } = this.activity;
    const timeMs = job.parts.runtime.clock.monotonicMs();
    this.#rates.sample({ timeMs, docs: progress.statistics.docsWritten, bytes });
    this.#report(job, ownStatistics.docsWritten, bytes);
  }

  /** Returns the progress to store; undefined until the run has begun. */
  get observed(): ObservedDirection | undefined {
    if (!this.run.hasBegun) return undefined;
    const { highestSequence: sourceSequence, ...figures } = this.run.progress;
    return { ...figures, sourceSequence };
  }

  #report({ held, parts }: HeldReplication, documents: number, bytes: number): void {
    const documentCount = Math.max(0, documents - this.#notified.documents);
    const byteCount = Math.max(0, bytes - this.#notified.bytes);
    if (documentCount === 0 && byteCount === 0) return;
    this.#notified = { documents, bytes };
    parts.runtime.trace.event("replication.copied", { jobId: held.id, documentCount, byteCount });
  }
}

/**
 * Updates the job data from the runs of the job's directions, forward first. A run is included once
 * it has begun.
 */
export function observeRuns(job: HeldReplication, runs: readonly MeasuredRun[]): void {
  for (const measured of runs) measured.sample(job);
  const begun = runs.filter(({ run }) => run.hasBegun);
  if (begun.length > 0) job.noteCounts(countsOf(begun));
  const hasBegun = begun.length === runs.length;
  const lags = runs.map(({ lag }) => lag);
  if (hasBegun && lags.every(({ isKnown }) => isKnown)) job.noteBehind(earliest(lags));
  const [forward, reverse] = runs.map(({ observed }) => observed);
  const { statistics, checkpointedSequence, throughSequence, sourceSequence } = job.data;
  const stored = { statistics, checkpointedSequence, throughSequence, sourceSequence };
  job.observe({
    ...(forward ?? stored),
    reverse,
    hasBegun,
    hasCheckpoint: runs.some(({ run }) => run.hasCheckpoint) && runs.every(({ isDone }) => isDone),
    rates: ratesOf(runs),
    waitsFor: runs.map(({ activity }) => activity.waits.take()).find((wait) => wait !== undefined),
  });
}

function countsOf(runs: readonly MeasuredRun[]): NonNullable<JobRun["counts"]> {
  let statistics = NO_STATISTICS;
  let bytes = 0;
  for (const { run, activity } of runs) {
    statistics = addStatistics(statistics, run.ownStatistics);
    bytes += activity.byteCount;
  }
  return { ...statistics, bytes };
}

function ratesOf(runs: readonly MeasuredRun[]): CopyRates {
  const [forward, reverse] = runs.map(({ rates }) => rates);
  if (forward === undefined || reverse === undefined) return forward ?? NO_RATES;
  return {
    docsPerSec: forward.docsPerSec + reverse.docsPerSec,
    bytesPerSec: forward.bytesPerSec + reverse.bytesPerSec,
  };
}

/**
 * Returns the time since which changes have been pending in any direction; undefined if none are
 * pending.
 */
function earliest(lags: readonly LagMeter[]): number | undefined {
  const times = lags.map(({ sinceMs }) => sinceMs).filter((timeMs) => timeMs !== undefined);
  return times.length === 0 ? undefined : smallest(times);
}

/**
 * Updates the job during the run: at the heartbeat interval, and every `intervalMs` if its figures
 * have changed. Returns immediately when `ended` aborts, and throws when the job is lost or must
 * stop.
 */
export async function showLife(
  job: HeldReplication,
  runs: readonly MeasuredRun[],
  intervalMs: () => number,
  ended: AbortSignal,
): Promise<void> {
  const { runtime } = job.parts;
  await job.storeStart();
  while (!ended.aborted) {
    const watch = await job.watch();
    const over = new AbortController();
    const end = (): void => over.abort(new Error("Wait cancelled: its result is no longer needed"));
    ended.addEventListener("abort", end, { once: true });
    if (ended.aborted) end();
    // `fired` is called only once for all pauses, because each call leaves a registration on the
    // watch.
    const called = watch.fired(over.signal).then(end, end);
    try {
      while (!over.signal.aborted) {
        const pauseMs = Math.min(intervalMs(), job.silentMsMax);
        await runtime.clock.sleep(pauseMs, over.signal).catch(() => {});
        if (over.signal.aborted) break;
        if (runs.length > 0) observeRuns(job, runs);
        if (job.hasNews || job.silentMs >= job.silentMsMax) await job.update();
      }
    } finally {
      ended.removeEventListener("abort", end);
      end();
      await called;
      watch.cancel();
    }
  }
}

/**
 * Periodically asks the source of the run `measured` for the number of pending changes. Failures
 * and slow responses are ignored.
 */
export async function askPending(
  job: HeldReplication,
  runs: readonly MeasuredRun[],
  measured: MeasuredRun,
  source: Endpoint,
  ended: AbortSignal,
): Promise<void> {
  const { clock } = job.parts.runtime;
  const { run, lag } = measured;
  let pauseMs = PENDING_PAUSE_MS_FIRST;
  while (!ended.aborted) {
    await clock.sleep(pauseMs, ended).catch(() => {});
    if (ended.aborted || !run.hasBegun) continue;
    const { throughSequence } = run.progress;
    const { arrivedCount } = lag;
    // After a failed request, the lag stays as it was: it is not known that nothing is pending.
    const answer = await source.pendingChangeCount(throughSequence, ended).then(
      (count) => ({ count }),
      () => undefined,
    );
    if (ended.aborted) return;
    if (answer !== undefined) lag.announced(arrivedCount, answer.count, clock.nowMs());
    measured.changesPending = answer?.count;
    job.noteChangesPending(sum(runs.map((one) => one.changesPending)));
    pauseMs = PENDING_INTERVAL_MS;
  }
}

/** Returns the sum, or undefined if a number is unknown. */
function sum(numbers: readonly (number | undefined)[]): number | undefined {
  let total = 0;
  for (const number of numbers) {
    if (number === undefined) return undefined;
    total += number;
  }
  return total;
}

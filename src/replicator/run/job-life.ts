/** Reports of a running job: heartbeats, progress, rates, what it waits for, and its lag. */
import type { Activity } from "../../http-client/index.ts";
import type { Endpoint } from "../endpoints/endpoint.ts";
import type { HeldReplication } from "./held-replication.ts";
import type { LagMeter } from "./lag-meter.ts";
import { RateMeter } from "./rate-meter.ts";
import type { ReplicationProgress, ReplicationRun } from "./replication-run.ts";

/**
 * Interval between requests for the number of pending changes, which are expensive (CouchDB 3.5: 30
 * s).
 */
const PENDING_INTERVAL_MS = 30_000;
/** Delay before the first request. */
const PENDING_PAUSE_MS_FIRST = 1000;

/** A run with the meters for its lag, rates and transfers. */
export class MeasuredRun {
  readonly run: ReplicationRun;
  readonly lag: LagMeter;
  readonly #activity: Activity;
  /** Written documents and transferred bytes reported in events so far. */
  #notified = { documents: 0, bytes: 0 };
  readonly #rates = new RateMeter();

  constructor(run: ReplicationRun, lag: LagMeter, activity: Activity) {
    this.run = run;
    this.lag = lag;
    this.#activity = activity;
  }

  /** Updates the job from the run; the progress of the run is included once it has begun. */
  observe(job: HeldReplication): void {
    const { run, lag } = this;
    const { progress, ownStatistics, hasBegun, hasCheckpoint } = run;
    const { clock } = job.parts.runtime;
    const { byteCount: bytes, waits } = this.#activity;
    const waitsFor = waits.take();
    if (hasBegun) {
      this.#rates.sample({
        timeMs: clock.monotonicMs(),
        docs: progress.statistics.docsWritten,
        bytes,
      });
      job.noteCounts({ ...ownStatistics, bytes });
      this.#report(job, ownStatistics.docsWritten, bytes);
      if (lag.isKnown) job.noteBehind(lag.sinceMs);
    }
    const { highestSequence: sourceSequence, ...figures } = hasBegun ? progress : placeOf(job);
    const { rates } = this.#rates;
    job.observe({ ...figures, sourceSequence, hasBegun, hasCheckpoint, rates, waitsFor });
  }

  #report({ held, parts }: HeldReplication, documents: number, bytes: number): void {
    const documentCount = Math.max(0, documents - this.#notified.documents);
    const byteCount = Math.max(0, bytes - this.#notified.bytes);
    if (documentCount === 0 && byteCount === 0) return;
    this.#notified = { documents, bytes };
    parts.runtime.trace.event("replication.copied", { jobId: held.id, documentCount, byteCount });
  }
}

/** Returns the progress stored with the job. */
function placeOf({ data }: HeldReplication): ReplicationProgress {
  const { statistics, checkpointedSequence, throughSequence, sourceSequence } = data;
  return { statistics, checkpointedSequence, throughSequence, highestSequence: sourceSequence };
}

/**
 * Updates the job during the run: at the heartbeat interval, and every `intervalMs` if its figures
 * have changed. Ends immediately when the job is lost or must stop.
 */
export async function showLife(
  job: HeldReplication,
  run: MeasuredRun | undefined,
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
    // All pauses share one listener, because each `fired` would leave a registration on the watch.
    const called = watch.fired(over.signal).then(end, end);
    try {
      while (!over.signal.aborted) {
        const pauseMs = Math.min(intervalMs(), job.silentMsMax);
        await runtime.clock.sleep(pauseMs, over.signal).catch(() => {});
        if (over.signal.aborted) break;
        run?.observe(job);
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

/** Periodically asks the source for pending changes. Failures and slow responses are ignored. */
export async function askPending(
  job: HeldReplication,
  { run, lag }: MeasuredRun,
  source: Endpoint,
  ended: AbortSignal,
): Promise<void> {
  const { clock } = job.parts.runtime;
  let pauseMs = PENDING_PAUSE_MS_FIRST;
  while (!ended.aborted) {
    await clock.sleep(pauseMs, ended).catch(() => {});
    if (ended.aborted || !run.hasBegun) continue;
    const { throughSequence } = run.progress;
    const { arrivedCount } = lag;
    const changesPending = await source
      .pendingChangeCount(throughSequence, ended)
      .catch(() => undefined);
    if (ended.aborted) return;
    lag.announced(arrivedCount, changesPending, clock.nowMs());
    job.noteChangesPending(changesPending);
    pauseMs = PENDING_INTERVAL_MS;
  }
}

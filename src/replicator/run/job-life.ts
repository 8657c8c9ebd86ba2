/** The reports of a running job: signs of life, figures, and the number of pending changes. */
import type { Endpoint } from "../endpoints/endpoint.ts";
import type { HeldReplication } from "./held-replication.ts";
import type { ReplicationRun } from "./replication-run.ts";

/** How often the source is asked how much is still to come: a question that costs it something (CouchDB 3.5: 30 s). */
const PENDING_INTERVAL_MS = 30_000;
/** The first time it is asked sooner. */
const PENDING_PAUSE_MS_FIRST = 1000;

/**
 * Updates the job while it runs: when nothing was stored for a while, and after `intervalMs` when its figures are others, for those
 * who look. Notices at once when the job was taken away, or is to stop.
 */
export async function showLife(
  job: HeldReplication,
  run: ReplicationRun | undefined,
  intervalMs: () => number,
  ended: AbortSignal,
): Promise<void> {
  const { runtime } = job.parts;
  while (!ended.aborted) {
    const watch = await job.watch();
    const over = new AbortController();
    const end = (): void => over.abort(new Error("The waiting is over"));
    ended.addEventListener("abort", end, { once: true });
    if (ended.aborted) end();
    // One wait for all pauses: each leaves something behind in the watch as long as that lasts.
    const called = watch.fired(over.signal).then(end, end);
    try {
      while (!over.signal.aborted) {
        const pauseMs = Math.min(intervalMs(), job.silentMsMax);
        await runtime.clock.sleep(pauseMs, over.signal).catch(() => {});
        if (over.signal.aborted) break;
        if (run !== undefined) observe(job, run);
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

/** Asks the source now and then; that it cannot say, or is slow to, is no reason to stop or to wait. */
export async function askPending(
  job: HeldReplication,
  run: ReplicationRun,
  source: Endpoint,
  ended: AbortSignal,
): Promise<void> {
  const { clock } = job.parts.runtime;
  let pauseMs = PENDING_PAUSE_MS_FIRST;
  while (!ended.aborted) {
    await clock.sleep(pauseMs, ended).catch(() => {});
    if (ended.aborted || !run.hasBegun) continue;
    const { throughSequence } = run.progress;
    const changesPending = await source
      .pendingChangeCount(throughSequence, ended)
      .catch(() => undefined);
    job.noteChangesPending(changesPending);
    pauseMs = PENDING_INTERVAL_MS;
  }
}

/** Takes over where the run is. */
export function observe(job: HeldReplication, { progress, hasCheckpoint }: ReplicationRun): void {
  const { highestSequence: sourceSequence, ...figures } = progress;
  job.observe({ ...figures, sourceSequence, hasCheckpoint });
}

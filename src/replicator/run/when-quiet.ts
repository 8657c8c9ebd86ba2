/** When a run has nothing to do, so that its job can be parked. */
import type { Clock, Digests } from "../../base/index.ts";
import type { Endpoint, SourceSequence } from "../endpoints/endpoint.ts";
import type { ReplicationJobData } from "../jobs/job-data.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import type { Replication } from "../request/replication.ts";
import { userFilter } from "../request/replication-id.ts";
import { scheduleOf } from "../request/schedule.ts";
import { watchedPlace } from "../request/watched-place.ts";
import type { ReplicationRun } from "./replication-run.ts";

/** A run that still works on what came is looked at again after this. */
const LOOK_MS_MIN = 1000;
/** While all slots of the node are taken, a source that was quiet for so long is quiet. */
const QUIET_MS_CROWDED = 1000;
/** How soon a run whose source is quiet notices that all slots are taken. */
const LOOK_MS_MAX = 2000;
/**
 * The source of a job that is woken so soon after it parked is busy. To wake a job takes six to eight requests. In a slot a change takes
 * three, and one for the next page of the feed.
 */
const BUSY_MS = 5000;
/** While no job is to be parked: how soon another setting is noticed. */
const OFF_MS = 10_000;

/**
 * Whether a watcher can tell when the job has something to do. The code of a filter function may change without the source, so a run
 * watches it; and without checkpoints each run would begin at the start.
 */
export function canPark(digests: Digests, replication: Replication): boolean {
  const schedule = scheduleOf(replication);
  return (
    // A watcher knows no hours.
    (replication.continuous ? schedule === undefined : schedule?.kind === "changes") &&
    replication.options.useCheckpoints &&
    userFilter(replication.selection) === undefined &&
    watchedPlace(digests, replication.source) !== undefined
  );
}

/**
 * Whether a run that a watcher woke parks again as soon as it has caught up. Else it keeps its slot until its source has been quiet, as
 * any other run.
 */
export function parksCaughtUp(
  { lastUpdatedMs: parkedAtMs }: Pick<ReplicationJobData, "lastUpdatedMs">,
  { parkAfterSec }: Pick<ReplicatorConfig, "parkAfterSec">,
  nowMs: number,
): boolean {
  // A job that a slot was kept for would have had the change at once.
  const busyMs = Math.min(BUSY_MS, parkAfterSec * 1000);
  return parkAfterSec > 0 && nowMs - parkedAtMs >= busyMs;
}

/**
 * Settles when nothing has come from the source for `park_after_sec` and it has no more, with where it is then; undefined: the run
 * has ended before. A source that does not answer is no reason to stop: then the run goes on. `isCrowded`: whether all slots of the
 * node are taken.
 */
export async function onceQuiet(
  clock: Clock,
  run: Pick<ReplicationRun, "hasWork" | "quietSinceMs" | "progress">,
  source: Endpoint,
  config: Pick<ReplicatorConfig, "parkAfterSec">,
  isCrowded: () => boolean,
  ended: AbortSignal,
): Promise<SourceSequence | undefined> {
  let askedAtMs = clock.monotonicMs();
  while (!ended.aborted) {
    const parkAfterMs = Math.min(
      config.parkAfterSec * 1000,
      isCrowded() ? QUIET_MS_CROWDED : Number.POSITIVE_INFINITY,
    );
    const sinceMs = Math.max(run.quietSinceMs ?? clock.monotonicMs(), askedAtMs);
    const waitMs = parkAfterMs === 0 ? OFF_MS : sinceMs + parkAfterMs - clock.monotonicMs();
    if (waitMs > 0 || run.hasWork) {
      const lookMs = parkAfterMs === 0 ? waitMs : Math.min(waitMs, LOOK_MS_MAX);
      await clock.sleep(Math.max(lookMs, LOOK_MS_MIN), ended).catch(() => {});
      continue;
    }
    const { quietSinceMs, progress } = run;
    const updateSequence = await quietAt(source, progress.highestSequence, ended).catch(
      () => undefined,
    );
    const isQuiet = !run.hasWork && run.quietSinceMs === quietSinceMs;
    if (updateSequence !== undefined && isQuiet) return ended.aborted ? undefined : updateSequence;
    askedAtMs = clock.monotonicMs();
  }
  return undefined;
}

/** Where the source is, if it has no change behind `sequence`: what comes after the first question, the second one counts. */
async function quietAt(
  source: Endpoint,
  sequence: SourceSequence,
  signal: AbortSignal,
): Promise<SourceSequence | undefined> {
  const { updateSequence } = await source.info(signal);
  const pending = await source.pendingChangeCount(sequence, signal);
  return pending === 0 ? updateSequence : undefined;
}

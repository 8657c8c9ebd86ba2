/** When a run has nothing to do, so that its job can be parked. */
import type { Clock, Digests } from "../../base/index.ts";
import type { Endpoint, SourceSequence } from "../endpoints/endpoint.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import type { Replication } from "../request/replication.ts";
import { userFilter } from "../request/replication-id.ts";
import { scheduleOf } from "../request/schedule.ts";
import { watchedPlace } from "../request/watched-place.ts";
import type { ReplicationRun } from "./replication-run.ts";

/** A run that still works on what came is looked at again after this. */
const LOOK_MS_MIN = 1000;
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
 * Settles when nothing has come from the source for `park_after_sec` and it has no more, with where it is then; undefined: the run
 * has ended before. A source that does not answer is no reason to stop: then the run goes on.
 */
export async function onceQuiet(
  clock: Clock,
  run: Pick<ReplicationRun, "hasWork" | "quietSinceMs" | "progress">,
  source: Endpoint,
  config: Pick<ReplicatorConfig, "parkAfterSec">,
  ended: AbortSignal,
): Promise<SourceSequence | undefined> {
  let askedAtMs = clock.monotonicMs();
  while (!ended.aborted) {
    const parkAfterMs = config.parkAfterSec * 1000;
    const sinceMs = Math.max(run.quietSinceMs ?? clock.monotonicMs(), askedAtMs);
    const waitMs = parkAfterMs === 0 ? OFF_MS : sinceMs + parkAfterMs - clock.monotonicMs();
    if (waitMs > 0 || run.hasWork) {
      await clock.sleep(Math.max(waitMs, LOOK_MS_MIN), ended).catch(() => {});
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

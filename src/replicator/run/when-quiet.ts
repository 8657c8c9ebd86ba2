/** When a run has nothing to do, so that its job can be parked. */
import type { Clock, Digests } from "../../base/index.ts";
import type { Endpoint, SourceSequence } from "../endpoints/endpoint.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import type { Replication } from "../request/replication.ts";
import { userFilter } from "../request/replication-id.ts";
import { watchedPlace } from "../request/watched-place.ts";
import type { ReplicationRun } from "./replication-run.ts";

/** How often it is looked whether something has moved. */
const LOOK_MS = 1000;

/**
 * Whether a watcher can tell when the job has something to do. The code of a filter function may change without the source, so a run
 * watches it; and without checkpoints each run would begin at the start.
 */
export function canPark(digests: Digests, replication: Replication): boolean {
  return (
    replication.continuous &&
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
  run: Pick<ReplicationRun, "hasBegun" | "hasWork" | "progress">,
  source: Endpoint,
  config: Pick<ReplicatorConfig, "parkAfterSec">,
  ended: AbortSignal,
): Promise<SourceSequence | undefined> {
  let sinceMs = clock.monotonicMs();
  let seen: SourceSequence;
  while (!ended.aborted) {
    await clock.sleep(LOOK_MS, ended).catch(() => {});
    if (ended.aborted) return undefined;
    const nowMs = clock.monotonicMs();
    const { highestSequence } = run.progress;
    const isQuiet = run.hasBegun && !run.hasWork && highestSequence === seen;
    seen = highestSequence;
    if (!isQuiet || config.parkAfterSec === 0) sinceMs = nowMs;
    if (!isQuiet || config.parkAfterSec === 0 || nowMs - sinceMs < config.parkAfterSec * 1000) {
      continue;
    }
    const updateSequence = await quietAt(source, highestSequence, ended).catch(() => undefined);
    if (updateSequence !== undefined && run.progress.highestSequence === highestSequence) {
      return updateSequence;
    }
    sinceMs = clock.monotonicMs();
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

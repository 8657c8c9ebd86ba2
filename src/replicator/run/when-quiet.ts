/** Detects that a run is idle, so that its job can be parked. */
import { type Clock, type Digests, largest } from "../../base/index.ts";
import type { Endpoint, SourceSequence } from "../endpoints/endpoint.ts";
import type { ReplicationJobData } from "../jobs/job-data.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import { directionsOf } from "../request/pair.ts";
import type { Replication } from "../request/replication.ts";
import { userFilter } from "../request/replication-id.ts";
import { scheduleOf } from "../request/schedule.ts";
import { watchedPlace } from "../request/watched-place.ts";
import type { ReplicationRun } from "./replication-run.ts";

/** Minimum polling interval, which applies while a run is still copying. */
const LOOK_MS_MIN = 1000;
/** Maximum required idle time while all slots of the node are in use. */
const QUIET_MS_CROWDED = 1000;
/**
 * Maximum polling interval of an idle run. It is short, so that the run soon notices that all slots
 * are in use.
 */
const LOOK_MS_MAX = 2000;
/**
 * If a job is woken within this time after it was parked, its source is busy. Waking a job takes
 * six to eight requests. A job that keeps its slot needs only three requests for a change, and one
 * for the next page of the feed.
 */
const BUSY_MS = 5000;
/** Polling interval while parking is disabled. */
const OFF_MS = 10_000;

/**
 * Whether a job can be parked, that is, whether a watcher can detect that it has work. A watcher
 * cannot do this for a user's filter, whose code can change without a change of the source. Jobs
 * without checkpoints cannot be parked either, because each run would start over.
 */
export function canPark(digests: Digests, replication: Replication): boolean {
  const schedule = scheduleOf(replication);
  return (
    // A watcher would wake a job outside its scheduled hours, so a job with scheduled hours is not
    // parked.
    (replication.continuous ? schedule === undefined : schedule?.kind === "changes") &&
    replication.options.useCheckpoints &&
    userFilter(replication.selection) === undefined &&
    directionsOf(replication).every((one) => watchedPlace(digests, one) !== undefined)
  );
}

/**
 * Whether a new or woken job is parked as soon as it has caught up, without waiting until its
 * source is idle.
 */
export function parksCaughtUp(
  {
    lastStartMs,
    lastUpdatedMs: parkedAtMs,
  }: Pick<ReplicationJobData, "lastStartMs" | "lastUpdatedMs">,
  { parkAfterSec }: Pick<ReplicatorConfig, "parkAfterSec">,
  nowMs: number,
): boolean {
  // If the job was woken within `busyMs`, its source is busy. The job then keeps its slot, where it
  // receives changes without delay.
  const busyMs = Math.min(BUSY_MS, parkAfterSec * 1000);
  const isNew = lastStartMs === 0;
  return parkAfterSec > 0 && (isNew || nowMs - parkedAtMs >= busyMs);
}

/** The run of one direction, and the source that it reads. */
interface Feed {
  readonly run: Pick<ReplicationRun, "hasWork" | "quietSinceMs" | "progress">;
  readonly source: Endpoint;
}

/**
 * Resolves with the sources' update sequences when no source has changed for `park_after_sec`;
 * undefined if the runs end first. Errors of the sources are ignored. `isCrowded` returns whether
 * all slots of the node are in use.
 */
export async function onceQuiet(
  clock: Clock,
  feeds: readonly Feed[],
  config: Pick<ReplicatorConfig, "parkAfterSec">,
  isCrowded: () => boolean,
  ended: AbortSignal,
): Promise<readonly SourceSequence[] | undefined> {
  const quietSince = (): readonly number[] =>
    feeds.map(({ run }) => run.quietSinceMs ?? clock.monotonicMs());
  const hasWork = (): boolean => feeds.some(({ run }) => run.hasWork);
  let askedAtMs = clock.monotonicMs();
  while (!ended.aborted) {
    const parkAfterMs = Math.min(
      config.parkAfterSec * 1000,
      isCrowded() ? QUIET_MS_CROWDED : Number.POSITIVE_INFINITY,
    );
    const sinceMs = largest([...quietSince(), askedAtMs]);
    const waitMs = parkAfterMs === 0 ? OFF_MS : sinceMs + parkAfterMs - clock.monotonicMs();
    if (waitMs > 0 || hasWork()) {
      const lookMs = parkAfterMs === 0 ? waitMs : Math.min(waitMs, LOOK_MS_MAX);
      await clock.sleep(Math.max(lookMs, LOOK_MS_MIN), ended).catch(() => {});
      continue;
    }
    const before = quietSince();
    const sequences: SourceSequence[] = [];
    for (const { run, source } of feeds) {
      const { highestSequence } = run.progress;
      const sequence = await quietAt(source, highestSequence, ended).catch(() => undefined);
      if (sequence === undefined) break;
      sequences.push(sequence);
    }
    const isQuiet = !hasWork() && quietSince().every((timeMs, index) => timeMs === before[index]);
    if (sequences.length === feeds.length && isQuiet) return ended.aborted ? undefined : sequences;
    askedAtMs = clock.monotonicMs();
  }
  return undefined;
}

/** Returns the source's update sequence; undefined if there are changes after `sequence`. */
async function quietAt(
  source: Endpoint,
  sequence: SourceSequence,
  signal: AbortSignal,
): Promise<SourceSequence | undefined> {
  const { updateSequence } = await source.info(signal);
  const pending = await source.pendingChangeCount(sequence, signal);
  return pending === 0 ? updateSequence : undefined;
}

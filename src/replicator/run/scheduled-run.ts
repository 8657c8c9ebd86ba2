/**
 * Applies a schedule: determines whether a run may start, when it must end, and when the next run
 * starts.
 */
import { type Clock, currentSec } from "../../base/index.ts";
import type { Endpoint, SourceSequence } from "../endpoints/endpoint.ts";
import type { RunEnding } from "../jobs/decide.ts";
import type { Replication } from "../request/replication.ts";
import { intoWindow, nextRunSec, scheduleOf, windowEndSec } from "../request/schedule.ts";

/** Polling interval for a job that waits for a number of changes, if its source is not watched. */
const LOOK_SEC = 60;

/**
 * Converts the ending of a completed run. A job with a schedule does not complete, but waits for
 * its next run.
 */
export function scheduledEnding(
  ending: RunEnding,
  replication: Replication,
  startMs: number,
  nowMs: number,
): RunEnding {
  const schedule = scheduleOf(replication);
  if (schedule === undefined || ending.kind !== "completed") return ending;
  const nextSec = nextRunSec(schedule, Math.floor(startMs / 1000), Math.floor(nowMs / 1000));
  return { kind: "round-completed", nextSec };
}

/**
 * Returns the ending of a run that was due within the job's scheduled hours but starts outside of
 * them. Returns undefined if the run is allowed to copy. If an operator scheduled the job outside
 * its hours, the run is allowed to copy.
 */
export function missedHours(
  replication: Replication,
  dueAtSec: number,
  nowSec: number,
): Extract<RunEnding, { kind: "outside-schedule" }> | undefined {
  const schedule = scheduleOf(replication);
  const wasOpen = intoWindow(schedule, dueAtSec) === dueAtSec;
  const nextSec = intoWindow(schedule, nowSec);
  return wasOpen && nextSec > nowSec ? { kind: "outside-schedule", nextSec } : undefined;
}

/**
 * Resolves with the run's ending when the scheduled hours end, or with undefined if the run ends
 * first.
 */
export async function onceWindowCloses(
  clock: Clock,
  replication: Replication,
  ended: AbortSignal,
): Promise<Extract<RunEnding, { kind: "outside-schedule" }> | undefined> {
  const schedule = scheduleOf(replication);
  const endSec = windowEndSec(schedule, currentSec(clock));
  if (endSec === undefined) return undefined;
  while (!ended.aborted && clock.nowMs() < endSec * 1000) {
    await clock.sleep(endSec * 1000 - clock.nowMs(), ended).catch(() => {});
  }
  return ended.aborted
    ? undefined
    : { kind: "outside-schedule", nextSec: intoWindow(schedule, endSec) };
}

/**
 * Returns the ending if the source has fewer changes after `since` than the schedule requires.
 * Returns undefined if there are enough changes, or if their number is unknown. `isWatched`: a
 * watcher notifies the job of changes.
 */
export async function tooFewChanges(
  replication: Replication,
  source: Endpoint,
  since: SourceSequence,
  { isWatched, nowMs }: { readonly isWatched: boolean; readonly nowMs: number },
  signal: AbortSignal,
): Promise<RunEnding | undefined> {
  const schedule = scheduleOf(replication);
  if (schedule?.kind !== "changes") return undefined;
  // Request the update sequence before the count, so that a watcher that starts at this sequence
  // misses no change.
  const { updateSequence } = await source.info(signal);
  const pending = await source.pendingChangeCount(since, signal);
  if (pending === undefined || pending >= schedule.count) return undefined;
  if (isWatched) return { kind: "caught-up", updateSequence, pending, startTimes: undefined };
  return { kind: "outside-schedule", nextSec: Math.floor(nowMs / 1000) + LOOK_SEC };
}

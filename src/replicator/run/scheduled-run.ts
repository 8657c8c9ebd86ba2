/** What a schedule makes of a run: whether it has anything to do yet, when it has to end, and when the next one begins. */
import type { Clock } from "../../base/index.ts";
import type { Endpoint, SourceSequence } from "../endpoints/endpoint.ts";
import type { RunEnding } from "../jobs/decide.ts";
import type { Replication } from "../request/replication.ts";
import { intoWindow, nextRunSec, scheduleOf, windowEndSec } from "../request/schedule.ts";

/** How soon a job that waits for so many changes looks again, where nobody watches its source for it. */
const LOOK_SEC = 60;

/** How a run ended, for the job: one with a schedule does not end with its run. */
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
 * How a job ends at once whose hours were open when it was due, and are not now; undefined: it may run. An operator's command makes a
 * job due outside of its hours: then it runs.
 */
export function missedHours(
  replication: Replication,
  dueAtSec: number,
  nowSec: number,
): Extract<RunEnding, { kind: "not-now" }> | undefined {
  const schedule = scheduleOf(replication);
  const wasOpen = intoWindow(schedule, dueAtSec) === dueAtSec;
  const nextSec = intoWindow(schedule, nowSec);
  return wasOpen && nextSec > nowSec ? { kind: "not-now", nextSec } : undefined;
}

/** Settles when the hours are over in which the job may run; undefined: the run has ended before, or may go on. */
export async function onceWindowCloses(
  clock: Clock,
  replication: Replication,
  ended: AbortSignal,
): Promise<Extract<RunEnding, { kind: "not-now" }> | undefined> {
  const schedule = scheduleOf(replication);
  const endSec = windowEndSec(schedule, Math.floor(clock.nowMs() / 1000));
  if (endSec === undefined) return undefined;
  while (!ended.aborted && clock.nowMs() < endSec * 1000) {
    await clock.sleep(endSec * 1000 - clock.nowMs(), ended).catch(() => {});
  }
  return ended.aborted ? undefined : { kind: "not-now", nextSec: intoWindow(schedule, endSec) };
}

/**
 * How a run ends whose schedule waits for more changes than the source has behind `since`; undefined: it has enough, or cannot say.
 * `isWatched`: somebody tells the job when there are more.
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
  // What comes after the first question, the watcher sees.
  const { updateSequence } = await source.info(signal);
  const pending = await source.pendingChangeCount(since, signal);
  if (pending === undefined || pending >= schedule.count) return undefined;
  if (isWatched) return { kind: "quiet", updateSequence, pending, startTimes: undefined };
  return { kind: "not-now", nextSec: Math.floor(nowMs / 1000) + LOOK_SEC };
}

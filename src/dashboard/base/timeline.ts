/** Timeline of a job, from its runs, its history and operators' decisions. */
import type { Job, JobRun } from "../../contract/index.ts";

export interface TimelineEntry {
  readonly time: string;
  readonly kind: "run" | "decision" | "event";
  readonly title: string;
  /** For a run or event, the reason. For a decision, the user, and the reason if there is one. */
  readonly detail: string | null;
  readonly isBad: boolean;
  /** The run, if the entry describes one. */
  readonly run?: JobRun;
}

const BAD_CAUSES = new Set([
  "crashed",
  "stalled",
  "malformed",
  "quarantined",
  "lost",
  "duplicate-of-transient",
  "duplicate-of-persistent",
]);

/**
 * Returns the entries, newest first. Only two entries come from the history, because neither runs
 * nor decisions contain them: the addition of the job, and the start of its current run.
 */
export function timelineOf(job: Job, runs: readonly JobRun[]): TimelineEntry[] {
  const ended = runs.map(
    (run): TimelineEntry => ({
      time: run.end,
      kind: "run",
      title: `Run ${run.cause}`,
      detail: run.reason,
      isBad: BAD_CAUSES.has(run.cause),
      run,
    }),
  );
  const decisions = job.control.map(
    ({ action, user, timestamp, why, since }): TimelineEntry => ({
      time: timestamp,
      kind: "decision",
      title: since === undefined ? action : `${action}: ${JSON.stringify(since)}`,
      detail: `by ${user ?? "an anonymous administrator"}${why === null ? "" : `: ${why}`}`,
      isBad: false,
    }),
  );
  const events = job.history
    .filter(({ type }, index) => type === "added" || (type === "started" && index === 0))
    .map(
      ({ type, timestamp, reason }): TimelineEntry => ({
        time: timestamp,
        kind: "event",
        title: type === "added" ? "Added" : "Run started, in progress",
        detail: reason ?? null,
        isBad: false,
      }),
    );
  return [...ended, ...decisions, ...events].sort((left, right) =>
    left.time < right.time ? 1 : left.time > right.time ? -1 : 0,
  );
}

/** String constants in the JSON of jobs. */

export const JOB_STATES = ["running", "pending", "crashing", "completed", "failed"] as const;
export type JobState = (typeof JOB_STATES)[number];

/** Names of the queue's states in the command line and the dashboard. */
export const STATE_WORDS: Readonly<Record<JobState, string>> = {
  running: "running",
  pending: "waiting",
  crashing: "crashing",
  completed: "completed",
  failed: "failed",
};

/** Members of a job that determine its `stateWord`. */
export interface StatedJob {
  readonly paused: boolean;
  readonly failing: boolean;
  readonly parked: boolean;
  readonly state: JobState;
}

/**
 * The state of a job for operators. A pause or a failure takes precedence over the queue's state.
 */
export function stateWord({ paused, failing, parked, state }: StatedJob): string {
  if (paused) return "paused";
  if (failing) return "failing";
  if (parked) return "parked";
  return STATE_WORDS[state];
}

/**
 * Whether the lag of a job is unknown. Returns false for paused and ended jobs, which have no lag.
 */
export function isLagUnknown({
  lag_sec,
  paused,
  state,
}: Pick<StatedJob, "paused" | "state"> & { readonly lag_sec: number | null }): boolean {
  return lag_sec === null && !paused && state !== "completed" && state !== "failed";
}

export const FAILURE_CLASSES = [
  "unreachable",
  "dns",
  "tls",
  "timeout",
  "unauthorized",
  "forbidden",
  "not_found",
  "rate_limited",
  "storage_full",
  "server_error",
  "refused_document",
  "filter",
  "egress",
  "proxy",
  "duplicate",
  "invalid",
  "other",
] as const;
export type FailureClass = (typeof FAILURE_CLASSES)[number];

/**
 * Changes reported by an event:
 *
 *   job      added, removed, completed, failed (permanently)
 *   run      started, stopped, parked, crashed, stalled, lost (its node died)
 *   status   failing and recovered, stalling and moving, paused and resumed, behind and caught_up;
 *            left_behind and arrived (documents failed, and arrived later); changed (anything else)
 */
export const JOB_CHANGES = [
  "added",
  "removed",
  "started",
  "stopped",
  "parked",
  "crashed",
  "stalled",
  "lost",
  "completed",
  "failed",
  "failing",
  "recovered",
  "stalling",
  "moving",
  "left_behind",
  "arrived",
  "paused",
  "resumed",
  "behind",
  "caught_up",
  "changed",
] as const;
export type JobChangeName = (typeof JOB_CHANGES)[number];

/**
 * An operator's decisions about a job: whether it is paused, where it restarts, and a log of
 * decisions. Stored separately, because a running job's data is written by its worker.
 *
 * A decision about a running job increments `decision`. The run detects it, writes a final
 * checkpoint, and returns the job to the queue.
 */
import type { SourceSequence } from "../endpoints/endpoint.ts";

export type ControlAction =
  | "pause"
  | "resume"
  | "retry"
  | "reset"
  | "start-from"
  | "replace-credentials";

/** Author and reason of a decision. */
export interface Decider {
  /** Name of the user; null if anonymous. */
  readonly userName: string | null;
  /** Reason, at most `WHY_LENGTH_MAX` characters; absent if none was given. */
  readonly why?: string;
  /** Id of the bulk command that made the decision, if any. */
  readonly command?: string;
  /** Id of the API request, if any. Included in log lines, but not stored with the job. */
  readonly requestId?: string;
}

export const WHY_LENGTH_MAX = 200;

export interface ControlEvent extends Omit<Decider, "requestId"> {
  readonly action: ControlAction;
  readonly timeMs: number;
  /** Sequence to restart from, if any. */
  readonly since?: SourceSequence;
}

export interface JobControl {
  readonly isPaused: boolean;
  /**
   * Start sequence of the next run, if it overrides the checkpoints, with the number of the
   * decision that set it.
   */
  readonly restartAt: { readonly sequence: SourceSequence; readonly decision: number } | undefined;
  /** Number of operators' decisions so far. */
  readonly decision: number;
  /** The latest decisions, newest first. */
  readonly events: readonly ControlEvent[];
}

/**
 * Whether an operator has retried the job that is due at `dueAtSec` (seconds since the epoch), and
 * no run has started since the retry. The recorded time of a retry can be up to a second later than
 * the due time that the retry sets.
 */
export function isRetried(
  { events }: JobControl,
  { dueAtSec, lastStartMs }: { readonly dueAtSec: number; readonly lastStartMs: number },
): boolean {
  return events.some(({ action, timeMs }) => {
    const lateSec = Math.floor(timeMs / 1000) - dueAtSec;
    return action === "retry" && timeMs > lastStartMs && (lateSec === 0 || lateSec === 1);
  });
}

/** Control state of a job for which no operator has made a decision. */
export const UNTOUCHED: JobControl = {
  isPaused: false,
  restartAt: undefined,
  decision: 0,
  events: [],
};

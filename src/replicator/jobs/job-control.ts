/**
 * An operator's decision about a job: that it is paused, or where it begins again; and who decided what when. It is
 * stored beside the job, because the holder of a running job writes its data.
 *
 * A decision about a running job increments `decision`. Its holder sees that, writes a last checkpoint, and gives the
 * job back.
 */
import type { SourceSequence } from "../endpoints/endpoint.ts";

export type ControlAction =
  | "pause"
  | "resume"
  | "retry"
  | "reset"
  | "start-from"
  | "replace-credentials";

/** Who decides, and why. */
export interface Decider {
  /** Null: a user without a name. */
  readonly userName: string | null;
  /** In characters, `WHY_LENGTH_MAX` at most; absent: nothing was said. */
  readonly why?: string;
  /** Of the request of the API that brings the decision; absent: it came in another way. It is announced, and not kept. */
  readonly requestId?: string;
}

export const WHY_LENGTH_MAX = 200;

export interface ControlEvent extends Omit<Decider, "requestId"> {
  readonly action: ControlAction;
  readonly timeMs: number;
  /** Where the job was to begin. */
  readonly since?: SourceSequence;
}

export interface JobControl {
  readonly isPaused: boolean;
  /** The next run begins here, whatever its checkpoints say; decided with this number. */
  readonly restartAt: { readonly sequence: SourceSequence; readonly decision: number } | undefined;
  /** How many decisions there were. */
  readonly decision: number;
  /** Newest first. */
  readonly events: readonly ControlEvent[];
}

/**
 * Whether an operator had the job run now that is due at this time, in seconds since the epoch, and no run has begun since. The clock
 * may have gone on to the next second between decision and due time.
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

/** No decision. */
export const UNTOUCHED: JobControl = {
  isPaused: false,
  restartAt: undefined,
  decision: 0,
  events: [],
};

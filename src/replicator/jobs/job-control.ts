/**
 * What an operator decided about a job: that it is to rest, or where it is to begin anew; and who decided what when. It stands
 * beside the job, not in its data, which is the holder's while the job runs.
 *
 * A decision about a job that runs counts up `decision`; its holder sees that, writes a last checkpoint, and gives the job back.
 */
import type { SourceSequence } from "../endpoints/endpoint.ts";

export type ControlAction = "pause" | "resume" | "retry" | "reset" | "start-from";

export interface ControlEvent {
  readonly action: ControlAction;
  /** Null: nobody with a name. */
  readonly userName: string | null;
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

/** Nobody decided anything. */
export const UNTOUCHED: JobControl = {
  isPaused: false,
  restartAt: undefined,
  decision: 0,
  events: [],
};

/**
 * What an operator decided about a job: that it is to rest, or where it is to begin anew; and who decided what when. It stands
 * beside the job, not in its data, which is the holder's while the job runs.
 *
 * A decision about a job that runs counts up `decision`; its holder sees that, writes a last checkpoint, and gives the job back.
 */
import type { ReadTransaction, Subspace, Transaction } from "../kv/index.ts";
import type { SourceSequence } from "./endpoint.ts";
import { decodeJobControl, encodeJobControl } from "./job-control-record.ts";
import { ReplicatorKeys } from "./replicator-keys.ts";

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
const EVENTS_MAX = 20;

export class JobControls {
  readonly #keys: ReplicatorKeys;

  constructor(subspace: Subspace) {
    this.#keys = new ReplicatorKeys(subspace);
  }

  async get(tx: ReadTransaction, jobId: string): Promise<JobControl> {
    const value = await tx.get(this.#keys.jobControl(jobId));
    return value === undefined ? UNTOUCHED : decodeJobControl(value);
  }

  /** Notes a decision. */
  decide(tx: Transaction, jobId: string, present: JobControl, event: ControlEvent): void {
    const { action, since } = event;
    const decision = present.decision + 1;
    const control: JobControl = {
      isPaused: action === "pause" || (present.isPaused && action !== "resume"),
      restartAt: since === undefined ? present.restartAt : { sequence: since, decision },
      decision,
      events: [event, ...present.events].slice(0, EVENTS_MAX),
    };
    tx.set(this.#keys.jobControl(jobId), encodeJobControl(control));
  }

  /** The run that began where it was told has a checkpoint of its own; the next one goes on from there. */
  async endRestart(
    tx: Transaction,
    jobId: string,
    { decision }: NonNullable<JobControl["restartAt"]>,
  ): Promise<void> {
    const control = await this.get(tx, jobId);
    if (control.restartAt?.decision !== decision) return;
    const ended = encodeJobControl({ ...control, restartAt: undefined });
    tx.set(this.#keys.jobControl(jobId), ended);
  }

  remove(tx: Transaction, jobId: string): void {
    tx.clear(this.#keys.jobControl(jobId));
  }
}

/** Stores operators' decisions (`job-control.ts`). */
import type { ReadTransaction, Subspace, Transaction } from "../../kv/index.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import { decodeHazard, encodeHazard, type Hazard, NO_HAZARD } from "./hazard.ts";
import { type ControlEvent, type JobControl, UNTOUCHED } from "./job-control.ts";
import { decodeJobControl, encodeJobControl } from "./job-control-record.ts";

const EVENTS_MAX = 20;

export class JobControls {
  readonly #keys: ReplicatorKeys;

  constructor(subspace: Subspace) {
    this.#keys = replicatorKeys(subspace);
  }

  async get(tx: ReadTransaction, jobId: string): Promise<JobControl> {
    const value = await tx.get(this.#keys.jobControl.key({ jobId }));
    return value === undefined ? UNTOUCHED : decodeJobControl(value);
  }

  /** Returns the decisions about each job, in the order of `jobIds`. */
  async getMany(tx: ReadTransaction, jobIds: readonly string[]): Promise<readonly JobControl[]> {
    const values = await tx.getMany(jobIds.map((jobId) => this.#keys.jobControl.key({ jobId })));
    return values.map((value) => (value === undefined ? UNTOUCHED : decodeJobControl(value)));
  }

  /** Records an operator's decision. */
  decide(tx: Transaction, jobId: string, present: JobControl, event: ControlEvent): void {
    const { action, since } = event;
    const decision = present.decision + 1;
    const control: JobControl = {
      isPaused: action === "pause" || (present.isPaused && action !== "resume"),
      restartAt: since === undefined ? present.restartAt : { sequence: since, decision },
      decision,
      events: [event, ...present.events].slice(0, EVENTS_MAX),
    };
    tx.set(this.#keys.jobControl.key({ jobId }), encodeJobControl(control));
  }

  /** Carries a pause over from a paused job to the job that replaces it. */
  keepPause(tx: Transaction, jobId: string, { decision, events }: JobControl): void {
    const control: JobControl = { isPaused: true, restartAt: undefined, decision, events };
    tx.set(this.#keys.jobControl.key({ jobId }), encodeJobControl(control));
  }

  /** Clears the restart position once the restarted run has written a checkpoint. */
  async endRestart(
    tx: Transaction,
    jobId: string,
    { decision }: NonNullable<JobControl["restartAt"]>,
  ): Promise<void> {
    const control = await this.get(tx, jobId);
    if (control.restartAt?.decision !== decision) return;
    const ended = encodeJobControl({ ...control, restartAt: undefined });
    tx.set(this.#keys.jobControl.key({ jobId }), ended);
  }

  async hazard(tx: ReadTransaction, jobId: string): Promise<Hazard> {
    const value = await tx.get(this.#keys.hazard.key({ jobId }));
    return value === undefined ? NO_HAZARD : decodeHazard(value);
  }

  /** Stores a hazard; deletes the record if the hazard is empty. */
  setHazard(tx: Transaction, jobId: string, hazard: Hazard): void {
    const key = this.#keys.hazard.key({ jobId });
    if (hazard.work === undefined && hazard.deathCount === 0) tx.clear(key);
    else tx.set(key, encodeHazard(hazard));
  }

  remove(tx: Transaction, jobId: string): void {
    tx.clear(this.#keys.jobControl.key({ jobId }));
    tx.clear(this.#keys.hazard.key({ jobId }));
  }
}

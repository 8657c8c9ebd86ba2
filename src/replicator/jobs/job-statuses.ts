/** Stores the statuses of jobs. */
import type { JobNotes } from "../../jobs/index.ts";
import type { ReadTransaction, Transaction } from "../../kv/index.ts";
import { REPLICATION_JOB_TYPE } from "./job-data.ts";
import { decodeStatus, type JobStatus } from "./job-status.ts";

export class JobStatuses {
  readonly #notes: JobNotes;

  constructor(notes: JobNotes) {
    this.#notes = notes;
  }

  /** Returns the status of a job; undefined if there is no such job. */
  async get(tx: ReadTransaction, jobId: string): Promise<JobStatus | undefined> {
    const note = await this.#notes.get(tx, { type: REPLICATION_JOB_TYPE, id: jobId });
    return note && decodeStatus(note);
  }

  /** Returns the status of each job, in the order of `jobIds`; undefined for an unknown job. */
  async getMany(
    tx: ReadTransaction,
    jobIds: readonly string[],
  ): Promise<readonly (JobStatus | undefined)[]> {
    const notes = await this.#notes.getMany(tx, REPLICATION_JOB_TYPE, jobIds);
    return notes.map((note) => note && decodeStatus(note));
  }

  /**
   * Stores a status encoded by `encodeStatus`. If `encoded` is undefined, deletes the status of a
   * removed job.
   */
  set(tx: Transaction, jobId: string, encoded: Uint8Array | undefined): void {
    this.#notes.set(tx, { type: REPLICATION_JOB_TYPE, id: jobId }, encoded);
  }

  /**
   * Returns the statuses of jobs after `afterId` ("" for all) up to `lastId` (undefined for no
   * limit).
   */
  async between(
    tx: ReadTransaction,
    afterId: string,
    lastId: string | undefined,
  ): Promise<ReadonlyMap<string, JobStatus>> {
    const notes = await this.#notes.between(tx, REPLICATION_JOB_TYPE, afterId, lastId);
    return new Map([...notes].map(([id, note]) => [id, decodeStatus(note)]));
  }
}

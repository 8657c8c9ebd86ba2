/**
 * Observers maintain data derived from the jobs of a type, such as an index, in the transactions
 * that change these jobs.
 */
import type { Transaction } from "../kv/index.ts";
import type { JobData, JobFacts, JobName } from "./job.ts";

/** The change of a job by a transaction. */
export interface JobChange {
  /** Stored state of the job after the change; absent if the job was removed. */
  readonly facts: Pick<JobFacts, "state" | "scheduledAtSec"> | undefined;
  /** New data and request, if they were written. */
  readonly data: JobData | undefined;
  readonly request: JobData | undefined;
  /** Whether the run ended because its worker was lost. If so, the job is queued again. */
  readonly isLost: boolean;
  /**
   * Returns the current data and request, reading the values that this transaction did not write.
   * Must not be called for a removed job.
   */
  load(): Promise<{ readonly data: JobData; readonly request: JobData | undefined }>;
}

export interface JobObserver {
  /**
   * Called within the transaction for each change, including heartbeats. Not called for an
   * acceptance: the queue itself lists the running jobs (`Jobs.runningIds`).
   */
  changed(tx: Transaction, job: JobName, change: JobChange): Promise<void>;
}

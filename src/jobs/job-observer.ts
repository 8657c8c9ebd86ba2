/** Who keeps something beside the jobs of a type, such as an index, in the transactions that change them. */
import type { Transaction } from "../kv/index.ts";
import type { JobData, JobFacts, JobName } from "./job.ts";

/** What a transaction has made of a job. */
export interface JobChange {
  /** Undefined: the job is gone. */
  readonly facts: Pick<JobFacts, "state" | "scheduledAtSec"> | undefined;
  /** What counts from now on, if that was written; undefined: as it was. */
  readonly data: JobData | undefined;
  readonly request: JobData | undefined;
  /** The run ended without a word of its holder, and the job is back in the queue. */
  readonly isLost: boolean;
  /** Both as they are from now on, read from the store where they were not written; only of a job that is there. */
  load(): Promise<{ readonly data: JobData; readonly request: JobData | undefined }>;
}

export interface JobObserver {
  /**
   * Called in the transaction, once for each change. Signs of life are changes, too. An acceptance is not announced: which jobs
   * run is kept by the queue (`Jobs.runningIds`).
   */
  changed(tx: Transaction, job: JobName, change: JobChange): Promise<void>;
}

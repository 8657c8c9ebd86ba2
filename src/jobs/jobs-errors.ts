import { errorCode, OperationalError } from "../base/index.ts";
import type { JobName } from "./job.ts";

/**
 * The caller has lost the job: it was removed, or requeued because of missing heartbeats. The
 * former holder must stop and write nothing more (`halt` in RFC 007).
 */
export class JobHaltedError extends OperationalError {
  override readonly name = "JobHaltedError";

  constructor({ type, id }: JobName) {
    super("JOBS_HALTED", "The worker no longer holds the job", { type, id });
  }
}

/**
 * The type has no activity timeout. Without a timeout, a job whose worker died would never be
 * detected.
 */
export class UnknownJobTypeError extends OperationalError {
  override readonly name = "UnknownJobTypeError";

  constructor(type: string) {
    super("JOBS_NO_TYPE_TIMEOUT", "The job type has no timeout", { type });
  }
}

/**
 * The worker is no longer registered, or must assume that it is not, because its lease was not
 * renewed in time. The worker must stop all of its jobs, write nothing more, and register again.
 */
export class WorkerExpelledError extends OperationalError {
  override readonly name = "WorkerExpelledError";

  constructor(worker: string, cause: "expelled" | "lapsed" | "stopped") {
    super("JOBS_WORKER_EXPELLED", "The worker has lost its lease", { worker, cause });
  }
}

/** Whether the lease of a job, or of its worker, is lost. */
export function isJobLost(error: unknown): boolean {
  const code = errorCode(error);
  return code === "JOBS_HALTED" || code === "JOBS_WORKER_EXPELLED";
}

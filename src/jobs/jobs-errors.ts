import { OperationalError } from "../base/index.ts";
import type { JobName } from "./job.ts";

/**
 * The job was taken away: removed, or given to another processor after its holder was silent too long. The former holder
 * stops and writes nothing more (RFC 007 calls it `halt`).
 */
export class JobHaltedError extends OperationalError {
  override readonly name = "JobHaltedError";

  constructor({ type, id }: JobName) {
    super("JOBS_HALTED", "The job is no longer held", { type, id });
  }
}

/** The type has no timeout, so a job of a dead processor would never be noticed. */
export class UnknownJobTypeError extends OperationalError {
  override readonly name = "UnknownJobTypeError";

  constructor(type: string) {
    super("JOBS_NO_TYPE_TIMEOUT", "The job type has no timeout", { type });
  }
}

/**
 * The worker is not on the list any more, or has to count with that: its lease was not renewed in time. It stops all that it
 * runs, writes nothing more, and registers again.
 */
export class WorkerExpelledError extends OperationalError {
  override readonly name = "WorkerExpelledError";

  constructor(worker: string, cause: "expelled" | "lapsed" | "stopped") {
    super("JOBS_WORKER_EXPELLED", "The worker has lost its lease", { worker, cause });
  }
}

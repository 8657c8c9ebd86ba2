/**
 * The nouns of the workers (draft of RFC 007): who runs jobs, and how the others know that it lives.
 *
 *   member       registered; its lease is renewed, and it may accept jobs
 *   expelled     struck off the list, because its lease lapsed or because it left; what it held goes back to the queue
 *   (gone)       it holds nothing any more
 *
 * A worker has a new id with each registration, so that what a former registration held can never be taken for its own.
 */
import type { JobType, WorkerId } from "./job.ts";

export type { WorkerId };

export interface Worker {
  readonly id: WorkerId;
  /** Whose worker it is, for people. */
  readonly node: string;
  readonly processId: string;
  /** The types of jobs that it accepts. */
  readonly types: readonly JobType[];
  /** Wall time of its registration. */
  readonly sinceMs: number;
  /** Who sees no renewal for so long may expel it. */
  readonly leaseMs: number;
}

export interface WorkerLease {
  /** Grows with each renewal: others look whether it grows, and never at a clock that is not theirs. */
  readonly renewalCount: number;
  /** The worker's own wall time, for people. */
  readonly renewedAtMs: number;
}

/**
 * The nouns of the workers (draft of RFC 007), which run jobs and show each other that they live.
 *
 *   member       registered; its lease is renewed, and it may accept jobs
 *   expelled     removed from the list, because its lease lapsed or it left; its jobs go back to the queue
 *   (gone)       it holds no jobs any more
 *
 * A worker has a new id with each registration, so jobs of a former registration can never count as its own.
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

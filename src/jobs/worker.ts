/**
 * Data types of workers (draft of RFC 007), which run jobs and monitor each other.
 *
 *   member       registered; its lease is renewed, and it can accept jobs
 *   expelled     removed from the list, because its lease lapsed or it left; its jobs are requeued
 *   (removed)    all of its jobs have been requeued
 *
 * A worker gets a new id with each registration, so that jobs of its former registration never
 * count as its own.
 */
import type { JobType, WorkerId } from "./job.ts";
import type { Labels } from "./labels.ts";

export type { WorkerId };

/** The program of a worker, and the store formats that it reads and writes. */
export interface Program {
  readonly version: string;
  readonly formats: { readonly min: number; readonly max: number };
}

export interface Worker {
  readonly id: WorkerId;
  /** Name of the worker's node, for operators. */
  readonly node: string;
  readonly processId: string;
  /** Job types that the worker accepts. */
  readonly types: readonly JobType[];
  /** Labels of the worker. It accepts only jobs whose required labels are all among these. */
  readonly labels: Labels;
  /** Wall-clock time of registration. */
  readonly sinceMs: number;
  /** A worker that has not renewed within this time can be expelled. */
  readonly leaseMs: number;
  /** Absent if the worker runs an older version, which does not announce its program. */
  readonly program?: Program | undefined;
}

export interface WorkerLease {
  /**
   * Increases with each renewal. Other workers check only whether the count changes, and never
   * compare clocks.
   */
  readonly renewalCount: number;
  /** The worker's own wall-clock time, for operators. */
  readonly renewedAtMs: number;
}

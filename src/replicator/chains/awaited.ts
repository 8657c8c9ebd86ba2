/**
 * Decides whether a job has reached the state for which other jobs wait (`after`), and why jobs
 * wait. Pure.
 */
import { type Backlog, isUnread } from "../job-lists/backlog.ts";
import { isProvenCaughtUp } from "../job-lists/job-filter.ts";
import type { AwaitReason } from "../job-lists/job-views.ts";
import { cyclesOf } from "../jobs/cycles.ts";
import type { ReplicationJobData } from "../jobs/job-data.ts";

/**
 * Whether a job has completed or, if it runs repeatedly, has caught up: it is parked, or it has run
 * and its source has no pending changes.
 */
export function isReached(
  {
    state,
    failing,
    replication,
    lastStartMs,
  }: Pick<ReplicationJobData, "state" | "failing" | "replication" | "lastStartMs">,
  backlog: Backlog | undefined,
): boolean {
  if (state === "completed" || state === "parked") return true;
  const isLasting = replication?.continuous === true || replication?.schedule !== undefined;
  if (state === "failed" || !isLasting || lastStartMs === 0) return false;
  return isProvenCaughtUp(backlog) && !isUnread(backlog, failing);
}

/** A job for which another job waits. */
export interface Awaited {
  readonly name: string;
  /** `missing`: there is no such job, or its owner is another user. */
  readonly state: "missing" | "failed" | "waiting";
  /** Id of the job; undefined if it is missing. */
  readonly jobId: string | undefined;
}

/** Waiting jobs, by id, with the jobs for which they wait. */
export type WaitGraph = ReadonlyMap<string, readonly Awaited[]>;

/** Returns why each job of the graph waits. */
export function reasonsOf(graph: WaitGraph): ReadonlyMap<string, AwaitReason> {
  const next = (id: string) => (graph.get(id) ?? []).flatMap(({ jobId }) => jobId ?? []);
  const cycles = new Map<string, ReadonlySet<string>>();
  for (const cycle of cyclesOf(graph.keys(), next)) {
    const members = new Set(cycle);
    for (const id of cycle) cycles.set(id, members);
  }
  return new Map(
    [...graph].map(([id, awaited]) => [id, reasonOf(awaited, cycles.get(id) ?? new Set())]),
  );
}

/**
 * Returns why a job waits. If it is in a cycle, names only the jobs for which it waits directly,
 * because its owner might not be allowed to see the others.
 */
function reasonOf(awaited: readonly Awaited[], cycle: ReadonlySet<string>): AwaitReason {
  const named = (found: readonly Awaited[]): string => found.map(({ name }) => name).join(", ");
  const circular = awaited.filter(({ jobId }) => jobId !== undefined && cycle.has(jobId));
  if (circular.length > 0) {
    const reason = `The job waits for ${named(circular)}, which in turn waits for this job; remove \`after\` from one of them, or retry one of them`;
    return { error: "cycle", reason };
  }
  const missing = awaited.filter(({ state }) => state === "missing");
  if (missing.length > 0) {
    const reason = `The job waits for ${named(missing)}, but you have no job of this name; create it, or change \`after\``;
    return { error: "no_job", reason };
  }
  const failed = awaited.filter(({ state }) => state === "failed");
  if (failed.length > 0) {
    const reason = `The job waits for ${named(failed)}, which has failed; retry it, or change \`after\``;
    return { error: "failed_job", reason };
  }
  const reason = `The job starts once ${named(awaited)} ${awaited.length === 1 ? "has" : "have"} completed or caught up`;
  return { error: undefined, reason };
}

/** Jobs that fail, by error and host. */
import { get, RequestError } from "./request.ts";
import type { FailingGroup, Job, JobPage, Query } from "./types.ts";

/** More are not grouped in the browser. */
const GROUPED_JOBS_MAX = 1_000;

/** Until it says that it does not; a node does not learn that while it runs. */
let makesGroups = true;

export interface Failing {
  readonly total: number;
  readonly groups: readonly FailingGroup[];
  /** Whether the filter `host` is known, beside the groups. */
  readonly hasHosts: boolean;
}

/** From the node; from its list of failing jobs where it makes no groups. */
export async function readFailing(signal: AbortSignal): Promise<Failing> {
  if (!makesGroups) return failingByJobs(signal);
  try {
    const { total_rows: total, groups } = await get<{
      total_rows: number;
      groups: FailingGroup[];
    }>("_tandem/failing", signal);
    return { total, groups, hasHosts: true };
  } catch (error) {
    if (!isUnknownResource(error)) throw error;
    makesGroups = false;
    return failingByJobs(signal);
  }
}

async function failingByJobs(signal: AbortSignal): Promise<Failing> {
  const path = `_tandem/jobs?failing=true&limit=${GROUPED_JOBS_MAX}`;
  const { total_rows: total, jobs } = await get<JobPage>(path, signal);
  return { total: total ?? jobs.length, groups: groupsOf(jobs), hasHosts: false };
}

/** The filter that finds the jobs of a group. */
export function filterOf(group: FailingGroup, hasHosts: boolean): Query {
  const { class: error, host, side } = group;
  if (host === null) return { failing: "true", error };
  if (hasHosts) return { error, host };
  return side === null ? { failing: "true", error } : { failing: "true", error, [side]: host };
}

/** The largest first. */
export function groupsOf(jobs: readonly Job[]): FailingGroup[] {
  const groups = new Map<string, FailingGroup>();
  for (const { last_failure: failure, failing_since: since } of jobs) {
    if (failure === null) continue;
    const { class: failureClass, side, host, error, reason, next_try: nextTry } = failure;
    const key = JSON.stringify([failureClass, side, host]);
    const known = groups.get(key);
    groups.set(key, {
      class: failureClass,
      side,
      host,
      error: known?.error ?? error,
      reason: known?.reason ?? reason,
      count: (known?.count ?? 0) + 1,
      since: earlier(known?.since ?? null, since) ?? failure.time,
      next_try: earlier(known?.next_try ?? null, nextTry),
    });
  }
  return [...groups.values()].sort((left, right) => right.count - left.count);
}

/** ISO times of one form are in order as texts. */
function earlier(left: string | null, right: string | null): string | null {
  if (left === null || right === null) return left ?? right;
  return left < right ? left : right;
}

export function isUnknownResource(error: unknown): boolean {
  return error instanceof RequestError && [404, 405, 501].includes(error.status);
}

/** Jobs that fail, by error and host. */
import { groupsOf } from "./failing-groups.ts";
import { get, RequestError } from "./request.ts";
import type { FailingGroup, JobPage, Query } from "./types.ts";

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

export function isUnknownResource(error: unknown): boolean {
  return error instanceof RequestError && [404, 405, 501].includes(error.status);
}

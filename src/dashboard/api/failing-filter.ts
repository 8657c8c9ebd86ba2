/** The filter that selects a group of failing jobs (docs/api/jobs.md). */
import type { FailingGroup } from "../../contract/index.ts";
import type { Query } from "./types.ts";

/** Filter value for a failure without a side or host. */
export const NONE = "-";

/** Returns the filter that matches exactly the jobs of a group of failing jobs. */
export function filterOf({
  class: error,
  side,
  host,
}: Pick<FailingGroup, "class" | "side" | "host">): Query {
  return { error, side: side ?? NONE, host: host === null ? NONE : exactly(host) };
}

/** Appends a colon to a host without a port. Otherwise the filter would match any port. */
function exactly(host: string): string {
  return /:\d+$/.test(host) ? host : `${host}:`;
}

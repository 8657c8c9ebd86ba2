/** The filter that names a group of failing jobs: docs/api/jobs.md. Pure. */
import type { FailingGroup, Query } from "./types.ts";

/** What the filters have for a failure without a side, or without a host. */
export const NONE = "-";

/** Finds exactly the jobs of the group. */
export function filterOf({
  class: error,
  side,
  host,
}: Pick<FailingGroup, "class" | "side" | "host">): Query {
  return { error, side: side ?? NONE, host: host ?? NONE };
}

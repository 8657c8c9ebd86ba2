/** The filter that names a group of failing jobs: docs/api/jobs.md. Pure. */
import type { FailingGroup } from "../../contract/index.ts";
import type { Query } from "./types.ts";

/** What the filters have for a failure without a side, or without a host. */
export const NONE = "-";

/** Finds exactly the jobs of the group. */
export function filterOf({
  class: error,
  side,
  host,
}: Pick<FailingGroup, "class" | "side" | "host">): Query {
  return { error, side: side ?? NONE, host: host === null ? NONE : exactly(host) };
}

/** A host without a port would be the host on any port. */
function exactly(host: string): string {
  return /:\d+$/.test(host) ? host : `${host}:`;
}

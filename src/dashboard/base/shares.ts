/** Calculates how the shares of a group affect its slots. */
import type { GroupRow } from "../../contract/index.ts";

type Sharing = Pick<GroupRow, "name" | "shares" | "jobs">;

/**
 * Returns the fraction of the slots, from 0 to 1, that a group gets if every group with jobs has
 * more jobs than there are slots; 0 for a group without jobs.
 */
export function partOfSlots(name: string, groups: readonly Sharing[]): number {
  const active = groups.filter(({ jobs }) => jobs.running + jobs.pending > 0);
  const shares = active.find((group) => group.name === name)?.shares ?? 0;
  const total = active.reduce((sum, group) => sum + group.shares, 0);
  return total === 0 ? 0 : shares / total;
}

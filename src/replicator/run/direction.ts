/**
 * One direction of a job's run, and the tasks that watch for changes that the changes feed does not
 * show: changes of the filter function and of the security object.
 */
import type { Clock } from "../../base/index.ts";
import type { Endpoint } from "../endpoints/endpoint.ts";
import type { FailurePlaces } from "../failures/failure-places.ts";
import type { Replication } from "../request/replication.ts";
import { type ReplicationId, userFilter } from "../request/replication-id.ts";
import { type ReplicationRun, StopRequest } from "./replication-run.ts";

/**
 * The only direction of a one-way job, or one of the two directions of a pair (`request/pair.ts`).
 */
export interface Direction {
  readonly replication: Replication;
  readonly isReverse: boolean;
  readonly ids: ReplicationId;
  /** Record of where calls to this direction's endpoints failed. */
  readonly places: FailurePlaces;
}

export type OpenSide = (side: "source" | "target") => Endpoint;

/**
 * Ends the run when its filter function changes. The next run then has a different replication id,
 * and starts from the beginning. `readId` computes the id from the current function.
 */
export async function watchFilter(
  clock: Clock,
  { replication, ids }: Direction,
  readId: (signal: AbortSignal) => Promise<ReplicationId>,
  ended: AbortSignal,
): Promise<void> {
  if (userFilter(replication.selection) === undefined) return;
  while (!ended.aborted) {
    await clock.sleep(replication.options.checkpointIntervalMs, ended).catch(() => {});
    if (ended.aborted) return;
    const current = await readId(ended).catch((error: unknown) => {
      if (ended.aborted) return undefined;
      throw error;
    });
    if (current !== undefined && current.id !== ids.id) throw new StopRequest();
  }
}

/**
 * Copies the security object again whenever it changes, because the object is not part of the
 * changes feed.
 */
export async function followSecurity(
  clock: Clock,
  run: ReplicationRun,
  { copiesSecurity, options }: Replication,
  open: OpenSide,
  ended: AbortSignal,
): Promise<void> {
  if (copiesSecurity !== true) return;
  const sides = { source: open("source"), target: open("target") };
  while (!ended.aborted) {
    await clock.sleep(options.checkpointIntervalMs, ended).catch(() => {});
    if (ended.aborted || !run.hasBegun) continue;
    await run.copySecurity(ended, sides).catch((error: unknown) => {
      if (!ended.aborted) throw error;
    });
  }
}

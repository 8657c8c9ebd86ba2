/**
 * Where a job was parked, and whether a run may go on there: only between the databases that it was, which their checkpoints tell.
 * A database that was made again has none, and one that was put back to an earlier state has an earlier one (decision 250).
 */
import { allTogether, OperationalError } from "../../base/index.ts";
import { EndpointError, type SourceSequence, type StartTimes } from "../endpoints/endpoint.ts";
import type { ReplicationStatistics } from "../jobs/replication-statistics.ts";
import { Checkpoints } from "./checkpoints.ts";
import { askSide, isMissing, type OpenSidesParts } from "./open-sides.ts";
import type { OwnCheckpoint } from "./own-checkpoint.ts";
import { isSurelySame, readLog } from "./stored-log.ts";

/** Where a run parked: its last checkpoint with its figures, and the databases that it was between. */
export interface ParkedPlace {
  readonly sequence: SourceSequence;
  readonly statistics: ReplicationStatistics;
  readonly startTimes: StartTimes;
}

/** A run that went on where the one before had parked has found that it may not. */
export class ParkedPlaceLostError extends OperationalError {
  override readonly name = "ParkedPlaceLostError";

  constructor() {
    super("REPLICATOR_PARKED_PLACE_LOST", "The databases have other checkpoints than were left");
  }
}

/** Whether what a run was refused may be due to databases that are others by now. */
export function isPlaceLost(error: unknown): boolean {
  if (error instanceof ParkedPlaceLostError || isMissing(error)) return true;
  const status = error instanceof EndpointError ? error.answer?.status : undefined;
  return status !== undefined && status >= 400 && status < 500;
}

type AskedParts = Pick<OpenSidesParts, "source" | "target" | "ownCheckpoint"> & {
  readonly ids: Pick<OpenSidesParts["ids"], "baseId">;
};

/**
 * The checkpoints that the run before left; undefined: a side has another one, or none, so it is not the database that it was.
 * `ownCopy`: what we remember ourselves, of a source that may not be written.
 */
export async function findParked(
  { source, target, ids, ownCheckpoint }: AskedParts,
  { sequence, startTimes }: ParkedPlace,
  ownCopy: OwnCheckpoint | undefined,
  signal: AbortSignal,
): Promise<Checkpoints | undefined> {
  const found = await allTogether(signal, [
    (taskSignal) => readLog(source, ids.baseId, taskSignal),
    (taskSignal) => readLog(target, ids.baseId, taskSignal),
  ]).catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
  if (found === undefined) return undefined;
  const [atSource, atTarget] = found;
  const sides = {
    source: { endpoint: source, info: { instanceStartTime: startTimes.source }, log: atSource },
    target: { endpoint: target, info: { instanceStartTime: startTimes.target }, log: atTarget },
  };
  const checkpoints = Checkpoints.of(ids.baseId, sides, ownCopy, ownCheckpoint);
  return checkpoints.isAt(sequence) ? checkpoints : undefined;
}

/**
 * What both sides remember, of a run that went on at the beginning, where no checkpoint is: the run before had nothing to write.
 * Undefined: one of them is not the database that it was, or cannot tell.
 */
export async function findAtBeginning(
  { source, target, ids, ownCheckpoint }: AskedParts,
  { startTimes }: ParkedPlace,
  signal: AbortSignal,
): Promise<Checkpoints | undefined> {
  const [atSource, atTarget] = await allTogether(signal, [
    (taskSignal) => askSide(source, ids.baseId, taskSignal),
    (taskSignal) => askSide(target, ids.baseId, taskSignal),
  ]);
  const isSame =
    isSurelySame(startTimes.source, atSource.info.instanceStartTime) &&
    isSurelySame(startTimes.target, atTarget.info.instanceStartTime);
  const sides = { source: atSource, target: atTarget };
  return isSame ? Checkpoints.of(ids.baseId, sides, undefined, ownCheckpoint) : undefined;
}

/**
 * Position of a parked job. A run is allowed to resume at this position only if both databases are
 * unchanged. Their checkpoints show whether they are: a re-created database has no checkpoint, and
 * a restored database has an earlier one.
 */
import { allTogether, OperationalError } from "../../base/index.ts";
import { EndpointError, type SourceSequence, type StartTimes } from "../endpoints/endpoint.ts";
import type { ReplicationStatistics } from "../jobs/replication-statistics.ts";
import { Checkpoints } from "./checkpoints.ts";
import { askSide, askSource, isMissing, type OpenSidesParts } from "./open-sides.ts";
import { isSurelySame, noneIfReadOnly, readLog } from "./stored-log.ts";

/** The last checkpoint with its statistics, and the creation times of both databases. */
export interface ParkedPlace {
  readonly sequence: SourceSequence;
  readonly statistics: ReplicationStatistics;
  readonly startTimes: StartTimes;
}

/** Thrown if a run that resumes a parked job finds that the databases have changed. */
export class ParkedPlaceLostError extends OperationalError {
  override readonly name = "ParkedPlaceLostError";

  constructor() {
    super(
      "REPLICATOR_PARKED_PLACE_LOST",
      "The databases no longer have the checkpoints of the parked job",
    );
  }
}

/** Whether a failure might be due to a database that was re-created or restored. */
export function isPlaceLost(error: unknown): boolean {
  if (error instanceof ParkedPlaceLostError || isMissing(error)) return true;
  const status = error instanceof EndpointError ? error.answer?.status : undefined;
  return status !== undefined && status >= 400 && status < 500;
}

type AskedParts = Pick<OpenSidesParts, "source" | "target" | "ownCheckpoint"> & {
  readonly ids: Pick<OpenSidesParts["ids"], "baseId">;
};

/**
 * Returns the parked job's checkpoints. Returns undefined if a side has no checkpoint, or a
 * different one from when the job was parked, because the database must have changed.
 */
export async function findParked(
  { source, target, ids, ownCheckpoint }: AskedParts,
  { sequence, startTimes }: ParkedPlace,
  signal: AbortSignal,
): Promise<Checkpoints | undefined> {
  const found = await allTogether(signal, [
    (taskSignal) => readLog(source, ids.baseId, taskSignal).catch(noneIfReadOnly),
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
  const checkpoints = await Checkpoints.of(ids.baseId, sides, ownCheckpoint);
  return checkpoints.isAt(sequence) ? checkpoints : undefined;
}

/**
 * Returns the state from which a job continues that was parked without a checkpoint; undefined if a
 * database might have changed.
 */
export async function findAtBeginning(
  { source, target, ids, ownCheckpoint }: AskedParts,
  { startTimes }: ParkedPlace,
  signal: AbortSignal,
): Promise<Checkpoints | undefined> {
  const [atSource, atTarget] = await allTogether(signal, [
    (taskSignal) => askSource(source, ids.baseId, taskSignal),
    (taskSignal) => askSide(target, ids.baseId, taskSignal),
  ]);
  const isSame =
    isSurelySame(startTimes.source, atSource.info.instanceStartTime) &&
    isSurelySame(startTimes.target, atTarget.info.instanceStartTime);
  const sides = { source: atSource, target: atTarget };
  return isSame ? Checkpoints.of(ids.baseId, sides, ownCheckpoint) : undefined;
}

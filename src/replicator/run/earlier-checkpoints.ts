/**
 * What a log remembers of the checkpoints of its session before the last one. One side of a replication may be put back to one of them:
 * the next run begins at the latest that both logs know.
 *
 * A session may have a million checkpoints. The older they are, the fewer are kept: the one with number `n`, which 2^z divides, until
 * 2 × 2^z others have followed. What a log has of a time, the logs of that time had, too. So two logs that are `k` checkpoints apart have a
 * common one less than 2k before the older one, unless the session began there.
 */
import type { SourceSequence } from "../endpoints/endpoint.ts";

/** As on the wire. */
export interface EarlierCheckpoint {
  /** Which one of the session it was, from 1. */
  readonly number: number;
  readonly seq: SourceSequence;
}

/** As many as a session has after a million checkpoints, which is a year with one in thirty seconds. */
const CHECKPOINTS_MAX = 20;
/** The sequences of a cluster with many shards are long: there one checkpoint is remembered. */
const SEQUENCE_LENGTH_MAX = 1000;

/** What the log after one with `earlier` checkpoints remembers, which itself ended at `last`; the latest first. */
export function earlierCheckpoints(
  last: SourceSequence,
  earlier: readonly EarlierCheckpoint[],
): readonly EarlierCheckpoint[] {
  const number = 1 + (earlier[0]?.number ?? 0);
  const kept = earlier.filter(
    (checkpoint) => number + 1 - checkpoint.number < 2 * powerOfTwoIn(checkpoint.number),
  );
  return bounded([{ number, seq: last }, ...kept]);
}

/** What the member of a log says, whoever wrote it. */
export function parseEarlierCheckpoints(
  json: unknown,
  isSequence: (value: unknown) => boolean,
): readonly EarlierCheckpoint[] {
  if (!Array.isArray(json)) return [];
  const checkpoints = json.slice(0, CHECKPOINTS_MAX).flatMap((item: unknown) => {
    const { number, seq } = (item ?? {}) as Partial<Record<keyof EarlierCheckpoint, unknown>>;
    const isCheckpoint = Number.isSafeInteger(number) && (number as number) > 0 && isSequence(seq);
    return isCheckpoint ? [{ number: number as number, seq: seq as SourceSequence }] : [];
  });
  return bounded(checkpoints);
}

function bounded(checkpoints: readonly EarlierCheckpoint[]): readonly EarlierCheckpoint[] {
  const areShort = checkpoints.every(
    ({ seq }) => JSON.stringify(seq).length <= SEQUENCE_LENGTH_MAX,
  );
  return checkpoints.slice(0, areShort ? CHECKPOINTS_MAX : 1);
}

/** The largest power of two that divides a number. */
function powerOfTwoIn(number: number): number {
  let power = 1;
  while (number % (2 * power) === 0) power *= 2;
  return power;
}

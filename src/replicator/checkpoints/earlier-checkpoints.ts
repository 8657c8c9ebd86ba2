/**
 * Earlier checkpoints of a log's session. If one side is restored to an earlier state, the next run
 * starts at the latest checkpoint that both logs contain.
 *
 * A session can have a million checkpoints, so older ones are thinned out: checkpoint `n` is kept
 * until 2 × 2^z more have followed, where 2^z is the largest power of two that divides `n`. Which
 * checkpoints are kept depends only on their numbers. If two logs are `k` checkpoints apart, the
 * latest checkpoint that both contain is therefore less than 2k before the end of the older log,
 * unless only the start of the session is in both.
 */
import type { SourceSequence } from "../endpoints/endpoint.ts";

export interface EarlierCheckpoint {
  /** Number of the checkpoint within the session, starting at 1. */
  readonly number: number;
  readonly seq: SourceSequence;
}

/**
 * Maximum number of earlier checkpoints. Because they are thinned out, a session reaches this
 * number only after a million checkpoints: about a year at one checkpoint per thirty seconds.
 */
const CHECKPOINTS_MAX = 20;
/**
 * Maximum length of the sequence of an earlier checkpoint. If a sequence is longer, as in a cluster
 * with many shards, only the latest checkpoint is kept.
 */
const SEQUENCE_LENGTH_MAX = 1000;

/**
 * Returns the earlier checkpoints to store in the next log, latest first. The current log ends at
 * `last` and contains the checkpoints `earlier`.
 */
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

/** Parses the earlier checkpoints in a log from an untrusted source. */
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

/** Returns the largest power of two that divides the number. */
function powerOfTwoIn(number: number): number {
  let power = 1;
  while (number % (2 * power) === 0) power *= 2;
  return power;
}

/**
 * The order of groups (fair share: RFC 017, after Kay and Lauder, CACM 1988).
 *
 * A group's usage is the run time of its jobs, decayed: time used `intervalSec` ago counts
 * `usageCoefficient` times as much as time used now. The group's standing is its usage divided by
 * its shares; the group with the lowest standing runs next. All standings decay at one rate, so
 * their order changes only when a group is charged. The stored score is therefore the logarithm of
 * the standing as it would have been at the epoch,
 *
 *   score = ln(usage / shares) + time × decay rate,
 *
 * which does not change between charges, and orders groups at any moment as their standings do.
 */
import { assert } from "../base/index.ts";

/** Decay of usage, and the charge for an acceptance. The same for all groups of a type. */
export interface FairShare {
  /**
   * RFC 017's K1: the fraction of usage that remains after `intervalSec`. Greater than 0 and at
   * most 1 (no decay).
   */
  readonly usageCoefficient: number;
  /** Interval of the coefficient; RFC 017's t1. */
  readonly intervalSec: number;
  /**
   * Run time charged in advance at acceptance. Otherwise one group could take all free slots
   * between two charges.
   */
  readonly instalmentSec: number;
}

/**
 * Default fair share. Usage must decay slowly compared with the length of a run; otherwise run time
 * would not be proportional to the shares.
 */
export const FAIR_SHARE_DEFAULT: FairShare = {
  usageCoefficient: 0.5,
  intervalSec: 600,
  instalmentSec: 15,
};

export const SHARES_DEFAULT = 100;
export const SHARES_MIN = 1;
export const SHARES_MAX = 1000;

/**
 * Usage of a group. Scores are comparable only if they decay at the same rate, so each change of a
 * type's fair share begins a new generation. A group moves to the new generation when it is next
 * charged; until then, it precedes all groups of that generation.
 */
export interface Standing {
  readonly shares: number;
  /** ln(usage / shares) + time × decay rate; undefined without usage. */
  readonly score: number | undefined;
  /** Generation of the fair share with which `score` was computed; 0 without usage. */
  readonly generation: number;
  readonly decayPerSec: number;
}

/** The standing of a group without usage. */
export const NO_USAGE: Standing = {
  shares: SHARES_DEFAULT,
  score: undefined,
  generation: 0,
  decayPerSec: 0,
};

/** A fair share with its generation: the number of changes since the type's first fair share. */
export interface FairShareGeneration extends FairShare {
  readonly generation: number;
}

/** Usage below this value counts as zero, because refunds rarely cancel exactly. */
export const USAGE_SEC_MIN = 0.001;

export function decayPerSec({ usageCoefficient, intervalSec }: FairShare): number {
  return -Math.log(usageCoefficient) / intervalSec;
}

export function checkFairShare({ usageCoefficient, intervalSec, instalmentSec }: FairShare): void {
  assert(usageCoefficient > 0 && usageCoefficient <= 1, "A usage coefficient must be in (0, 1]");
  assert(
    intervalSec > 0 && instalmentSec >= 0,
    "The interval must be positive, and the instalment must not be negative",
  );
}

/** Returns the decayed usage in seconds of run time. */
export function usageSec({ score, shares, decayPerSec: rate }: Standing, nowSec: number): number {
  return score === undefined ? 0 : shares * Math.exp(score - rate * nowSec);
}

/** Returns the standing after `runSec` of additional usage. `runSec` is negative for a refund. */
export function charged(
  standing: Standing,
  fairShare: FairShareGeneration,
  runSec: number,
  nowSec: number,
): Standing {
  const { shares } = standing;
  const rate = decayPerSec(fairShare);
  const usage = usageSec(standing, nowSec) + runSec;
  if (usage < USAGE_SEC_MIN) return { ...NO_USAGE, shares };
  return {
    shares,
    score: Math.log(usage / shares) + rate * nowSec,
    generation: fairShare.generation,
    decayPerSec: rate,
  };
}

/** Returns a standing with the same usage and different shares. */
export function withShares(standing: Standing, shares: number): Standing {
  assert(
    Number.isInteger(shares) && shares >= SHARES_MIN && shares <= SHARES_MAX,
    "A group must have 1 to 1000 shares",
  );
  const { score } = standing;
  if (score === undefined) return { ...standing, shares };
  return { ...standing, shares, score: score + Math.log(standing.shares / shares) };
}

export type Order = Pick<Standing, "generation" | "score">;

/** Compares two standings. Negative if `left` runs before `right`. */
export function compareStandings(left: Order, right: Order): number {
  if (left.generation !== right.generation) return left.generation - right.generation;
  const [first, second] = [left.score ?? -Infinity, right.score ?? -Infinity];
  return first === second ? 0 : first - second;
}

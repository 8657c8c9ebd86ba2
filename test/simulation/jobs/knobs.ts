/** Seeded settings of a simulated queue. The invariants hold for all of them. */
import type { FairShare, Labels } from "../../../src/jobs/index.ts";
import type { SeededRandom } from "../kernel/seeded-random.ts";

export interface JobsKnobs {
  readonly leaseMs: number;
  /** Activity timeout of the job type. A run writes at least once in five seconds. */
  readonly typeTimeoutSec: number;
  readonly fairShare: FairShare;
  readonly groups: readonly (string | undefined)[];
  readonly jobCount: number;
  /** Maximum number of jobs per acceptance. */
  readonly acceptCountMax: number;
  /**
   * Maximum time for which a worker waits for a notification of new jobs. The worker then checks
   * for jobs that have become due.
   */
  readonly idleMs: number;
  /** Maximum number of bytes per page. Default: pages have the requested size. */
  readonly pageBytesMax: number | undefined;
  /** Sets of labels that jobs require and workers have. */
  readonly labelSets: readonly Labels[];
  /** Fraction of workers that run an earlier version. */
  readonly olderRatio: number;
}

export function drawKnobs(random: SeededRandom): JobsKnobs {
  // With twelve groups, some groups become empty.
  const named = random.pick([[], ["a", "b", "c"], [..."abcdefghijkl"]]);
  const labelSets = random.pick([[[]], [[]], [[], ["x"], ["y"], ["x", "y"]]]);
  return {
    leaseMs: random.pick([2000, 5000, 10_000]),
    typeTimeoutSec: random.pick([12, 20, 40]),
    fairShare: {
      usageCoefficient: random.pick([0.1, 0.5, 0.9]),
      // With the short interval, usage decays within seconds, so that groups without jobs are
      // removed.
      intervalSec: random.pick([0.2, 0.2, 20]),
      instalmentSec: random.pick([1, 5, 15]),
    },
    groups: [undefined, ...named],
    jobCount: 5 + random.integer(25),
    acceptCountMax: random.pick([1, 4, 20]),
    idleMs: random.pick([200, 2000]),
    pageBytesMax: random.pick([undefined, undefined, 1, 200]),
    labelSets,
    // Earlier versions do not run on a store whose format has labels.
    olderRatio: labelSets.length > 1 ? 0 : random.pick([0, 0, 0.5]),
  };
}

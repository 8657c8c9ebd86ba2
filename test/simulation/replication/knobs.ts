/** Seeded settings of simulated nodes and their jobs. The invariants hold for all of them. */
import type { ReplicatorConfig } from "../../../src/replicator/index.ts";
import type { SeededRandom } from "../kernel/seeded-random.ts";

export interface ReplicationKnobs {
  readonly config: Partial<ReplicatorConfig>;
  readonly failuresMax: number | undefined;
  /** Maximum number of bytes per page. Default: pages have the requested size. */
  readonly pageBytesMax: number | undefined;
  /** Fraction of nodes that run an earlier version. */
  readonly olderRatio: number;
}

export function drawKnobs(random: SeededRandom): ReplicationKnobs {
  const knobs: ReplicationKnobs = {
    config: {
      intervalSec: random.pick([2, 5, 15]),
      runSecMin: random.pick([2, 5]),
      churnMax: random.pick([1, 10]),
      penaltySecMin: 1,
      penaltySecMax: random.pick([2, 4, 16]),
      healthThresholdSec: random.pick([5, 20]),
      workerLeaseSec: random.pick([2, 5, 10]),
      activityTimeoutSec: random.pick([10, 20, 61]),
      stallTimeoutSec: random.pick([15, 30, 60]),
      statisticsIntervalSec: random.pick([1, 5]),
      historyLengthMax: random.pick([4, 10, 100]),
      startupJitterMs: random.pick([0, 500]),
      copyLimits: {
        documentIdBytesMax: Number.POSITIVE_INFINITY,
        missingDocumentPauseMs: random.pick([100, 2000]),
      },
    },
    failuresMax: random.pick([undefined, undefined, 3]),
    pageBytesMax: random.pick([undefined, undefined, 1, 500]),
    olderRatio: random.pick([0, 0, 0.5]),
  };
  const parkAfterSec = random.pick([0, 1, 5]);
  return { ...knobs, config: { ...knobs.config, parkAfterSec } };
}

/** Returns members of a replication document for which any value is acceptable. */
export function jobOptions(random: SeededRandom): Record<string, unknown> {
  return {
    retries_per_request: 2,
    connection_timeout: random.pick([2000, 10_000]),
    checkpoint_interval: random.pick([200, 1000, 4000]),
    worker_batch_size: random.pick([1, 3, 20]),
    worker_processes: 1 + random.integer(4),
    http_connections: random.pick([1, 20]),
    failure_retry_sec: 3,
    failure_policy: random.pick(["skip", "skip", "skip", "hold", "crash"]),
    use_bulk_get: random.chance(0.8),
    weight: random.pick([10, 100, 1000]),
  };
}

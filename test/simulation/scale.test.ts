/**
 * Fair shares at scale. CI runs a small cluster. An extremely large cluster takes minutes:
 *
 *   SCALE=1000,1000000,10000 NODE_OPTIONS=--max-old-space-size=4096 \
 *     npx vitest run test/simulation/scale.test.ts
 *
 * The numbers are those of nodes, jobs and groups. docs/performance.md explains the output.
 */
import { expect, test } from "vitest";
import { RENEWALS_PER_LEASE } from "../../src/jobs/lease.ts";
import { REPLICATOR_CONFIG_DEFAULT } from "../../src/replicator/index.ts";
import { UPDATES_PER_TIMEOUT } from "../../src/replicator/run/held-replication.ts";
import { jainIndex, percentile } from "./figures.ts";
import { type GroupOutcome, ScaleCluster, type ScaleOutcome, type StoreLoad } from "./scale.ts";

const SLOTS_PER_NODE = 20;
const DURATION_SEC = Number(process.env.SCALE_SEC ?? 600);
const [nodeCount = 20, jobCount = 4000, groupCount = 60] = (process.env.SCALE ?? "20,4000,60")
  .split(",")
  .map(Number);

test(`${nodeCount} nodes share their slots fairly between ${groupCount} groups with ${jobCount} jobs`, async () => {
  const startedAtMs = performance.now();
  const cluster = new ScaleCluster("scale", {
    nodeCount,
    jobCount,
    groupCount,
    slotsPerNode: SLOTS_PER_NODE,
    durationSec: DURATION_SEC,
  });
  const outcome = await cluster.run();
  process.stdout.write(report(outcome, (performance.now() - startedAtMs) / 1000));
  const { groups } = outcome;
  // Each group has run.
  expect(groups.filter(({ ranSec }) => ranSec === 0)).toEqual([]);
  expect(jainIndex(perShare(saturated(groups)))).toBeGreaterThan(0.9);
}, 3_600_000);

/** Returns the groups that could have used more than their share of all slots. */
function saturated(groups: readonly GroupOutcome[]): readonly GroupOutcome[] {
  const shares = groups.reduce((sum, group) => sum + group.shares, 0);
  const slots = nodeCount * SLOTS_PER_NODE;
  return groups.filter((group) => group.jobCount > (2 * slots * group.shares) / shares);
}

function perShare(groups: readonly GroupOutcome[]): number[] {
  return groups.map(({ ranSec, shares }) => ranSec / shares);
}

/**
 * Describes the load on the store: the simulated scheduling, and estimates for the leases,
 * heartbeats and statistics of running nodes.
 */
function clusterLoad({ transactions, conflicts }: StoreLoad, durationSec: number): string[] {
  const { workerLeaseSec, activityTimeoutSec, statisticsIntervalSec } = REPLICATOR_CONFIG_DEFAULT;
  const runningCount = nodeCount * SLOTS_PER_NODE;
  const scheduling = (transactions + conflicts) / durationSec;
  const leases = (nodeCount * RENEWALS_PER_LEASE) / workerLeaseSec;
  const line = (what: string, intervalSec: number): string => {
    const life = runningCount / intervalSec;
    const [all, ...parts] = [scheduling + leases + life, scheduling, leases, life].map((count) =>
      Math.round(count).toLocaleString("en"),
    );
    return `${all} transactions/s while all jobs ${what} (scheduling ${parts[0]}, leases ${parts[1]}, heartbeats ${parts[2]})`;
  };
  return [
    line("are quiet", activityTimeoutSec / UPDATES_PER_TIMEOUT),
    line("copy", statisticsIntervalSec),
  ];
}

function report(outcome: ScaleOutcome, tookSec: number): string {
  const { groups, groupWaitsSec, jobWaitsSec, acceptedCount, load, durationSec } = outcome;
  const busy = saturated(groups);
  const waits = (values: readonly number[]): string =>
    `p50 ${percentile(values, 50).toFixed(1)} s, p99 ${percentile(values, 99).toFixed(1)} s, max ${percentile(values, 100).toFixed(1)} s`;
  const memoryMib = process.resourceUsage().maxRSS / 1024;
  const perSec = (count: number): string => Math.round(count / durationSec).toLocaleString("en");
  const perTurn = (count: number): string => (count / acceptedCount).toFixed(1);
  return [
    `${durationSec} s of virtual time took ${tookSec.toFixed(0)} s and ${memoryMib.toFixed(0)} MiB`,
    `Jain's index of run time per share, ${busy.length} saturated groups: ${jainIndex(perShare(busy)).toFixed(4)}`,
    `wait of a group for its first slot: ${waits(groupWaitsSec)}`,
    `wait of a job for its turn, ${jobWaitsSec.length} turns: ${waits(jobWaitsSec)}`,
    `conflicts per acceptance: ${(load.conflicts / acceptedCount).toFixed(4)}`,
    `store: ${perSec(load.transactions)} transactions/s, ${perSec(load.conflicts)} of them repeated, for ${perSec(acceptedCount)} acceptances/s`,
    `store operations: ${perSec(load.readCount)} keys read/s and ${perSec(load.writtenCount)} written/s (${perTurn(load.readCount)} and ${perTurn(load.writtenCount)} for each turn of a job)`,
    ...clusterLoad(load, durationSec).map((line) => `a FoundationDB cluster would carry: ${line}`),
    "",
  ].join("\n");
}

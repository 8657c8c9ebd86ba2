/**
 * Convergence, the checkpoint rule and exclusivity under faults. `SEEDS=1000-1999 npx vitest run
 * test/simulation/replication.test.ts` tests other seeds.
 */
import { expect, test, vi } from "vitest";
import { AttachmentStore } from "../../src/databases/index.ts";
import { createSystemRuntime } from "../../src/host/index.ts";
import { type JobData, Jobs } from "../../src/jobs/index.ts";
import {
  Budgets,
  FailureLists,
  JobCommands,
  JobControls,
  REPLICATION_JOB_TYPE,
  RemovedDatabases,
  ReplicationOwnership,
} from "../../src/replicator/index.ts";
import { decodeJob } from "../../src/replicator/jobs/job-data-record.ts";
import { HeldReplication } from "../../src/replicator/run/held-replication.ts";
import { JOBS_SUBSPACE } from "../support/compose-node.ts";
import { SilentJobs } from "./jobs/saboteurs.ts";
import { ForgetfulStorage, LosingStorage, TearingStorage } from "./kernel/sabotaged-storage.ts";
import { type ReplicationClusterOptions, runReplicationCluster } from "./replication/cluster.ts";
import {
  curtailing,
  distortingJobs,
  losing,
  misdirecting,
  rewriting,
  type Sabotage,
  swallowing,
  trusting,
  unfiltering,
} from "./replication/saboteurs.ts";
import type { WorkloadName } from "./replication/workloads/draw-workloads.ts";

const [firstSeed = 0, lastSeed = 29] = (process.env.SEEDS ?? "0-29").split("-").map(Number);

/** Events that have to occur in at least one of the seeds. */
const SEEN = [
  "replication.checkpoint",
  "jobs.worker-expelled",
  "replication.refused",
  "passed over",
  "network.faults",
  "replication.crashed",
  "replication.controlled",
  "replication.cancelled",
  "replication.database-removed",
  "replication.outage-over",
  "fault: crash",
  "fault: pause",
  "fault: partition from the store",
  "fault: partition from a server",
  "fault: outage",
  "fault: full store",
  "fault: slow store",
];

test("targets match their sources, no checkpoint passes an undelivered document, and only one node writes to a target at a time", async () => {
  const seen = new Set<string>();
  for (let seed = firstSeed; seed <= lastSeed; seed++) {
    const again = `Again with: SEEDS=${seed}-${seed} npx vitest run test/simulation/replication.test.ts`;
    const outcome = await runReplicationCluster(seed).catch((cause: unknown) => {
      throw new Error(again, { cause });
    });
    for (const name of outcome.counts.keys()) seen.add(name);
    expect(outcome.problems, again).toEqual([]);
  }
  if (lastSeed - firstSeed > 10) expect([...seen]).toEqual(expect.arrayContaining(SEEN));
}, 3_600_000);

test.each([0, 1, 2])("seed %i leads to the same run each time", async (seed) => {
  const first = await runReplicationCluster(seed);
  const second = await runReplicationCluster(seed);
  expect(second.fingerprint).toBe(first.fingerprint);
});

/**
 * Duration of the calm period in runs with sabotage. It is shorter than in other runs, because the
 * final state does not matter.
 */
const SABOTAGED_CALM_MS = 60_000;
/**
 * Maximum number of seeds to try. Few kinds of sabotage need more than ten seeds, but the rarest
 * problem has to be found even if a code change makes the seeds lead to different runs.
 */
const SABOTAGED_SEEDS = 200;

/** Runs seeds, beginning with `firstSeed`, until a problem matches. Returns the problems found. */
async function found(
  problem: RegExp,
  options: () => ReplicationClusterOptions,
  firstSeed = 0,
): Promise<string> {
  let problems = "";
  const endSeed = firstSeed + SABOTAGED_SEEDS;
  for (let seed = firstSeed; seed < endSeed && !problem.test(problems); seed++) {
    const calm = problem.source.includes("after all") ? {} : { calmMs: SABOTAGED_CALM_MS };
    const given = { ...calm, ...options() };
    const outcome = await runReplicationCluster(seed, given).catch((error: unknown) => ({
      problems: [String(error)],
    }));
    problems += `${outcome.problems.join("\n")}\n`;
  }
  return problems;
}

test.each<[string, () => Sabotage, RegExp, firstSeed?: number]>([
  ["loses one document in twenty", losing, / passes /],
  ["treats a store's refusal as success", swallowing, / passes | completed without /],
  ["writes another body under the same revision", rewriting, / has \[.*"number",0\]/],
  ["ends the feed early", curtailing, / was completed without /],
  ["returns documents that the filter excludes", unfiltering, / which no filter selected/, 5],
  [
    "writes documents of a hostile server into another database",
    misdirecting,
    / b has doc-\d+-stray /,
    12,
  ],
])("the simulation detects an endpoint that %s", async (_, sabotage, problem, firstSeed) => {
  const workloads: WorkloadName[] = ["one-shots", "hostility"];
  const options = () => ({ workloads, endpointsOver: sabotage() });
  expect(await found(problem, options, firstSeed)).toMatch(problem);
});

test("the simulation detects a client that treats a missing response as success", async () => {
  expect(await found(/ passes /, () => ({ fetchOver: trusting }))).toMatch(/ passes /);
});

const distorted = (distort: (data: JobData) => JobData) => ({ openJobs: distortingJobs(distort) });

test.each([
  ["counts errors that did not occur", { errorCount: 1000 }, / counts 1000 errors/],
  [
    "reports success for every end of a run",
    { state: "completed", failure: undefined },
    /crashed.*: is completed/,
  ],
  ["forgets why a job failed", { failure: undefined }, / without an error| with undefined/],
])("the simulation detects a queue that %s", async (_, change, problem) => {
  const options = () => distorted((data) => ({ ...data, ...change }));
  expect(await found(problem, options)).toMatch(problem);
});

test("the simulation detects a queue that takes running jobs away from nodes that had no fault", async () => {
  const openJobs = (...parts: ConstructorParameters<typeof SilentJobs>) => new SilentJobs(...parts);
  const problem = /though nothing happened to it/;
  expect(await found(problem, () => ({ openJobs }))).toMatch(problem);
});

test.each([
  [
    "forgets what transactions have read",
    ForgetfulStorage,
    /former holder|counts|a row| both run /,
  ],
  ["applies half a commit", TearingStorage, /a row|and became|counts|Assertion/],
  ["loses a commit", LosingStorage, /and became|though nothing| passes |former holder/],
])("the simulation detects a store that %s", async (_, Storage, problem) => {
  expect(await found(problem, () => ({ storage: new Storage() }))).toMatch(problem);
});

const claim = ReplicationOwnership.prototype.claim;

/** Claims a replication. Takes it from its owner if the owner is waiting. */
async function claimOfWaiting(
  this: ReplicationOwnership,
  ...[tx, replicationId, job]: Parameters<ReplicationOwnership["claim"]>
): ReturnType<ReplicationOwnership["claim"]> {
  const claimed = await claim.call(this, tx, replicationId, job);
  if (claimed.kind === "owner") return claimed;
  const jobs = new Jobs(createSystemRuntime({ event: () => {} }), JOBS_SUBSPACE);
  const other = { type: REPLICATION_JOB_TYPE, id: claimed.otherJobId };
  const owner = await jobs.get(tx, other);
  if (owner === undefined || owner.state === "running") return claimed;
  const { userName } = decodeJob(owner);
  await this.release(tx, replicationId, { jobId: owner.id, userName });
  return claim.call(this, tx, replicationId, job);
}

const setBudget = Budgets.prototype.set;

/** Sets a tiny budget instead of the requested one. */
function setTightBudget(this: Budgets, name: string): Promise<boolean> {
  return setBudget.call(this, name, { read: { requests: 0.01 }, write: {} });
}

/**
 * Each row has a disabled part of the program, the problem that this causes, and how the part is
 * disabled.
 */
const IDLE: [
  name: string,
  problem: RegExp,
  workloads: WorkloadName[],
  sabotage: () => { mockRestore(): void },
  firstSeed?: number,
][] = [
  [
    "a check of ownership that grants every claim",
    / both run /,
    [],
    () => vi.spyOn(ReplicationOwnership.prototype, "claim").mockResolvedValue({ kind: "owner" }),
  ],
  [
    "a check of ownership that skips waiting jobs",
    / lost its replication to another/,
    // In one seed of forty, a waiting job of this workload loses a replication that the job is
    // about to run.
    ["removals"],
    () => vi.spyOn(ReplicationOwnership.prototype, "claim").mockImplementation(claimOfWaiting),
    30,
  ],
  [
    "a checkpoint that does not check the lock",
    / without asking for its lock/,
    [],
    () => vi.spyOn(HeldReplication.prototype, "verifyNow").mockResolvedValue(),
  ],
  [
    "a release of ownership that does nothing",
    / owns a replication, and is gone/,
    ["removals"],
    () => vi.spyOn(ReplicationOwnership.prototype, "release").mockResolvedValue(),
  ],
  [
    "a removal that leaves decisions behind",
    /a decision about .*, which is gone/,
    ["operators"],
    () => vi.spyOn(JobControls.prototype, "remove").mockReturnValue(),
  ],
  [
    "a list of failures that stays empty",
    / passes refused-/,
    [],
    () => vi.spyOn(FailureLists.prototype, "change").mockResolvedValue(),
  ],
  [
    "a deletion of databases that keeps their jobs",
    /is there, and its database is not/,
    ["removals"],
    () => vi.spyOn(RemovedDatabases.prototype, "mark").mockReturnValue(),
  ],
  [
    "an operator's command without effect",
    /after all faults were healed/,
    ["operators"],
    () => vi.spyOn(JobCommands.prototype, "resume").mockResolvedValue("no-need"),
  ],
  [
    "a budget that is never refunded",
    /after all faults were healed/,
    ["spending"],
    () => vi.spyOn(Budgets.prototype, "set").mockImplementation(setTightBudget),
  ],
  [
    "a store of attachments that returns other bytes",
    / has other bytes as /,
    [],
    () => vi.spyOn(AttachmentStore.prototype, "read").mockImplementation(otherBytes),
  ],
];

async function* otherBytes(): ReturnType<AttachmentStore["read"]> {
  yield Buffer.from("other");
}

test.each(IDLE)("the simulation detects %s", async (_, problem, workloads, sabotage, firstSeed) => {
  const sabotaged = sabotage();
  try {
    expect(await found(problem, () => ({ workloads }), firstSeed)).toMatch(problem);
  } finally {
    sabotaged.mockRestore();
  }
});

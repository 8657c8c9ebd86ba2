/**
 * A change waits at most for the audit interval, even if a watcher died or a server does not
 * announce the change. Otherwise it waits only for seconds, unless the server sends false
 * responses. `SEEDS=1000-2999 npx vitest run test/simulation/watching.test.ts` tests other seeds.
 */
import { expect, test, vi } from "vitest";
import { ParkedJobs } from "../../src/replicator/index.ts";
import { ParkedJobsWaking } from "../../src/replicator/parking/parked-jobs-waking.ts";
import { SourceWatcher } from "../../src/replicator/parking/source-watcher.ts";
import { runWatchingCluster, type WatchingClusterOptions } from "./watching/cluster.ts";

const [firstSeed = 8, lastSeed = 9] = (process.env.SEEDS ?? "8-9").split("-").map(Number);

/** Events that have to occur in at least one of the seeds. */
const SEEN = [
  "replication.parked",
  "replication.woken",
  "replication.source-lost",
  "jobs.worker-expelled",
  "fault: crash",
  "fault: clock step",
  "repeated",
  "reordered",
  "ended early",
  "place forgotten",
  "broken",
  "late",
  "rows lost",
  "rows skipped",
  "old places",
];

test("a change that a watcher notices arrives within seconds, and every other change arrives within the audit interval", async () => {
  const seen = new Set<string>();
  for (let seed = firstSeed; seed <= lastSeed; seed++) {
    const again = `Again with: SEEDS=${seed}-${seed} npx vitest run test/simulation/watching.test.ts`;
    const outcome = await runWatchingCluster(seed).catch((cause: unknown) => {
      throw new Error(again, { cause });
    });
    for (const name of outcome.counts.keys()) seen.add(name);
    expect(outcome.problems, again).toEqual([]);
  }
  if (lastSeed - firstSeed > 10) expect([...seen]).toEqual(expect.arrayContaining(SEEN));
}, 3_600_000);

test("a seed leads to the same run each time", async () => {
  const first = await runWatchingCluster(3);
  const second = await runWatchingCluster(3);
  expect(second.fingerprint).toBe(first.fingerprint);
});

/**
 * Parts of the program, each with a way to disable it. At least one seed from `firstSeed` on must
 * detect that the part is disabled.
 */
const IDLE: [
  name: string,
  options: WatchingClusterOptions,
  sabotage: () => void,
  firstSeed: number,
][] = [
  [
    "a watcher that does not compare sequences when it starts",
    { lies: false },
    () => vi.spyOn(SourceWatcher.prototype, "compareFirst").mockResolvedValue(),
    1,
  ],
  [
    "a watcher that does not compare jobs that park",
    { lies: false },
    () => vi.spyOn(ParkedJobs.prototype, "takeNew").mockResolvedValue([]),
    70,
  ],
  [
    "a watcher that does not wake the databases named by the feed",
    { lies: false },
    () => vi.spyOn(ParkedJobsWaking.prototype, "wakeDatabases").mockResolvedValue(),
    0,
  ],
  ["a parked job that never polls", { lies: true, neverAudits: true }, () => {}, 2],
];

const SABOTAGED_SEEDS = 40;

test.each(IDLE)("the simulation detects %s", async (_, options, sabotage, firstSeed) => {
  sabotage();
  try {
    const problems: string[] = [];
    const endSeed = firstSeed + SABOTAGED_SEEDS;
    for (let seed = firstSeed; seed < endSeed && problems.length === 0; seed++) {
      problems.push(...(await runWatchingCluster(seed, options)).problems);
    }
    expect(problems.join("\n")).toMatch(/ waits for \d+ s, and is not in /);
  } finally {
    vi.restoreAllMocks();
  }
});

/**
 * The queue and its workers under faults. `SEEDS=1000-1999 npx vitest run test/simulation/jobs.test.ts` runs other seeds.
 */
import { expect, test } from "vitest";
import { MemoryStorage } from "../../src/kv/index.ts";
import { runJobsCluster } from "./jobs-cluster.ts";

const [firstSeed = 0, lastSeed = 199] = (process.env.SEEDS ?? "0-199").split("-").map(Number);

test("every job ends, no former holder writes, and all indexes and counters are right", async () => {
  let expelledCount = 0;
  for (let seed = firstSeed; seed <= lastSeed; seed++) {
    const again = `Again with: SEEDS=${seed}-${seed} npx vitest run test/simulation/jobs.test.ts`;
    const outcome = await runJobsCluster(seed).catch((cause: unknown) => {
      throw new Error(again, { cause });
    });
    expelledCount += outcome.expelledCount;
    expect(outcome.problems, again).toEqual([]);
  }
  if (lastSeed - firstSeed > 10) expect(expelledCount).toBeGreaterThan(0);
}, 3_600_000);

test("a seed gives the same run each time", async () => {
  const [first, second] = [await runJobsCluster(firstSeed), await runJobsCluster(firstSeed)];
  expect(second.fingerprint).toBe(first.fingerprint);
});

test("a store that forgets what transactions have read is found out", async () => {
  class ForgetfulStorage extends MemoryStorage {
    override commit(...[request, nowMs]: Parameters<MemoryStorage["commit"]>) {
      return super.commit({ ...request, reads: [] }, nowMs);
    }
  }
  const outcome = await runJobsCluster(1, { storage: new ForgetfulStorage(), workerCount: 8 });
  // Jobs that two accepted are twice in the activity order.
  expect(outcome.problems.join("\n")).toContain("a row too many");
}, 120_000);

/**
 * The queue and its workers under faults. `SEEDS=1000-1999 npx vitest run test/simulation/jobs.test.ts` runs other seeds.
 */
import { expect, test } from "vitest";
import type { Runtime } from "../../src/base/index.ts";
import { type HeldJob, type JobData, Jobs } from "../../src/jobs/index.ts";
import { JobKeys } from "../../src/jobs/job-keys.ts";
import { decodeFacts } from "../../src/jobs/job-record.ts";
import { MemoryStorage, type Subspace, type Transaction } from "../../src/kv/index.ts";
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

/** A queue that lets everybody write who ever held a job, as long as somebody does. */
class CarelessJobs extends Jobs {
  readonly #keys: JobKeys;

  constructor(runtime: Runtime, subspace: Subspace) {
    super(runtime, subspace);
    this.#keys = new JobKeys(subspace);
  }

  override async update(tx: Transaction, held: HeldJob, data?: JobData): Promise<void> {
    await super.update(tx, await this.#asItsHolder(tx, held), data);
  }

  override async finish(tx: Transaction, held: HeldJob, data?: JobData): Promise<void> {
    await super.finish(tx, await this.#asItsHolder(tx, held), data);
  }

  async #asItsHolder(tx: Transaction, held: HeldJob): Promise<HeldJob> {
    const value = await tx.get(this.#keys.job(held));
    const facts = value && decodeFacts(value);
    return facts?.state === "running" ? { ...held, lock: facts.lock } : held;
  }
}

test("a queue that does not ask for the lock is found out", async () => {
  const problems: string[] = [];
  const openJobs = (runtime: Runtime, subspace: Subspace) => new CarelessJobs(runtime, subspace);
  for (let seed = 0; seed < 40 && problems.length === 0; seed++) {
    problems.push(...(await runJobsCluster(seed, { openJobs })).problems);
  }
  expect(problems.join("\n")).toMatch(/(write|finish) of job-\d+ by a former holder/);
}, 120_000);

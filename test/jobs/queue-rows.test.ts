/**
 * After any operations on jobs and groups, every row of the queue has the correct key, and there
 * are no unused rows.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { errorCode } from "../../src/base/index.ts";
import { type HeldJob, Jobs } from "../../src/jobs/index.ts";
import { Subspace, type Transaction } from "../../src/kv/index.ts";
import { checkQueue } from "../simulation/jobs/check-queue.ts";
import { World } from "../simulation/kernel/world.ts";

const TYPE = "test";
const JOBS = Subspace.fromTuple(["jobs"]);

type Step =
  | {
      readonly what: "add";
      readonly id: string;
      readonly group?: string;
      readonly labels: string[];
      readonly inSec: number;
    }
  | { readonly what: "set labels"; readonly id: string; readonly labels: string[] }
  | { readonly what: "accept"; readonly countMax: number }
  | { readonly what: "update" | "finish" | "remove" | "resubmit"; readonly id: string }
  | { readonly what: "requeue held" | "requeue silent" }
  | { readonly what: "charge"; readonly group: string; readonly runSec: number }
  | { readonly what: "set shares"; readonly group: string; readonly shares: number }
  | { readonly what: "pass"; readonly durationSec: number };

type Operation = Exclude<Step, { readonly what: "pass" }>;

const kind = <What extends Step["what"]>(...whats: What[]) => fc.constantFrom(...whats);
const id = fc.constantFrom("a", "b", "c", "d");
const group = fc.constantFrom("g", "h");
const inSec = fc.constantFrom(-10, 0, 30);
/** The worker has the labels x and y. */
const labels = fc.constantFrom<string[]>([], [], ["x"], ["x", "y"], ["z"]);
const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ what: kind("add"), id, group, labels, inSec }) },
  fc.record({ what: kind("add"), id, labels, inSec }),
  fc.record({ what: kind("set labels"), id, labels }),
  fc.record({ what: kind("accept"), countMax: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ what: kind("update", "finish", "remove", "resubmit"), id }),
  fc.record({ what: kind("requeue held", "requeue silent") }),
  fc.record({ what: kind("charge"), group, runSec: fc.integer({ min: -15, max: 100 }) }),
  fc.record({ what: kind("set shares"), group, shares: fc.integer({ min: 1, max: 1000 }) }),
);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 10, arbitrary: operation },
  fc.record({ what: kind("pass"), durationSec: fc.integer({ min: 1, max: 60 }) }),
);

/** Opens a queue and a worker that holds the jobs accepted from the queue. */
async function openQueue() {
  const world = new World("rows");
  const { kv, runtime } = world.openNode();
  const jobs = new Jobs(runtime, JOBS);
  const held = new Map<string, HeldJob>();
  const nowSec = (): number => Math.floor(runtime.clock.nowMs() / 1000);
  const transact = <T>(body: (tx: Transaction) => Promise<T>): Promise<T> =>
    world.until(kv.transact(body));
  const { id: worker } = await transact(async (tx) => {
    await jobs.setTypeTimeout(tx, TYPE, 60);
    const description = { node: "n", processId: "1", types: [TYPE], leaseMs: 5_000 };
    return jobs.workers.register(tx, { ...description, labels: ["x", "y"] });
  });

  async function apply(tx: Transaction, done: Operation): Promise<void> {
    switch (done.what) {
      case "add": {
        const { group, labels, inSec } = done;
        const plan = { group, labels, scheduledAtSec: nowSec() + inSec };
        return jobs.add(tx, { type: TYPE, id: done.id }, { inSec }, plan);
      }
      case "set labels":
        await jobs.setLabels(tx, { type: TYPE, id: done.id }, done.labels);
        return;
      case "accept": {
        const options = { dueBySec: nowSec(), countMax: done.countMax, worker };
        const acceptance = await jobs.accept(tx, TYPE, options);
        if (acceptance.kind === "none-due") return acceptance.enqueued.cancel();
        const accepted = acceptance.held;
        tx.afterCommit(() => {
          for (const one of accepted) held.set(one.id, one);
        });
        return;
      }
      case "requeue held":
        await jobs.requeueHeldBy(tx, worker, 10);
        return;
      case "requeue silent": {
        const last = await jobs.lastActivity(tx, TYPE);
        if (last !== undefined) await jobs.requeueSilent(tx, TYPE, last, 10);
        return;
      }
      case "charge":
        return jobs.groups.charge(tx, TYPE, new Map([[done.group, done.runSec]]));
      case "set shares":
        return jobs.groups.setShares(tx, TYPE, done.group, done.shares);
      case "remove":
        await jobs.remove(tx, { type: TYPE, id: done.id });
        return;
      case "resubmit":
        await jobs.resubmit(tx, { type: TYPE, id: done.id }, nowSec() + 5);
        return;
      default: {
        const job = held.get(done.id);
        if (job !== undefined) await jobs[done.what](tx, job);
      }
    }
  }

  return {
    async do(done: Step): Promise<void> {
      if (done.what === "pass") await world.time.run(world.time.nowMs + done.durationSec * 1000);
      // If the worker has lost the job, `apply` throws and writes nothing.
      else await transact((tx) => apply(tx, done)).catch(unlessHalted);
    },
    /** Both transactions read before either commits. `second` commits first. */
    async doTogether(first: Operation, second: Operation): Promise<void> {
      let isFirstAttempt = true;
      const body = async (tx: Transaction): Promise<void> => {
        await apply(tx, first);
        if (!isFirstAttempt) return;
        isFirstAttempt = false;
        await kv.transact((other) => apply(other, second)).catch(unlessHalted);
      };
      await transact(body).catch(unlessHalted);
    },
    problems: () => kv.read((tx) => checkQueue(tx, jobs, JOBS, TYPE)),
  };
}

function unlessHalted(error: unknown): void {
  if (errorCode(error) !== "JOBS_HALTED") throw error;
}

test("no operation leaves an unused row behind or makes a job unreachable", async () => {
  const steps = fc.array(step, { minLength: 1, maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      const queue = await openQueue();
      for (const one of all) {
        await queue.do(one);
        expect(await queue.problems(), JSON.stringify(one)).toEqual([]);
      }
    }),
    { numRuns: 500 },
  );
});

test("nor do two operations in concurrent transactions", async () => {
  const steps = fc.array(fc.tuple(step, operation), { minLength: 1, maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      const queue = await openQueue();
      for (const [first, second] of all) {
        if (first.what === "pass") await queue.do(first);
        else await queue.doTogether(first, second);
        expect(await queue.problems(), JSON.stringify([first, second])).toEqual([]);
      }
    }),
    { numRuns: 500 },
  );
});

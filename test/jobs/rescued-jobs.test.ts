/**
 * A running job can receive data for its next run. The next run uses this data, however the current
 * run ends.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { createSystemRuntime } from "../../src/host/index.ts";
import { type HeldJob, Jobs, type WorkerId } from "../../src/jobs/index.ts";
import { KeyValueStore, MemoryEngine, Subspace, type Transaction } from "../../src/kv/index.ts";

const TYPE = "test";
const JOB = { type: TYPE, id: "job" };
const runtime = createSystemRuntime();

let kv: KeyValueStore;
let jobs: Jobs;
let worker: WorkerId;

beforeEach(async () => {
  kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  jobs = new Jobs(runtime, Subspace.fromTuple(["jobs"]));
  worker = await transact(async (tx) => {
    await jobs.setTypeTimeout(tx, TYPE, 60);
    await jobs.add(tx, JOB, { n: 1 });
    const types = [TYPE];
    return jobs.workers.register(tx, { node: "n", processId: "1", types, leaseMs: 1000 }).id;
  });
  return () => kv.close();
});

const transact = <T>(body: (tx: Transaction) => Promise<T>): Promise<T> => kv.transact(body);
const stored = () => kv.read((tx) => jobs.get(tx, JOB));

async function accept(): Promise<HeldJob> {
  const options = { dueBySec: 2 ** 36, countMax: 1, worker };
  const acceptance = await transact((tx) => jobs.accept(tx, TYPE, options));
  if (acceptance.kind === "none-due") throw new Error("No job is due");
  return acceptance.held[0] as HeldJob;
}

const ENDS: readonly (readonly [string, (held: HeldJob) => Promise<unknown>])[] = [
  ["by itself", (held) => transact((tx) => jobs.finish(tx, held))],
  [
    "because its worker was expelled",
    async () => {
      await transact((tx) => jobs.workers.expel(tx, worker));
      await transact((tx) => jobs.requeueHeldBy(tx, worker, 10));
      worker = await transact(async (tx) => {
        const types = [TYPE];
        return jobs.workers.register(tx, { node: "n", processId: "2", types, leaseMs: 1000 }).id;
      });
    },
  ],
  [
    "because it sent no heartbeats",
    async () => {
      const last = await kv.read((tx) => jobs.lastActivity(tx, TYPE));
      if (last === undefined) throw new Error("Nothing is running");
      await transact((tx) => jobs.requeueSilent(tx, TYPE, last, 10));
    },
  ],
];

describe.each(ENDS)("a run that ended %s", (_, end) => {
  test("the next run has the data, time and group that the job received during the run", async () => {
    const held = await accept();
    await transact((tx) => jobs.add(tx, JOB, { n: 2 }, { scheduledAtSec: 17, group: "g" }));
    await transact((tx) => jobs.update(tx, held, { n: 1, done: 5 }));
    await end(held);
    const next = { state: "pending", scheduledAtSec: 17, group: "g", data: { n: 2 } };
    expect(await stored()).toMatchObject(next);
    // Data that was set for the next run is used by that run only.
    const again = await accept();
    await transact(async (tx) => {
      await jobs.resubmit(tx, again, 20);
      await jobs.finish(tx, again, { n: 3 });
    });
    expect(await stored()).toMatchObject({ state: "pending", scheduledAtSec: 20, data: { n: 3 } });
  });

  test("the next run has the data of a resubmission", async () => {
    const held = await accept();
    await transact((tx) => jobs.resubmit(tx, held, 9, { n: 2 }));
    await end(held);
    expect(await stored()).toMatchObject({ state: "pending", scheduledAtSec: 9, data: { n: 2 } });
  });
});

test.each(ENDS.slice(1))(
  "a run that ended %s passes its last data on to the next run",
  async (_, end) => {
    const held = await accept();
    await transact((tx) => jobs.update(tx, held, { n: 1, done: 5 }));
    await end(held);
    expect(await stored()).toMatchObject({ state: "pending", data: { n: 1, done: 5 } });
  },
);

test.each(ENDS.filter(([how]) => how !== "by itself"))(
  "a run that ended %s is followed by the next run immediately, even if the clock has been set back",
  async (_, end) => {
    const nowSec = () => Math.floor(runtime.clock.nowMs() / 1000);
    const aheadSec = nowSec() + 3_600;
    await transact((tx) => jobs.add(tx, JOB, { n: 2 }, { scheduledAtSec: aheadSec }));
    await end(await accept());
    const { state, scheduledAtSec } = (await stored()) ?? {};
    expect(state).toBe("pending");
    expect(scheduledAtSec).toBeLessThanOrEqual(nowSec());
  },
);

/** Labels: the jobs that a worker may accept, their order, and the cost of an acceptance. */
import { beforeEach, expect, test } from "vitest";
import { type HeldJob, type Job, Jobs, type Labels, type WorkerId } from "../../src/jobs/index.ts";
import { queuesFor } from "../../src/jobs/labels.ts";
import { decodeWorker, encodeWorker } from "../../src/jobs/worker-record.ts";
import { requeueAll } from "../../src/jobs/worker-ring.ts";
import {
  KeyValueStore,
  MemoryEngine,
  MemoryStorage,
  Subspace,
  type Transaction,
} from "../../src/kv/index.ts";
import { checkQueue } from "../simulation/jobs/check-queue.ts";
import type { SimulatedNode } from "../simulation/kernel/simulated-node.ts";
import { World } from "../simulation/kernel/world.ts";
import { countingEngine } from "../support/kv/counting-engine.ts";

const TYPE = "test";
const JOBS = Subspace.fromTuple(["jobs"]);
const NO_LIMIT = 2 ** 36;

let world: World;
let node: SimulatedNode;
let kv: KeyValueStore;
let jobs: Jobs;

beforeEach(async () => {
  world = new World("placement");
  node = world.openNode();
  kv = node.kv;
  jobs = new Jobs(node.runtime, JOBS);
  await transact((tx) => jobs.setTypeTimeout(tx, TYPE, 60));
  return () => kv.close();
});

const transact = <T>(body: (tx: Transaction) => Promise<T>): Promise<T> =>
  world.until(kv.transact(body));
const named = (id: string) => ({ type: TYPE, id });
const register = async (labels: Labels): Promise<WorkerId> => {
  const facts = { node: "n", processId: "1", types: [TYPE], leaseMs: 5000, labels };
  return (await transact(async (tx) => jobs.workers.register(tx, facts))).id;
};
const add = (id: string, labels: Labels, group?: string, scheduledAtSec = 0) =>
  transact((tx) => jobs.add(tx, named(id), {}, { group, scheduledAtSec, labels }));
const setLabels = (id: string, labels: Labels) =>
  transact((tx) => jobs.setLabels(tx, named(id), labels));
const stored = (id: string) => kv.read((tx) => jobs.get(tx, named(id)));

async function acceptSome(worker: WorkerId | undefined, countMax: number) {
  const options = { dueBySec: NO_LIMIT, countMax, ...(worker === undefined ? {} : { worker }) };
  const acceptance = await transact((tx) => jobs.accept(tx, TYPE, options));
  if (acceptance.kind === "accepted") return acceptance;
  acceptance.enqueued.cancel();
  return { held: [] as readonly HeldJob[], jobs: [] as readonly Job[] };
}

/** Accepts due jobs one by one until none is left. Returns their ids in order of acceptance. */
async function order(worker: WorkerId | undefined): Promise<readonly string[]> {
  const ids: string[] = [];
  for (;;) {
    const [job] = (await acceptSome(worker, 1)).jobs;
    if (job === undefined) return ids;
    ids.push(job.id);
  }
}

async function expectSound(): Promise<void> {
  expect(await kv.read((tx) => checkQueue(tx, jobs, JOBS, TYPE))).toEqual([]);
}

test("a worker reads one queue for each subset of its labels that a job can require", () => {
  expect(queuesFor(TYPE, [])).toEqual([TYPE]);
  expect(queuesFor(TYPE, ["a", "b"])).toEqual([TYPE, [TYPE, "a"], [TYPE, "b"], [TYPE, "a", "b"]]);
  expect(queuesFor(TYPE, [..."abcdefgh"])).toHaveLength(93);
  expect(() => queuesFor(TYPE, [..."abcdefghi"])).toThrow("more labels than allowed");
});

test.each(["g", undefined])(
  "a worker accepts jobs whose labels it has (group %s)",
  async (group) => {
    await add("any", [], group);
    await add("x", ["x"], group);
    await add("xy", ["y", "x", "x"], group);
    await add("z", ["z"], group);
    const [none, y, xy] = [await register([]), await register(["y"]), await register(["x", "y"])];
    expect((await stored("xy"))?.labels).toEqual(["x", "y"]);
    expect(await order(undefined)).toEqual(["any"]);
    expect(await order(none)).toEqual([]);
    expect(await order(y)).toEqual([]);
    expect((await order(xy)).toSorted()).toEqual(["x", "xy"]);
    expect((await stored("z"))?.state).toBe("pending");
    await expectSound();
  },
);

test("within a group, the job that has waited longest is first, whatever its labels", async () => {
  const worker = await register(["x", "y"]);
  await add("5", ["x"], "g", 5);
  await add("2", [], "g", 2);
  await add("3", ["y"], "g", 3);
  await add("1", ["x", "y"], "g", 1);
  await add("4", [], "g", 4);
  expect((await acceptSome(worker, 3)).jobs.map(({ id }) => id)).toEqual(["1", "2", "3"]);
  await expectSound();
  expect(await order(worker)).toEqual(["4", "5"]);
  await expectSound();
});

test("jobs without a group are accepted by due time, whatever their labels", async () => {
  const worker = await register(["x"]);
  for (const id of ["4", "2"]) await add(id, ["x"], undefined, Number(id));
  for (const id of ["3", "1"]) await add(id, [], undefined, Number(id));
  expect(await order(worker)).toEqual(["1", "2", "3", "4"]);
});

test("the group with the lowest usage is first, whatever labels its jobs require", async () => {
  const worker = await register(["x"]);
  const charge = (group: string, runSec: number) =>
    transact((tx) => jobs.groups.charge(tx, TYPE, new Map([[group, runSec]])));
  await charge("busy", 1000);
  await charge("medium", 100);
  await add("busy-any", [], "busy");
  await add("medium-x", ["x"], "medium");
  await add("idle-x", ["x"], "idle");
  await add("busy-x", ["x"], "busy");
  expect((await acceptSome(worker, 1)).jobs[0]?.id).toBe("idle-x");
  // Charging a group reorders its rows in all queues.
  await charge("medium", 10_000);
  await expectSound();
  expect((await acceptSome(worker, 2)).jobs.map(({ group }) => group)).toEqual(["busy", "busy"]);
  expect(await order(worker)).toEqual(["medium-x"]);
  await expectSound();
});

test("preemption makes room only for jobs that the worker may run", async () => {
  await add("x", ["x"], "idle");
  const nowSec = Math.floor(node.runtime.clock.nowMs() / 1000);
  const givingWay = (labels: Labels) =>
    kv.read((tx) => jobs.groups.givingWay(tx, TYPE, ["busy"], nowSec, labels));
  const due = (labels: Labels) =>
    kv.read((tx) => jobs.due(tx, TYPE, { dueBySec: nowSec, limit: 10, labels }));
  expect([await givingWay([]), await givingWay(["y"])]).toEqual([[], []]);
  expect(await givingWay(["x", "y"])).toEqual(["busy"]);
  expect([await due([]), await due(["y"])]).toEqual([[], []]);
  expect(await due(["x", "y"])).toEqual([named("x")]);
});

test("an acceptor is notified of the due time of the first job that it may run", async () => {
  await add("z", ["z"], "g", 1);
  await add("x", ["x"], "g", 500);
  await add("any", [], "g", 700);
  const firstDueSec = async (worker: WorkerId) => {
    const accepted = await transact((tx) =>
      jobs.accept(tx, TYPE, { dueBySec: 2, countMax: 1, worker }),
    );
    if (accepted.kind === "none-due") accepted.enqueued.cancel();
    return accepted.kind === "none-due" ? accepted.firstDueSec : undefined;
  };
  expect(await firstDueSec(await register([]))).toBe(700);
  expect(await firstDueSec(await register(["x"]))).toBe(500);
});

test("the longest wait counts only jobs that some worker may run", async () => {
  await add("x", ["x"], "g", 10);
  await add("any", [], "g", 20);
  const longest = (...sets: readonly Labels[]) => jobs.groups.longestDueSec(kv, TYPE, sets);
  expect(await longest([])).toBe(20);
  expect(await longest([], ["x", "y"])).toBe(10);
});

test("the count of unplaced jobs contains the due jobs that no worker may run", async () => {
  for (const [index, labels] of [["x"], ["x", "y"], ["z"], ["z"], []].entries()) {
    await add(`due-${index}`, labels, "g", 10);
  }
  await add("later", ["z"], "g", 900);
  const count = (workers: readonly Labels[], rowsMax = 100) =>
    kv.read((tx) => jobs.unplacedCount(tx, TYPE, { dueBySec: 20, workers, rowsMax }));
  expect(await count([])).toBe(4);
  expect(await count([[], ["x"]])).toBe(3);
  expect(await count([["x"], ["y", "x"]])).toBe(2);
  expect(await count([["x", "y", "z"]])).toBe(0);
  expect(await count([], 3)).toBeLessThan(3);
});

test("a group's limit applies to all jobs of the group together, whatever their labels", async () => {
  const worker = await register(["x"]);
  await transact((tx) => jobs.setGroupLimit(tx, TYPE, "g", 1));
  await add("1", ["x"], "g", 1);
  await add("2", [], "g", 2);
  const { held } = await acceptSome(worker, 5);
  expect(held.map(({ id }) => id)).toEqual(["1"]);
  expect(await order(worker)).toEqual([]);
  const crowded = await kv.read((tx) =>
    jobs.groups.crowded(tx, TYPE, new Map([["g", 1]]), { dueBySec: 5, limit: 9, labels: ["x"] }),
  );
  expect([...crowded]).toEqual([["g", 1]]);
  await transact((tx) => jobs.finish(tx, held[0] as HeldJob));
  expect(await order(worker)).toEqual(["2"]);
  await expectSound();
});

test("the jobs of a lost worker wait for another worker that has their labels", async () => {
  const lost = await register(["x"]);
  await add("x", ["x"], "g");
  await acceptSome(lost, 1);
  const other = await register(["y"]);
  await transact((tx) => jobs.workers.expel(tx, lost));
  await world.until(requeueAll({ runtime: node.runtime, kv, jobs }, lost));
  expect(await order(other)).toEqual([]);
  expect(await stored("x")).toMatchObject({ state: "pending", labels: ["x"] });
  expect(await order(await register(["x"]))).toEqual(["x"]);
});

test("a waiting job moves to the queue of its new labels", async () => {
  const [x, y] = [await register(["x"]), await register(["y"])];
  await add("j", ["x"], "g", 7);
  expect(await setLabels("j", ["y"])).toBe(true);
  expect(await setLabels("j", ["y", "y"])).toBe(false);
  expect(await setLabels("missing", ["y"])).toBe(false);
  await expectSound();
  expect(await order(x)).toEqual([]);
  const { held } = await acceptSome(y, 1);
  expect(await stored("j")).toMatchObject({ scheduledAtSec: 7, labels: ["y"] });
  await transact((tx) => jobs.finish(tx, held[0] as HeldJob));
  expect(await setLabels("j", [])).toBe(true);
  expect(await stored("j")).toMatchObject({ state: "finished", labels: [] });
  await transact((tx) => jobs.resubmit(tx, named("j"), 0));
  expect(await order(x)).toEqual(["j"]);
  await expectSound();
});

test("the holder of a job is notified when the job's labels change, and may keep the job", async () => {
  const [x, y] = [await register(["x"]), await register(["y"])];
  await add("j", ["x"], "g");
  const [held] = (await acceptSome(x, 1)).held as [HeldJob];
  const watch = await transact((tx) => jobs.watchHeld(tx, held));
  await setLabels("j", ["y"]);
  await world.until(watch.fired());
  expect(await kv.read((tx) => jobs.labelsOf(tx, held))).toEqual(["y"]);
  await transact((tx) => jobs.update(tx, held));
  expect(await order(y)).toEqual([]);
  await transact(async (tx) => {
    await jobs.resubmit(tx, held, 0);
    await jobs.finish(tx, held);
  });
  expect(await order(x)).toEqual([]);
  expect(await order(y)).toEqual(["j"]);
  await expectSound();
});

test("an acceptance costs the same with thousands of other sets of labels", async () => {
  const cost = async (setCount: number) => {
    const { runtime } = node;
    const storage = new MemoryStorage();
    const { engine, counts } = countingEngine(new MemoryEngine({ runtime, storage }));
    const store = new KeyValueStore({ runtime, engine });
    const worker = await world.until(
      store.transact(async (tx) => {
        await jobs.setTypeTimeout(tx, TYPE, 60);
        for (let number = 0; number < 20; number++) {
          await jobs.add(tx, named(`mine-${number}`), {}, { group: "g", labels: ["x"] });
        }
        for (let number = 0; number < setCount; number++) {
          const labels = number % 2 === 0 ? ["x", `set-${number}`] : [`set-${number}`];
          await jobs.add(tx, named(`other-${number}`), {}, { group: "g", labels });
        }
        const facts = { node: "n", processId: "1", types: [TYPE], leaseMs: 5000 };
        return jobs.workers.register(tx, { ...facts, labels: ["x", "y", "z"] });
      }),
    );
    const accept = () =>
      world.until(
        store.transact((tx) =>
          jobs.accept(tx, TYPE, { dueBySec: 1, countMax: 1, worker: worker.id }),
        ),
      );
    for (let count = 0; count < 4; count++) await accept();
    // The maximum is measured, because an acceptance costs more if it first tries jobs without a
    // group.
    const most = { readCount: 0, writtenCount: 0 };
    for (let count = 0; count < 15; count++) {
      const { readCount, writtenCount } = counts;
      expect((await accept()).kind).toBe("accepted");
      most.readCount = Math.max(most.readCount, counts.readCount - readCount);
      most.writtenCount = Math.max(most.writtenCount, counts.writtenCount - writtenCount);
    }
    await store.close();
    return most;
  };
  const few = await cost(1);
  expect(await cost(3000)).toEqual(few);
  expect(few.readCount).toBeLessThan(50);
});

test("encoding and decoding a worker's record preserves the worker's labels and program, even if the worker has none", () => {
  const worker = { id: "w", node: "n", processId: "1", types: [TYPE], sinceMs: 1, leaseMs: 2 };
  const program = { version: "1.2.3", formats: { min: 2, max: 3 } };
  for (const one of [
    { ...worker, labels: ["a", "b"], program },
    { ...worker, labels: ["a"], program: undefined },
    { ...worker, labels: [], program },
    { ...worker, labels: [], program: undefined },
  ]) {
    expect(decodeWorker("w", encodeWorker(one))).toEqual(one);
  }
});

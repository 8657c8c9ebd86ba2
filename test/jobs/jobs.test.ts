/** The queue's operations, in the order of CouchDB's tests of `couch_jobs`. */
import { beforeEach, expect, test } from "vitest";
import { createSystemRuntime } from "../../src/host/index.ts";
import {
  type Acceptance,
  ActivityMonitor,
  type HeldJob,
  type IdsWanted,
  type Job,
  JobHaltedError,
  Jobs,
  UnknownJobTypeError,
} from "../../src/jobs/index.ts";
import { KeyValueStore, MemoryEngine, Subspace, type Transaction } from "../../src/kv/index.ts";

const TYPE = "test";
const J1 = { type: TYPE, id: "j1" };
const J2 = { type: TYPE, id: "j2" };
const runtime = createSystemRuntime();

let kv: KeyValueStore;
let jobs: Jobs;

beforeEach(async () => {
  kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  jobs = new Jobs(runtime, Subspace.fromTuple(["jobs"]));
  await kv.transact((tx) => jobs.setTypeTimeout(tx, TYPE, 1));
  return () => kv.close();
});

const transact = <T>(body: (tx: Transaction) => Promise<T>): Promise<T> => kv.transact(body);
const get = (name: { type: string; id: string }) => kv.read((tx) => jobs.get(tx, name));

async function accept(dueBySec = 2 ** 36, countMax = 1): Promise<Acceptance> {
  return transact((tx) => jobs.accept(tx, TYPE, { dueBySec, countMax }));
}

async function acceptOne(dueBySec?: number): Promise<{ held: HeldJob; job: Job }> {
  const acceptance = await accept(dueBySec);
  if (acceptance.kind === "none-due") throw new Error("No job is due");
  return { held: acceptance.held[0] as HeldJob, job: acceptance.jobs[0] as Job };
}

test("a pending job can be read and removed", async () => {
  await transact((tx) => jobs.add(tx, J1, { x: 42 }));
  expect(await get(J1)).toMatchObject({ state: "pending", data: { x: 42 } });
  expect(await transact((tx) => jobs.remove(tx, J1))).toBe(true);
  expect(await get(J1)).toBeUndefined();
  expect(await transact((tx) => jobs.remove(tx, J1))).toBe(false);
  expect((await accept()).kind).toBe("none-due");
});

test("a job of a type without a timeout is refused", async () => {
  const adding = transact((tx) => jobs.add(tx, { type: "other", id: "x" }, {}));
  await expect(adding).rejects.toThrow(UnknownJobTypeError);
  await transact((tx) => jobs.clearTypeTimeout(tx, TYPE));
  await expect(transact((tx) => jobs.add(tx, J1, {}))).rejects.toThrow(UnknownJobTypeError);
});

test("adding an identical job again writes nothing", async () => {
  await transact((tx) => jobs.add(tx, J1, { a: 1 }, { scheduledAtSec: 5 }));
  let versionstamp: unknown = "unset";
  await transact(async (tx) => {
    await jobs.add(tx, J1, { a: 1 }, { scheduledAtSec: 5 });
    tx.afterCommit((commit) => {
      versionstamp = commit.versionstamp;
    });
  });
  expect(versionstamp).toBeUndefined();
});

test("new data of a pending job is stored whether or not the due time also changes", async () => {
  await transact((tx) => jobs.add(tx, J1, { n: 1 }));
  await transact((tx) => jobs.add(tx, J1, { n: 2 }));
  expect(await get(J1)).toMatchObject({ scheduledAtSec: 0, data: { n: 2 } });
  await transact((tx) => jobs.add(tx, J1, { n: 3 }, { scheduledAtSec: 6 }));
  expect(await get(J1)).toMatchObject({ scheduledAtSec: 6, data: { n: 3 } });
  const { job } = await acceptOne();
  expect(job.data).toEqual({ n: 3 });
  expect((await accept()).kind).toBe("none-due");
});

test("a running job that is added again runs a second time with the new data", async () => {
  await transact((tx) => jobs.add(tx, J1, { n: 1 }));
  const { held } = await acceptOne();
  await transact((tx) => jobs.add(tx, J1, { n: 2 }, { scheduledAtSec: 17 }));
  expect(await get(J1)).toMatchObject({ state: "running", scheduledAtSec: 17, data: { n: 1 } });
  expect(await kv.read((tx) => jobs.isResubmitted(tx, held))).toBe(true);
  await transact((tx) => jobs.finish(tx, held, { done: true }));
  expect(await get(J1)).toMatchObject({ state: "pending", scheduledAtSec: 17, data: { n: 2 } });
});

test("a worker can accept, update and finish a job", async () => {
  await transact((tx) => jobs.add(tx, J1, { n: 1 }));
  const { held } = await acceptOne();
  expect((await get(J1))?.state).toBe("running");
  await transact((tx) => jobs.update(tx, held, { n: 2 }));
  await transact((tx) => jobs.update(tx, held));
  expect((await get(J1))?.data).toEqual({ n: 2 });
  await transact((tx) => jobs.finish(tx, held, { n: 3 }));
  expect(await get(J1)).toMatchObject({ state: "finished", data: { n: 3 } });
  await transact((tx) => jobs.add(tx, J1, { n: 4 }));
  expect((await acceptOne()).job.data).toEqual({ n: 4 });
});

test("resubmitting and finishing a job in one transaction makes the job run again later", async () => {
  await transact((tx) => jobs.add(tx, J1, { n: 1 }, { scheduledAtSec: 7 }));
  const { held } = await acceptOne();
  await transact(async (tx) => {
    await jobs.resubmit(tx, held, 9);
    await jobs.finish(tx, held, { n: 2 });
  });
  expect(await get(J1)).toMatchObject({ state: "pending", scheduledAtSec: 9, data: { n: 2 } });
});

test("an acceptor accepts only jobs that are due", async () => {
  await transact((tx) => jobs.add(tx, J1, {}, { scheduledAtSec: 5000 }));
  await transact((tx) => jobs.add(tx, J2, {}, { scheduledAtSec: 3000 }));
  expect((await accept(1000)).kind).toBe("none-due");
  expect((await acceptOne(3000)).job.id).toBe("j2");
  expect((await acceptOne(9000)).job.id).toBe("j1");
});

test("a waiting acceptor is notified when the next job is added", async () => {
  const acceptance = await accept();
  if (acceptance.kind !== "none-due") throw new Error("A job was due");
  const woken = acceptance.enqueued.fired();
  await transact((tx) => jobs.add(tx, J1, {}));
  await woken;
  expect((await acceptOne()).job.id).toBe("j1");
});

test("concurrent acceptors share the jobs and accept each job once", async () => {
  for (let number = 0; number < 60; number++) {
    await transact((tx) => jobs.add(tx, { type: TYPE, id: `job-${number}` }, {}));
  }
  const acceptors = Array.from({ length: 6 }, async () => {
    const ids: string[] = [];
    for (;;) {
      const acceptance = await accept(0, 3);
      if (acceptance.kind === "none-due") return ids;
      ids.push(...acceptance.jobs.map(({ id }) => id));
    }
  });
  const accepted = (await Promise.all(acceptors)).flat();
  expect(accepted.length).toBe(60);
  expect(new Set(accepted).size).toBe(60);
});

test.each([
  ["verify", (tx: Transaction, held: HeldJob) => jobs.verify(tx, held)],
  ["update", (tx: Transaction, held: HeldJob) => jobs.update(tx, held, { by: "old" })],
  ["finish", (tx: Transaction, held: HeldJob) => jobs.finish(tx, held, { by: "old" })],
] as const)("only the worker that most recently accepted a job may call %s", async (_, call) => {
  await transact((tx) => jobs.add(tx, J1, { n: 1 }));
  const { held: lost } = await acceptOne();
  const last = await kv.read((tx) => jobs.lastActivity(tx, TYPE));
  if (last === undefined) throw new Error("A running job has an activity");
  await transact((tx) => jobs.requeueSilent(tx, TYPE, last, 10));
  const { held } = await acceptOne();
  await transact((tx) => jobs.update(tx, held, { by: "new" }));
  const before = await get(J1);
  await expect(transact((tx) => call(tx, lost))).rejects.toThrow(JobHaltedError);
  expect(await get(J1)).toEqual(before);
  await transact((tx) => call(tx, held));
});

test("removing a job stops the worker's run of the job", async () => {
  await transact((tx) => jobs.add(tx, J1, {}));
  const { held } = await acceptOne();
  await transact((tx) => jobs.remove(tx, J1));
  await expect(transact((tx) => jobs.update(tx, held))).rejects.toThrow(JobHaltedError);
  await expect(transact((tx) => jobs.finish(tx, held))).rejects.toThrow(JobHaltedError);
});

test("a transaction of a worker that has lost its job fails and writes nothing", async () => {
  await transact((tx) => jobs.add(tx, J1, {}));
  const { held } = await acceptOne();
  await transact((tx) => jobs.remove(tx, J1));
  const key = Subspace.fromTuple(["elsewhere"]).pack([1]);
  const writing = transact(async (tx) => {
    tx.set(key, new Uint8Array([1]));
    await jobs.verify(tx, held);
  });
  await expect(writing).rejects.toThrow(JobHaltedError);
  expect(await kv.read((tx) => tx.get(key))).toBeUndefined();
});

test("a worker is notified of changes to its job, but not of its own heartbeats", async () => {
  const ring = await transact(async (tx) => {
    const types = [TYPE];
    return jobs.workers.register(tx, { node: "n", processId: "1", types, leaseMs: 1000 });
  });
  const acceptAs = () =>
    transact((tx) => jobs.accept(tx, TYPE, { dueBySec: 2 ** 36, countMax: 1, worker: ring.id }));
  const calls: readonly [string, (tx: Transaction) => Promise<unknown>][] = [
    ["called", (tx) => jobs.callHolder(tx, J1)],
    ["resubmitted", (tx) => jobs.resubmit(tx, J1, 5)],
    ["resubmitted again", (tx) => jobs.resubmit(tx, J1, 6)],
    ["added again", (tx) => jobs.add(tx, J1, { n: 2 })],
    ["requeued", (tx) => jobs.requeueHeldBy(tx, ring.id, 10)],
    ["removed", (tx) => jobs.remove(tx, J1)],
  ];
  await transact((tx) => jobs.add(tx, J1, { n: 1 }));
  let acceptance = await acceptAs();
  for (const [what, call] of calls) {
    if (acceptance.kind === "none-due") throw new Error("No job is due");
    const [held] = acceptance.held as [HeldJob];
    const watch = await transact((tx) => jobs.watchHeld(tx, held));
    let fired = false;
    const waiting = watch.fired().then(() => {
      fired = true;
    });
    await transact((tx) => jobs.update(tx, held, { alive: true }));
    // Watches fire in commit order. If the first job had an event, its watch would fire before this
    // one.
    const other = await transact(async (tx) => jobs.watch(tx, J2));
    await transact((tx) => jobs.add(tx, J2, {}));
    await other.fired();
    expect(fired, what).toBe(false);
    await transact((tx) => jobs.remove(tx, J2));
    await transact(call);
    await waiting;
    if (what === "requeued") acceptance = await acceptAs();
  }
});

test("a job whose worker sends no heartbeats becomes pending again, and the worker is notified that it lost the job", async () => {
  await transact((tx) => jobs.add(tx, J1, { n: 1 }));
  const { held } = await acceptOne();
  const stopping = new AbortController();
  const monitor = new ActivityMonitor(runtime, kv, jobs, TYPE).run(stopping.signal);
  for (;;) {
    const { state, watch } = await transact(async (tx) => ({
      state: (await jobs.get(tx, J1))?.state,
      watch: jobs.watch(tx, J1),
    }));
    if (state === "pending") {
      watch.cancel();
      break;
    }
    await watch.fired();
  }
  stopping.abort(new Error("The test is over"));
  await monitor;
  await expect(transact((tx) => jobs.update(tx, held))).rejects.toThrow(JobHaltedError);
  expect((await acceptOne()).job.data).toEqual({ n: 1 });
});

test("job data that is longer than the store's limit for a value is stored completely", async () => {
  const data = { ids: Array.from({ length: 20_000 }, (_, number) => `document-${number}`) };
  await transact((tx) => jobs.add(tx, J1, data));
  expect((await get(J1))?.data).toEqual(data);
  await transact((tx) => jobs.add(tx, J1, { small: true }));
  expect((await get(J1))?.data).toEqual({ small: true });
});

test("jobs are listed page by page, ordered by id", async () => {
  for (const id of ["c", "a", "b"]) await transact((tx) => jobs.add(tx, { type: TYPE, id }, {}));
  const first = await kv.read((tx) => jobs.list(tx, TYPE, { limit: 2 }));
  expect(first.entries.map(({ id }) => id)).toEqual(["a", "b"]);
  const second = await kv.read((tx) => jobs.list(tx, TYPE, { afterId: "b", limit: 2 }));
  expect(second.entries.map(({ id }) => id)).toEqual(["c"]);
  expect(await kv.read((tx) => jobs.due(tx, TYPE, { dueBySec: 0, limit: 10 }))).toHaveLength(3);
});

test("the activity monitor requeues only those running jobs that have no recent heartbeat", async () => {
  for (const name of [J1, J2]) await transact((tx) => jobs.add(tx, name, {}));
  const held = [(await acceptOne()).held, (await acceptOne()).held];
  const last = await kv.read((tx) => jobs.lastActivity(tx, TYPE));
  if (last === undefined) throw new Error("Nothing is running");
  await transact((tx) => jobs.update(tx, held[0] as HeldJob));
  const requeued = await transact((tx) => jobs.requeueSilent(tx, TYPE, last, 10));
  expect(requeued).toEqual({ jobCount: 1, isDone: true });
  expect((await get(held[0] as HeldJob))?.state).toBe("running");
  expect((await get(held[1] as HeldJob))?.state).toBe("pending");
});

test("reading several jobs in one call returns the same as reading each one, including long and missing jobs", async () => {
  const names = ["j1", "j2", "j3", "j4"].map((id) => ({ type: TYPE, id }));
  const [short, asked, long, running] = names as [Job, Job, Job, Job];
  const text = "long ".repeat(50_000);
  await transact(async (tx) => {
    await jobs.add(tx, running, { x: 4 }, { scheduledAtSec: 1 });
    await jobs.add(tx, short, { x: 1 }, { scheduledAtSec: 2, group: "g" });
    await jobs.add(tx, asked, { x: 2 }, { scheduledAtSec: 3, request: { asked: text } });
    await jobs.add(tx, long, { text }, { scheduledAtSec: 4 });
  });
  await acceptOne(1);
  const alone = await Promise.all(names.map(get));
  expect(alone.map((job) => job?.state)).toEqual(["pending", "pending", "pending", "running"]);
  const ids = ["j0", "j1", "j2", "j20", "j3", "j4"];
  expect(await kv.read((tx) => jobs.getMany(tx, TYPE, ids))).toEqual(alone);
});

test("ids are read in pages, forwards or backwards, and by prefix", async () => {
  const all = ["a", "a|1", "a|2", "a|3", "b|1"];
  await transact(async (tx) => {
    for (const id of all) await jobs.add(tx, { type: TYPE, id }, {});
    await jobs.setTypeTimeout(tx, "other", 1);
    await jobs.add(tx, { type: "other", id: "a|4" }, {});
  });
  const ids = (wanted: Partial<IdsWanted>) =>
    kv.read((tx) =>
      jobs.ids(tx, TYPE, { prefix: "", afterId: undefined, reverse: false, limit: 9, ...wanted }),
    );
  expect(await ids({})).toEqual(all);
  expect(await ids({ prefix: "a|", limit: 2 })).toEqual(["a|1", "a|2"]);
  expect(await ids({ prefix: "a|", afterId: "a|2" })).toEqual(["a|3"]);
  expect(await ids({ prefix: "a|", reverse: true, limit: 2 })).toEqual(["a|3", "a|2"]);
  expect(await ids({ prefix: "a|", reverse: true, afterId: "a|2" })).toEqual(["a|1"]);
});

test("a job's note is stored separately from its data, and is kept when the data changes", async () => {
  const note = new Uint8Array([1, 2]);
  await transact(async (tx) => {
    for (const job of [J1, J2]) await jobs.add(tx, job, { x: 1 });
    jobs.notes.set(tx, J1, note);
    await jobs.resubmit(tx, J1, 7, { x: 2 });
  });
  const read = () => kv.read((tx) => jobs.notes.getMany(tx, TYPE, ["j1", "j2"]));
  expect(await read()).toEqual([note, undefined]);
  expect(await get(J1)).toMatchObject({ data: { x: 2 } });
  await transact((tx) => jobs.remove(tx, J1));
  const between = (afterId: string, lastId?: string) =>
    kv.read((tx) => jobs.notes.between(tx, TYPE, afterId, lastId));
  expect([...(await between("")).keys()]).toEqual(["j1"]);
  expect([...(await between("j0", "j1")).keys()]).toEqual(["j1"]);
  expect([...(await between("j1")).keys()]).toEqual([]);
  await transact(async (tx) => jobs.notes.set(tx, J1, undefined));
  expect(await read()).toEqual([undefined, undefined]);
});

test("an acceptor that gets fewer jobs than it requested can wait for new jobs", async () => {
  const add = (id: string, scheduledAtSec: number) =>
    transact((tx) => jobs.add(tx, { type: TYPE, id }, {}, { scheduledAtSec }));
  const take = (countMax: number, watchesIdle: boolean) =>
    transact((tx) => jobs.accept(tx, TYPE, { dueBySec: 10, countMax, watchesRest: watchesIdle }));
  const restOf = (acceptance: Acceptance) =>
    acceptance.kind === "accepted" ? acceptance.rest : undefined;
  await add("due", 5);
  expect(restOf(await take(2, false))).toBeUndefined();
  await add("due-too", 5);
  await add("due-as-well", 5);
  expect(restOf(await take(1, true))).toBeUndefined();
  await add("later", 20);
  const rest = restOf(await take(2, true));
  expect(rest?.firstDueSec).toBe(20);
  const fired = rest?.enqueued.fired();
  await add("next", 5);
  await fired;
});

/** Workers and their leases, on the in-memory engine. Leases are short so that they expire soon. */
import { beforeEach, expect, test } from "vitest";
import { createSystemRuntime } from "../../src/host/index.ts";
import {
  type HeldJob,
  InLoopLeaseRenewer,
  JobHaltedError,
  Jobs,
  JobWorker,
  type LeaseRenewer,
  type Membership,
  WorkerExpelledError,
  type WorkerId,
} from "../../src/jobs/index.ts";
import { KeyValueStore, MemoryEngine, Subspace, type Transaction } from "../../src/kv/index.ts";

const TYPE = "test";
const LEASE_MS = 200;
/** Lease of workers that run in the test's own event loop. The test keeps this event loop busy. */
const RUNNING_LEASE_MS = 3000;
const DESCRIPTION = { node: "n", processId: "1", types: [TYPE], leaseMs: LEASE_MS };

let kv: KeyValueStore;
let jobs: Jobs;
let stopping: AbortController;
let running: Promise<void>[];
let events: { name: string; fields: Readonly<Record<string, unknown>> }[];
let announce: () => void;

const runtime = createSystemRuntime({
  event: (name, fields) => {
    events.push({ name, fields });
    announce();
  },
});
const { clock } = runtime;

beforeEach(async () => {
  events = [];
  announce = () => {};
  running = [];
  stopping = new AbortController();
  kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  jobs = new Jobs(runtime, Subspace.fromTuple(["jobs"]));
  await kv.transact((tx) => jobs.setTypeTimeout(tx, TYPE, 600));
  return async () => {
    stopping.abort(new Error("The test is over"));
    await Promise.all(running);
    await kv.close();
  };
});

const transact = <T>(body: (tx: Transaction) => Promise<T>): Promise<T> => kv.transact(body);
const members = () => kv.read((tx) => jobs.workers.members(tx));

/** Resolves with the first matching event of this name, past or future. */
async function event(
  name: string,
  passes: (fields: Readonly<Record<string, unknown>>) => boolean = () => true,
): Promise<Readonly<Record<string, unknown>>> {
  for (;;) {
    const found = events.find((one) => one.name === name && passes(one.fields));
    if (found !== undefined) return found.fields;
    await new Promise<void>((resolve) => {
      announce = resolve;
    });
  }
}

/** Registers a worker that never renews its lease. */
async function registerSilent(): Promise<WorkerId> {
  return (await transact(async (tx) => jobs.workers.register(tx, DESCRIPTION))).id;
}

async function add(count: number): Promise<void> {
  await transact(async (tx) => {
    for (let number = 0; number < count; number++) {
      await jobs.add(tx, { type: TYPE, id: `job-${number}` }, { number });
    }
  });
}

async function acceptAll(worker: WorkerId): Promise<HeldJob[]> {
  const held: HeldJob[] = [];
  for (;;) {
    const acceptance = await transact((tx) =>
      jobs.accept(tx, TYPE, { dueBySec: 0, countMax: 200, worker }),
    );
    if (acceptance.kind === "none-due") return held;
    held.push(...acceptance.held);
  }
}

/** Runs a worker that executes `work`. By default, `work` waits until the worker is expelled. */
function run(
  work: (membership: Membership) => Promise<void> = ({ expelled }) => untilAborted(expelled),
  renewer: LeaseRenewer = new InLoopLeaseRenewer({ clock, kv, workers: jobs.workers }),
  leaseMs = RUNNING_LEASE_MS,
): void {
  const worker = new JobWorker({ runtime, kv, jobs, renewer, ...DESCRIPTION, leaseMs });
  running.push(worker.run(stopping.signal, work));
}

/** Resolves when the test is over or `signal` aborts. */
function untilAborted(signal: AbortSignal): Promise<void> {
  return clock.sleep(2 ** 30, AbortSignal.any([signal, stopping.signal])).catch(() => {});
}

const pendingCount = () =>
  kv.read(async (tx) => (await jobs.due(tx, TYPE, { dueBySec: 0, limit: 10_000 })).length);

test("a watch on the list of workers fires when a worker registers", async () => {
  const changed = await transact(async (tx) => jobs.workers.watch(tx));
  const id = await registerSilent();
  await changed.fired();
  expect(await members()).toMatchObject([{ id, ...DESCRIPTION }]);
});

test("a silent worker's neighbour requeues all jobs of the silent worker in batches", async () => {
  const silent = await registerSilent();
  await add(2500);
  const held = await acceptAll(silent);
  expect(held.length).toBe(2500);
  expect(await kv.read((tx) => jobs.heldCount(tx, silent))).toBe(2500);
  run();
  const cleared = await event("jobs.worker-cleared", ({ worker }) => worker === silent);
  expect(cleared.jobCount).toBe(2500);
  expect(await pendingCount()).toBe(2500);
  expect((await members()).map(({ id }) => id)).not.toContain(silent);
  expect(await kv.read((tx) => jobs.workers.expelled(tx))).toEqual([]);
  const writing = transact((tx) => jobs.update(tx, held[0] as HeldJob));
  await expect(writing).rejects.toThrow(JobHaltedError);
});

test("an expelled worker cannot accept jobs", async () => {
  const id = await registerSilent();
  await add(1);
  expect(await transact((tx) => jobs.workers.expel(tx, id))).toBe(true);
  expect(await transact((tx) => jobs.workers.renew(tx, id))).toBe(false);
  const accepting = transact((tx) =>
    jobs.accept(tx, TYPE, { dueBySec: 0, countMax: 1, worker: id }),
  );
  await expect(accepting).rejects.toThrow(WorkerExpelledError);
  expect(await pendingCount()).toBe(1);
});

test("an acceptance fails if the worker is expelled concurrently", async () => {
  const id = await registerSilent();
  await add(1);
  const accepting = transact(async (tx) => {
    const acceptance = await jobs.accept(tx, TYPE, { dueBySec: 0, countMax: 1, worker: id });
    if (await kv.read((other) => jobs.workers.isMember(other, id))) {
      await transact((other) => jobs.workers.expel(other, id));
    }
    return acceptance;
  });
  await expect(accepting).rejects.toThrow(WorkerExpelledError);
  expect(await kv.read((tx) => jobs.heldCount(tx, id))).toBe(0);
});

test("a worker is not expelled if it renews its lease concurrently", async () => {
  const id = await registerSilent();
  await transact((tx) => jobs.workers.renew(tx, id));
  expect(await transact((tx) => jobs.workers.expel(tx, id, 0))).toBe(false);
  expect(await transact((tx) => jobs.workers.expel(tx, id, 1))).toBe(true);
});

test("neighbouring workers that die at the same time are detected at the same time", async () => {
  for (let count = 0; count < 8; count++) await registerSilent();
  const startedAtMs = clock.monotonicMs();
  run();
  await event("jobs.worker-cleared", () => {
    return events.filter(({ name }) => name === "jobs.worker-cleared").length === 8;
  });
  expect(clock.monotonicMs() - startedAtMs).toBeLessThan(8 * LEASE_MS);
});

test("workers that are alive do not expel each other", async () => {
  for (let count = 0; count < 5; count++) run();
  // The dead worker is registered last. When it has been expelled, all other workers have been
  // checked as well.
  const silent = await registerSilent();
  await event("jobs.worker-cleared", ({ worker }) => worker === silent);
  const expelled = events.filter(({ name }) => name === "jobs.worker-expelled");
  expect(expelled.map(({ fields }) => fields.worker)).toEqual([silent]);
  expect((await members()).length).toBe(5);
});

test("an expelled worker's jobs are requeued even if the expelling worker dies before it has requeued all of them", async () => {
  const silent = await registerSilent();
  await add(10);
  await acceptAll(silent);
  await transact((tx) => jobs.workers.expel(tx, silent));
  await transact((tx) => jobs.requeueHeldBy(tx, silent, 3));
  expect(await pendingCount()).toBe(3);
  run();
  await event("jobs.worker-cleared", ({ jobCount }) => jobCount === 7);
  expect(await pendingCount()).toBe(10);
});

test("a worker that shuts down returns its jobs and is removed from the list of workers", async () => {
  const leaving = new AbortController();
  await add(5);
  const renewer = new InLoopLeaseRenewer({ clock, kv, workers: jobs.workers });
  const worker = new JobWorker({ runtime, kv, jobs, renewer, ...DESCRIPTION });
  await worker.run(leaving.signal, async ({ id }) => {
    expect((await acceptAll(id)).length).toBe(5);
    leaving.abort(new Error("The node stops"));
  });
  expect(await pendingCount()).toBe(5);
  expect(await members()).toEqual([]);
});

test("an expelled worker stops its jobs before it registers again under another id", async () => {
  const order: string[] = [];
  run(async ({ id, expelled }) => {
    order.push("working");
    if (order.length > 1) return untilAborted(expelled);
    await transact((tx) => jobs.workers.expel(tx, id));
    await untilAborted(expelled);
    expect(await members()).toEqual([]);
    order.push("stopped");
  });
  expect(await event("jobs.worker-lost")).toMatchObject({ cause: "expelled" });
  const first = events.find(({ name }) => name === "jobs.worker-registered")?.fields.worker;
  await event("jobs.worker-registered", ({ worker }) => worker !== first);
  expect(order.slice(0, 2)).toEqual(["working", "stopped"]);
});

test("a worker that cannot renew its lease abandons its jobs before another worker expels it", async () => {
  const deaf: LeaseRenewer = {
    prepare: async () => ({
      start: ({ leaseMs, ageMs }) => {
        const startedAtMs = clock.monotonicMs() - ageMs;
        return {
          remainingMs: () => leaseMs * 0.8 - (clock.monotonicMs() - startedAtMs),
          ended: new Promise(() => {}),
        };
      },
      stop: async () => {},
    }),
  };
  let stopped = false;
  await add(3);
  run(
    async ({ id, expelled }) => {
      if (stopped) return untilAborted(expelled);
      await acceptAll(id);
      await untilAborted(expelled);
      stopped = true;
      expect(events.some(({ name }) => name === "jobs.worker-expelled")).toBe(false);
    },
    deaf,
    LEASE_MS,
  );
  await event("jobs.worker-registered");
  run();
  expect(await event("jobs.worker-lost")).toMatchObject({ cause: "lapsed" });
  await event("jobs.worker-cleared", ({ jobCount }) => jobCount === 3);
  expect(stopped).toBe(true);
  expect(await pendingCount()).toBe(3);
});

test("a lease does not end if its renewer takes longer than the lease to start", async () => {
  const renewer = new InLoopLeaseRenewer({ clock, kv, workers: jobs.workers });
  const slow: LeaseRenewer = {
    prepare: async () => {
      await clock.sleep(2 * LEASE_MS);
      return renewer.prepare();
    },
  };
  run(undefined, slow, RUNNING_LEASE_MS / 10);
  await event("jobs.worker-registered");
  expect(events.some(({ name }) => name === "jobs.worker-lost")).toBe(false);
});

test("a job is removed from its worker's list however the run ends", async () => {
  const id = await registerSilent();
  await add(3);
  const [first, second, third] = (await acceptAll(id)) as [HeldJob, HeldJob, HeldJob];
  await transact((tx) => jobs.update(tx, first, { updated: true }));
  expect(await kv.read((tx) => jobs.heldCount(tx, id))).toBe(3);
  await transact((tx) => jobs.finish(tx, first));
  await transact((tx) => jobs.remove(tx, second));
  const last = await kv.read((tx) => jobs.lastActivity(tx, TYPE));
  if (last === undefined) throw new Error("Nothing is running");
  await transact((tx) => jobs.requeueSilent(tx, TYPE, last, 10));
  expect((await kv.read((tx) => jobs.get(tx, third)))?.state).toBe("pending");
  expect(await kv.read((tx) => jobs.heldCount(tx, id))).toBe(0);
});

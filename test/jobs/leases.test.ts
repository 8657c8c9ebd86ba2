/** The start and end of a worker's lease, and the effect of failed renewals, in virtual time. */
import { beforeEach, describe, expect, test } from "vitest";
import {
  InLoopLeaseRenewer,
  Jobs,
  JobWorker,
  keepLease,
  type LeaseEnding,
  usedLeaseMs,
  type WorkerId,
} from "../../src/jobs/index.ts";
import {
  KeyValueError,
  type KeyValueErrorCode,
  KeyValueStore,
  MemoryEngine,
  Subspace,
  type Transaction,
} from "../../src/kv/index.ts";
import type { SimulatedNode } from "../simulation/kernel/simulated-node.ts";
import { World } from "../simulation/kernel/world.ts";

const TYPE = "test";
const LEASE_MS = 5_000;
const JOBS = Subspace.fromTuple(["jobs"]);
const DESCRIPTION = { node: "n", processId: "1", types: [TYPE], leaseMs: LEASE_MS };

/** A store that delays or rejects each transaction as `trouble` decides. */
class TroubledStore extends KeyValueStore {
  trouble: () => Promise<void> = async () => {};

  override async transact<T>(
    body: (tx: Transaction) => Promise<T>,
    options?: Parameters<KeyValueStore["transact"]>[1],
  ): Promise<T> {
    await this.trouble();
    return super.transact(body, options);
  }
}

let world: World;
let node: SimulatedNode;
let store: TroubledStore;
let jobs: Jobs;

beforeEach(() => {
  world = new World("leases");
  node = world.openNode();
  const { runtime } = node;
  jobs = new Jobs(runtime, JOBS);
  const engine = new MemoryEngine({ runtime, storage: world.storage });
  store = new TroubledStore({ runtime, engine });
});

/** Keeps a lease until it ends. Returns how and when the lease ended. */
async function keep(kv: KeyValueStore = store) {
  const { clock } = node.runtime;
  const worker = await world.until(
    node.kv.transact(async (tx) => jobs.workers.register(tx, DESCRIPTION)),
  );
  const lease = {
    renewedAtMs: [] as number[],
    ending: undefined as LeaseEnding | undefined,
    endedAtMs: Infinity,
    startedAtMs: clock.monotonicMs(),
    stopping: new AbortController(),
    worker: worker.id,
  };
  const onRenewed = (startedAtMs: number): unknown => lease.renewedAtMs.push(startedAtMs);
  const parts = { clock, kv, workers: jobs.workers };
  const term = { worker: worker.id, leaseMs: LEASE_MS, ageMs: 0 };
  void keepLease(parts, term, onRenewed, lease.stopping.signal).then((ending) => {
    lease.ending = ending;
    lease.endedAtMs = clock.monotonicMs();
  });
  return lease;
}

const pass = (durationMs: number) => world.time.run(world.time.nowMs + durationMs);
const fail = (code: KeyValueErrorCode) => async (): Promise<void> => {
  throw new KeyValueError(code);
};

test.each(["KV_CONFLICT", "KV_TOO_OLD", "KV_UNAVAILABLE"] as const)(
  "a lease is kept if some of its renewals fail with %s and others succeed",
  async (code) => {
    const lease = await keep();
    // Counts the renewals. Two of every three fail.
    let count = 0;
    store.trouble = () => (count++ % 3 === 2 ? Promise.resolve() : fail(code)());
    await pass(20 * LEASE_MS);
    expect(count).toBeGreaterThan(90);
    expect(lease.ending).toBeUndefined();
    lease.stopping.abort(new Error("The test is over"));
    await pass(1);
    expect(lease.ending).toBe("stopped");
  },
);

test.each(["KV_CONFLICT", "KV_UNAVAILABLE"] as const)(
  "a lease whose renewals all fail with %s ends before another worker may expel its worker",
  async (code) => {
    const lease = await keep();
    await pass(2 * LEASE_MS);
    store.trouble = fail(code);
    await pass(2 * LEASE_MS);
    expect(lease.ending).toBe("lapsed");
    const lastMs = lease.renewedAtMs.at(-1) ?? 0;
    expect(lease.endedAtMs - lastMs).toBeGreaterThanOrEqual(usedLeaseMs(LEASE_MS));
    expect(lease.endedAtMs - lastMs).toBeLessThan(LEASE_MS);
  },
);

test("if the store does not respond, a lease ends before its worker may be expelled", async () => {
  const lease = await keep(node.kv);
  await pass(2 * LEASE_MS);
  node.cutOff("both");
  await pass(2 * LEASE_MS);
  expect(lease.ending).toBe("lapsed");
  expect(lease.endedAtMs - (lease.renewedAtMs.at(-1) ?? 0)).toBe(usedLeaseMs(LEASE_MS));
});

test("an expelled worker's next renewal reports the expulsion", async () => {
  const lease = await keep();
  await world.until(node.kv.transact((tx) => jobs.workers.expel(tx, lease.worker)));
  await pass(LEASE_MS);
  expect(lease.ending).toBe("expelled");
});

test("a lease begins when its renewal starts, however long the renewal takes", async () => {
  const { clock } = node.runtime;
  const slowMs = LEASE_MS / 2;
  const begun: number[] = [];
  store.trouble = () => {
    begun.push(clock.monotonicMs());
    return clock.sleep(slowMs);
  };
  const lease = await keep();
  await pass(slowMs);
  expect(lease.renewedAtMs).toEqual(begun.slice(0, 1));

  const renewer = new InLoopLeaseRenewer({ clock, kv: store, workers: jobs.workers });
  const ready = await renewer.prepare();
  const kept = ready.start({ worker: lease.worker, leaseMs: LEASE_MS, ageMs: 100 });
  expect(kept.remainingMs()).toBe(usedLeaseMs(LEASE_MS) - 100);
  await pass(slowMs);
  // The lease begins when the renewal starts, so the duration of the renewal is already used up.
  expect(kept.remainingMs()).toBe(usedLeaseMs(LEASE_MS) - slowMs);
  await world.until(ready.stop());

  store.trouble = fail("KV_UNAVAILABLE");
  await pass(3 * LEASE_MS);
  expect(lease.ending).toBe("lapsed");
  expect(lease.endedAtMs - (lease.renewedAtMs.at(-1) ?? 0)).toBeLessThan(LEASE_MS);
});

describe("a worker that is cut off from the store", () => {
  test.each([
    ["an equally fast", 1, 1],
    ["a faster", 0.93, 1.07],
    ["a slower", 1.07, 0.93],
  ])("stops its work before another worker with %s clock expels it", async (_, rate, otherRate) => {
    const expelledAtMs = new Map<WorkerId, number>();
    world.listeners.push((name, { worker }) => {
      if (name === "jobs.worker-expelled") expelledAtMs.set(String(worker), world.time.nowMs);
    });
    const stopping = new AbortController();
    const work = async (one: SimulatedNode) => {
      const own = new Jobs(one.runtime, JOBS);
      const { kv, runtime } = one;
      const renewer = new InLoopLeaseRenewer({ clock: runtime.clock, kv, workers: own.workers });
      const worker = new JobWorker({ runtime, kv, jobs: own, renewer, ...DESCRIPTION });
      const stopped = { id: "", atMs: Infinity };
      void worker.run(stopping.signal, async ({ id, expelled }) => {
        if (stopped.id !== "") return;
        stopped.id = id;
        await runtime.clock
          .sleep(2 ** 30, AbortSignal.any([expelled, stopping.signal]))
          .catch(() => {});
        stopped.atMs = world.time.nowMs;
      });
      return stopped;
    };
    const cut = world.openNode({ clockRate: rate, delayMsMax: 20 });
    const first = await work(cut);
    await work(world.openNode({ clockRate: otherRate, delayMsMax: 20 }));
    await pass(3 * LEASE_MS);
    cut.cutOff("both");
    await pass(3 * LEASE_MS);
    const lostMs = expelledAtMs.get(first.id) ?? 0;
    expect(first.atMs).toBeLessThan(Infinity);
    expect(first.atMs).toBeLessThan(lostMs);
    stopping.abort(new Error("The test is over"));
  });
});

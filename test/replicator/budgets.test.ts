/** Budgets of endpoints: how they are parsed, stored, and enforced by all nodes together. */
import { expect, test } from "vitest";
import type { Clock } from "../../src/base/index.ts";
import { createSystemRuntime } from "../../src/host/index.ts";
import { Activity, type Fetch, withBudget } from "../../src/http-client/index.ts";
import { KeyValueStore, MemoryEngine, MemoryStorage, Subspace } from "../../src/kv/index.ts";
import { parseBudgetName } from "../../src/replicator/budgets/budget.ts";
import { excused } from "../../src/replicator/endpoints/endpoints.ts";
import { type Budget, Budgets, parseBudget } from "../../src/replicator/index.ts";
import type { ReplicationRun } from "../../src/replicator/run/replication-run.ts";
import { watchRun } from "../../src/replicator/run/watchdog.ts";

const FOREVER = new AbortController().signal;
const ADDRESS = { kind: "http", url: "http://couch.example:5984/a/", headers: {} } as const;
const ALICE = { ...ADDRESS, basic: { username: "alice", password: "secret" } };

/** A clock that jumps to the next wake-up time when no task can run. */
class VirtualClock implements Clock {
  #nowMs = 1_000_000;
  readonly #sleepers = new Set<{ readonly atMs: number; wake(): void }>();

  nowMs(): number {
    return this.#nowMs;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  sleep(durationMs: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const wake = (): void => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      };
      const sleeper = { atMs: this.#nowMs + durationMs, wake };
      this.#sleepers.add(sleeper);
      const onAbort = (): void => {
        this.#sleepers.delete(sleeper);
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  /** Advances time to `untilMs`, and runs the tasks that are due until then. */
  async advance(untilMs: number): Promise<void> {
    for (;;) {
      for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
      const [next] = [...this.#sleepers].sort((left, right) => left.atMs - right.atMs);
      if (next === undefined || next.atMs > untilMs) break;
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      this.#sleepers.delete(next);
      next.wake();
    }
    this.#nowMs = untilMs;
  }
}

/** Opens several nodes that share a store and a clock. */
async function openCluster(nodeCount: number) {
  const clock = new VirtualClock();
  const runtime = { ...createSystemRuntime(), clock };
  const storage = new MemoryStorage();
  const stopping = new AbortController();
  const nodes = Array.from({ length: nodeCount }, () => {
    const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime, storage }) });
    return new Budgets({ runtime, kv, subspace: Subspace.fromTuple(["replicator"]) });
  });
  const running = nodes.map((node) => node.run(stopping.signal).catch(() => {}));
  return {
    clock,
    nodes,
    async set(name: string, budget: Budget | undefined): Promise<void> {
      await nodes[0]?.set(name, budget);
      await clock.advance(clock.nowMs());
    },
    async stop(): Promise<void> {
      stopping.abort(new Error("The test is over"));
      await Promise.all(running);
    },
  };
}

test("ten saturated nodes share the configured rate, even after the rate is changed", async () => {
  const { clock, nodes, set, stop } = await openCluster(10);
  await set("couch.example:5984", parseBudget({ read: { requests_per_sec: 50 } }));
  let spent = 0;
  const over = new AbortController();
  const spenders = nodes.map(async (node) => {
    const { read } = node.spendingFor(ADDRESS);
    while (!over.signal.aborted) {
      await read.spend("requests", 1, over.signal)?.catch(() => {});
      if (!over.signal.aborted) spent++;
    }
  });
  const spentIn = async (durationMs: number): Promise<number> => {
    const before = spent;
    await clock.advance(clock.nowMs() + durationMs);
    return spent - before;
  };
  await spentIn(1000);
  const perSecond = (await spentIn(20_000)) / 20;
  expect(perSecond).toBeGreaterThan(45);
  expect(perSecond).toBeLessThan(55);
  await set("couch.example:5984", parseBudget({ read: { requests_per_sec: 200 } }));
  await spentIn(1000);
  const faster = (await spentIn(20_000)) / 20;
  expect(faster).toBeGreaterThan(180);
  expect(faster).toBeLessThan(220);
  over.abort(new Error("enough"));
  await Promise.all(spenders);
  await stop();
});

test("each host, account and direction (read or write) has a separate budget, and requests without a budget never wait", async () => {
  const { clock, nodes, set, stop } = await openCluster(1);
  const [node] = nodes as [Budgets];
  await set("alice@couch.example:5984", parseBudget({ write: { documents_per_sec: 10 } }));
  const startMs = clock.nowMs();
  await node.spendingFor(ADDRESS).write.spend("documents", 1000, FOREVER);
  await node.spendingFor(ALICE).read.spend("documents", 1000, FOREVER);
  await node.spendingFor({ kind: "local", database: "a" }).write.spend("bytes", 1e9, FOREVER);
  expect(clock.nowMs()).toBe(startMs);
  const { write } = node.spendingFor(ALICE);
  let doneAtMs = 0;
  const spendTwice = async (): Promise<void> => {
    await write.spend("documents", 50, FOREVER);
    await write.spend("documents", 1, FOREVER);
    doneAtMs = clock.nowMs();
  };
  const twice = spendTwice();
  await clock.advance(startMs + 10_000);
  await twice;
  // The batch proceeds immediately, and the next request waits for the cost of the batch.
  expect(doneAtMs - startMs).toBeGreaterThan(4500);
  expect(doneAtMs - startMs).toBeLessThan(5500);
  await stop();
});

/** Addresses with another host or with another account of the same host. */
const OTHER_HOST = { ...ALICE, url: "http://other.example:5984/a/" };
const BOB = { ...ADDRESS, basic: { username: "bob", password: "secret" } };
test.each([
  ["couch.example:5984", { anonymous: true, alice: true, bob: true, "other host": false }],
  ["alice@couch.example:5984", { anonymous: false, alice: true, bob: false, "other host": false }],
] as const)(
  "the budget of %s limits exactly the requests to this host or account",
  async (name, expected) => {
    const { clock, nodes, set, stop } = await openCluster(1);
    const [node] = nodes as [Budgets];
    await set(name, parseBudget({ write: { documents_per_sec: 10 } }));
    const addresses = { anonymous: ADDRESS, alice: ALICE, bob: BOB, "other host": OTHER_HOST };
    const bound: Record<string, boolean> = {};
    for (const [who, address] of Object.entries(addresses)) {
      await clock.advance(clock.nowMs() + 60_000);
      const startMs = clock.nowMs();
      const { write } = node.spendingFor(address);
      let doneAtMs = startMs;
      const spending = (async () => {
        await write.spend("documents", 50, FOREVER);
        await write.spend("documents", 1, FOREVER);
        doneAtMs = clock.nowMs();
      })();
      await clock.advance(startMs + 10_000);
      await spending;
      bound[who] = doneAtMs > startMs;
    }
    expect(bound).toEqual(expected);
    await stop();
  },
);

test.each([
  [10, 1_000, 10_000],
  [1_000, 10, 10_000],
  [1_000, 1_000, 0],
])(
  "the smaller of the two budgets applies: %i documents per second for a host, %i for an account",
  async (hostRate, accountRate, expectedMs) => {
    const { clock, nodes, set, stop } = await openCluster(1);
    const [node] = nodes as [Budgets];
    await set("couch.example:5984", parseBudget({ read: { documents_per_sec: hostRate } }));
    const account = parseBudget({ read: { documents_per_sec: accountRate } });
    await set("alice@couch.example:5984", account);
    const startMs = clock.nowMs();
    const { read } = node.spendingFor(ALICE);
    let doneAtMs = Number.POSITIVE_INFINITY;
    const spending = (async () => {
      await read.spend("documents", 100, FOREVER);
      await read.spend("documents", 1, FOREVER);
      doneAtMs = clock.nowMs();
    })();
    await clock.advance(startMs + 60_000);
    await spending;
    expect(doneAtMs - startMs).toBeGreaterThanOrEqual(expectedMs / 2);
    expect(doneAtMs - startMs).toBeLessThanOrEqual(expectedMs * 1.5);
    await stop();
  },
);

test("a run does not count as stalled while it waits for its budget", async () => {
  const cluster = await openCluster(1);
  const { clock } = cluster;
  await cluster.set("couch.example:5984", parseBudget({ write: { documents_per_sec: 1 } }));
  const activity = new Activity(clock);
  const { write } = excused((cluster.nodes[0] as Budgets).spendingFor(ADDRESS), activity);
  // A run that has read changes from the feed and makes no progress.
  const run = { progress: {}, hasBegun: true, hasWork: true } as ReplicationRun;
  const watching = watchRun({ clock }, { run, activity, hasLiveFeed: true }, 120_000, FOREVER);
  const stalled = expect(watching).rejects.toMatchObject({ code: "REPLICATOR_STALLED" });
  await write.spend("documents", 500, FOREVER);
  let isSpent = false;
  const spent = write.spend("documents", 500, FOREVER)?.then(() => {
    isSpent = true;
  });
  let isStalled = false;
  watching.catch(() => {
    isStalled = true;
  });
  await clock.advance(clock.nowMs() + 490_000);
  expect([isSpent, isStalled]).toEqual([false, false]);
  await clock.advance(clock.nowMs() + 20_000);
  await spent;
  await clock.advance(clock.nowMs() + 140_000);
  await stalled;
  await cluster.stop();
});

test("a budget is charged for a request, for the bytes of its body, and for the bytes of the response body", async () => {
  const spent: string[] = [];
  const spending = (direction: string) => ({
    async spend(unit: string, count: number): Promise<void> {
      spent.push(`${direction} ${count} ${unit}`);
    },
  });
  const answer = async function* () {
    yield new Uint8Array(30);
    yield new Uint8Array(12);
  };
  const fetch: Fetch = async () => ({
    status: 200,
    headers: new Map(),
    body: answer(),
    discard: () => {},
  });
  const budgeted = withBudget(fetch, { read: spending("read"), write: spending("write") });
  const common = { inactivityTimeoutMs: 1000, signal: FOREVER };
  const url = "http://couch.example/a/_revs_diff";
  const { body } = await budgeted({ ...common, method: "POST", url, body: "{}" });
  for await (const _ of body);
  await budgeted({ ...common, method: "POST", url: "http://couch.example/a/_bulk_docs" });
  expect(spent).toEqual([
    "read 1 requests",
    "read 2 bytes",
    "read 30 bytes",
    "read 12 bytes",
    "write 1 requests",
  ]);
});

test.each([
  [{ reads: {} }, "`reads` is not known: expected `read` or `write`"],
  [{ read: 5 }, "`read` must be an object"],
  [{ write: { requests_per_sec: 0 } }, "`write.requests_per_sec` = 0: expected a number above 0"],
  [{ read: { bytes: 1 } }, "`read.bytes` is not known: expected `requests_per_sec`"],
])("the budget %j is rejected: %s", (members, reason) => {
  expect(() => parseBudget(members)).toThrow(
    expect.objectContaining({ reason: expect.stringContaining(reason) }),
  );
});

test.each(["", "http://couch.example", "a b", "host:port", "@host"])(
  "the budget name %j is rejected because it contains no valid host",
  async (name) => {
    const { nodes, stop } = await openCluster(1);
    await expect(nodes[0]?.get(name)).rejects.toThrow(
      expect.objectContaining({ reason: expect.stringContaining("expected HOST") }),
    );
    await stop();
  },
);

test.each([
  ["u:secret@h", '"u:*****@h"'],
  ["http://u:secret@h/", '"http://u:*****@h/"'],
  ["u:se/cret@h:1", '"u:*****@h:1"'],
])(
  "a budget name with a password is refused, and the error hides the password: %s",
  (name, shown) => {
    const sentence = `budget name ${shown}: expected HOST, HOST:PORT or ACCOUNT@HOST[:PORT]`;
    expect(() => parseBudgetName(name)).toThrow(
      expect.objectContaining({ details: { reason: sentence } }),
    );
  },
);

test.each([
  ["H", "h"],
  ["H:1", "h:1"],
  ["[::1]:1", "[::1]:1"],
  ["U@H:1", "U@h:1"],
  ["u@[::1]:1", "u@[::1]:1"],
])("the budget name %s is stored as %s", (name, stored) => {
  expect(parseBudgetName(name)).toBe(stored);
});

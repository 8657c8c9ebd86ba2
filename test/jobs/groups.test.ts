/**
 * Groups and their shares of the queue: order of acceptance, charged usage, and cost of an
 * acceptance.
 */
import { beforeEach, expect, test } from "vitest";
import { type HeldJob, type Job, Jobs, RunMeter, usageSec } from "../../src/jobs/index.ts";
import { type KeyValueStore, Subspace, type Transaction } from "../../src/kv/index.ts";
import type { SimulatedNode } from "../simulation/kernel/simulated-node.ts";
import { World } from "../simulation/kernel/world.ts";

const TYPE = "test";
const JOBS = Subspace.fromTuple(["jobs"]);
const NO_LIMIT = 2 ** 36;

let world: World;
let node: SimulatedNode;
let kv: KeyValueStore;
let jobs: Jobs;

beforeEach(async () => {
  world = new World("groups");
  node = world.openNode();
  kv = node.kv;
  jobs = new Jobs(node.runtime, JOBS);
  await transact((tx) => jobs.setTypeTimeout(tx, TYPE, 60));
  return () => kv.close();
});

/**
 * Runs a transaction while virtual time advances. A transaction that conflicts pauses before each
 * retry.
 */
const transact = <T>(body: (tx: Transaction) => Promise<T>): Promise<T> =>
  world.until(kv.transact(body));
const nowSec = (): number => node.runtime.clock.nowMs() / 1000;
const add = (id: string, group?: string, scheduledAtSec = 0) =>
  transact((tx) => jobs.add(tx, { type: TYPE, id }, {}, { group, scheduledAtSec }));
const remove = (id: string) => transact((tx) => jobs.remove(tx, { type: TYPE, id }));
const finish = (held: HeldJob) => transact((tx) => jobs.finish(tx, held));
const charge = (...runSec: [string, number][]) =>
  transact((tx) => jobs.groups.charge(tx, TYPE, new Map(runSec)));
const setShares = (group: string, shares: number) =>
  transact((tx) => jobs.groups.setShares(tx, TYPE, group, shares));
const standing = (group: string) => kv.read((tx) => jobs.groups.standing(tx, TYPE, group));
const used = async (group: string) => usageSec(await standing(group), nowSec());
const givingWay = (...groups: string[]) =>
  kv.read((tx) => jobs.groups.givingWay(tx, TYPE, groups, Math.floor(nowSec())));
const pendingCount = (dueBySec: number) =>
  kv.read(async (tx) => (await jobs.due(tx, TYPE, { dueBySec, limit: 1000 })).length);

/** Advances virtual time. */
const pass = (durationSec: number) => world.time.run(world.time.nowMs + durationSec * 1000);

async function acceptSome(countMax: number, dueBySec = NO_LIMIT) {
  const acceptance = await transact((tx) => jobs.accept(tx, TYPE, { dueBySec, countMax }));
  if (acceptance.kind === "accepted") return acceptance;
  acceptance.enqueued.cancel();
  return { held: [], jobs: [] };
}

async function firstDueSec(): Promise<number | undefined> {
  const acceptance = await transact((tx) => jobs.accept(tx, TYPE, { dueBySec: 0, countMax: 1 }));
  return acceptance.kind === "none-due" ? acceptance.firstDueSec : 0;
}

async function accept(dueBySec?: number): Promise<Job | undefined> {
  return (await acceptSome(1, dueBySec)).jobs[0];
}

/** Accepts due jobs one by one until none is left. Returns their groups in order of acceptance. */
async function order(): Promise<(string | undefined)[]> {
  const groups: (string | undefined)[] = [];
  for (let job = await accept(); job !== undefined; job = await accept()) groups.push(job.group);
  return groups;
}

test("the job that has waited longest is the first of its group", async () => {
  await add("c", "g", 3);
  await add("a", "g", 7);
  await add("b", "g", 5);
  const accepted = await acceptSome(10);
  expect(accepted.jobs.map(({ id }) => id)).toEqual(["c", "b", "a"]);
  expect(accepted.jobs[0]).toMatchObject({ group: "g", state: "running", scheduledAtSec: 3 });
});

test("a job of one group does not wait until ten thousand jobs of another group have run", async () => {
  await transact(async (tx) => {
    for (let number = 0; number < 10_000; number++) {
      await jobs.add(tx, { type: TYPE, id: `big-${number}` }, {}, { group: "big" });
    }
  });
  expect((await acceptSome(20)).jobs.every(({ group }) => group === "big")).toBe(true);
  await add("small", "small");
  expect(await accept()).toMatchObject({ id: "small" });
});

test("jobs run by the priority of their groups, and within a group by waiting time", async () => {
  await add("young-of-busy", "busy", 5);
  await add("old-of-busy", "busy", 1);
  await add("young-of-idle", "idle", 7);
  await add("old-of-idle", "idle", 3);
  await charge(["busy", 10_000]);
  const ids: (string | undefined)[] = [];
  for (let count = 0; count < 4; count++) ids.push((await accept())?.id);
  expect(ids).toEqual(["old-of-idle", "young-of-idle", "old-of-busy", "young-of-busy"]);
});

test("groups of equal shares take turns", async () => {
  for (let number = 0; number < 9; number++) await add(`j${number}`, `g${number % 3}`);
  const groups = await order();
  for (const start of [0, 3, 6]) expect(new Set(groups.slice(start, start + 3)).size).toBe(3);
});

test("a batch of accepted jobs ends where another group's turn begins", async () => {
  for (let number = 0; number < 8; number++) await add(`a${number}`, "a");
  await add("b", "b");
  await charge(["a", 30], ["b", 100]);
  // After five prepayments of 15 s, `a` has used more than `b`.
  expect((await acceptSome(8)).jobs.map(({ group }) => group)).toEqual(Array(5).fill("a"));
  expect((await acceptSome(8)).jobs.map(({ group }) => group)).toEqual(["b"]);
  expect((await acceptSome(8)).jobs.length).toBe(3);
});

test("a change of shares reorders waiting jobs", async () => {
  await charge(["a", 100], ["b", 200]);
  for (const id of ["a", "b"]) await add(id, id);
  await accept();
  await add("a2", "a");
  await setShares("b", 300);
  expect((await accept())?.group).toBe("b");
  await setShares("b", 100);
  expect((await standing("b")).shares).toBe(100);
  await expect(setShares("b", 0)).rejects.toThrow("1 to 1000");
  await expect(setShares("b", 1001)).rejects.toThrow("1 to 1000");
});

test("a group returns to the default shares when its configured shares are removed", async () => {
  const setAll = (...shares: [string, number][]) =>
    transact((tx) => jobs.groups.setAllShares(tx, TYPE, new Map(shares)));
  await setAll(["a", 50], ["b", 200]);
  await setAll(["b", 400]);
  expect((await standing("a")).shares).toBe(100);
  expect((await standing("b")).shares).toBe(400);
});

test("every ten minutes the usage of all groups is halved, which does not change their order", async () => {
  await charge(["a", 300], ["b", 100]);
  const before = await standing("a");
  await pass(600);
  expect(await used("a")).toBeCloseTo(150, 3);
  expect(await used("b")).toBeCloseTo(50, 3);
  expect(await standing("a")).toEqual(before);
  for (const id of ["a", "b"]) await add(id, id);
  expect(await order()).toEqual(["b", "a"]);
});

test("a group keeps its usage when its jobs are removed and added again", async () => {
  await add("a", "a");
  await accept();
  await charge(["a", 100]);
  await remove("a");
  await add("a", "a");
  await add("b", "b");
  expect(await used("a")).toBeCloseTo(115, 6);
  expect(await order()).toEqual(["b", "a"]);
});

test("an acceptance charges its group in advance, and the unused part is refunded", async () => {
  await add("a", "a");
  await add("b", "a");
  const meter = new RunMeter(node.runtime.clock, 15);
  const { held } = await acceptSome(2);
  const [first, second] = held as [HeldJob, HeldJob];
  for (const one of held) meter.start(one, "a");
  expect(await used("a")).toBeCloseTo(30, 6);
  await pass(1);
  meter.end(first);
  await pass(19);
  expect([...meter.groups().keys()]).toEqual(["a"]);
  await charge(...meter.takeBill());
  meter.end(second);
  await charge(...meter.takeBill());
  expect(meter.takeBill().size).toBe(0);
  // The usage is 1 s plus 20 s, minus a small decay.
  expect(await used("a")).toBeGreaterThan(20);
  expect(await used("a")).toBeLessThan(21);
});

test("changing the usage decay keeps each group's usage, and reorders a group the next time it is charged", async () => {
  await charge(["a", 100], ["b", 300]);
  const fairShare = { usageCoefficient: 0.9, intervalSec: 60, instalmentSec: 10 };
  await transact((tx) => jobs.groups.setFairShare(tx, TYPE, fairShare));
  expect(await used("a")).toBeCloseTo(100, 6);
  await charge(["b", 1]);
  for (const id of ["a", "b"]) await add(id, id);
  expect(await order()).toEqual(["a", "b"]);
  expect(await used("a")).toBeCloseTo(110, 6);
  await expect(
    transact((tx) => jobs.groups.setFairShare(tx, TYPE, { ...fairShare, usageCoefficient: 0 })),
  ).rejects.toThrow("usage coefficient");
});

test("a group becomes ready when its first job is due", async () => {
  const startSec = Math.floor(nowSec());
  await add("late", "a", startSec + 60);
  await add("later", "a", startSec + 90);
  expect(await accept(startSec)).toBeUndefined();
  expect(await firstDueSec()).toBe(startSec + 60);
  expect(await pendingCount(startSec + 60)).toBe(1);
  await pass(61);
  expect((await acceptSome(5, Math.floor(nowSec()))).jobs.map(({ id }) => id)).toEqual(["late"]);
  await remove("later");
  expect(await firstDueSec()).toBeUndefined();
});

test("an acceptor whose clock is behind polls again without a pause until it has checked all ready groups", async () => {
  const startSec = Math.floor(nowSec());
  const groupCount = 20;
  for (let number = 0; number < groupCount; number++) {
    await add(`first-${number}`, `g${number}`, startSec + 60);
    await add(`later-${number}`, `g${number}`, startSec + 70);
  }
  // A node whose clock is a minute ahead marks groups as ready, and accepts the first job of some
  // groups.
  for (let count = 0; count < 3; count++) await accept(startSec + 60);
  const times: (number | undefined)[] = [];
  for (let time = await firstDueSec(); ; time = await firstDueSec()) {
    times.push(time);
    if (time !== 0) break;
  }
  expect(times).toEqual([0, 0, startSec + 60]);
});

test("a job that moves to another group is queued in that group", async () => {
  await add("j", "a");
  await add("j", "b");
  expect(await order()).toEqual(["b"]);
  expect(await kv.read((tx) => jobs.counts.read(tx, TYPE, "a"))).toEqual({
    pending: 0,
    running: 0,
    finished: 0,
  });
});

test("a running job that is added to another group belongs to that group in its next run", async () => {
  await add("j", "a");
  const { held } = await acceptSome(1);
  await add("j", "b", 5);
  await finish(held[0] as HeldJob);
  expect(await accept()).toMatchObject({ group: "b", scheduledAtSec: 5 });
});

test("an acceptor accepts both jobs with a group and jobs without one", async () => {
  for (let number = 0; number < 20; number++) {
    await add(`plain-${number}`);
    await add(`grouped-${number}`, "g");
  }
  const groups = await order();
  expect(groups.filter((group) => group === "g").length).toBe(20);
  expect(groups.length).toBe(40);
  // The first 15 jobs include both kinds.
  expect(new Set(groups.slice(0, 15)).size).toBe(2);
});

test("preemption selects jobs of groups whose usage is at least that of a group with a due job, highest usage first", async () => {
  await charge(["a", 100], ["b", 300], ["c", 50]);
  expect(await givingWay("a", "b", "c")).toEqual([]);
  await add("future", "d", nowSec() + 100);
  expect(await givingWay("a", "b", "c")).toEqual([]);
  await add("a", "a");
  expect(await givingWay("a", "b", "c")).toEqual(["b", "a"]);
  await add("d", "d");
  expect(await givingWay("c", "a", "b")).toEqual(["b", "a", "c"]);
});

test("two concurrent acceptors of one group accept different jobs", async () => {
  for (let number = 0; number < 10; number++) await add(`j${number}`, "g");
  const batches = await Promise.all([acceptSome(5), acceptSome(5)]);
  const ids = batches.flatMap((batch) => batch.jobs.map(({ id }) => id));
  expect(new Set(ids).size).toBe(10);
});

test("adding a job to a group does not conflict with accepting a job from the group or charging the group", async () => {
  for (let number = 0; number < 6; number++) await add(`j${number}`, "g");
  await accept();
  let attemptCount = 0;
  await transact(async (tx) => {
    attemptCount++;
    await jobs.add(tx, { type: TYPE, id: "new" }, {}, { group: "g" });
    if (attemptCount > 1) return;
    await kv.transact((other) => jobs.accept(other, TYPE, { dueBySec: 0, countMax: 2 }));
    await kv.transact((other) => jobs.groups.charge(other, TYPE, new Map([["g", 10]])));
  });
  expect(attemptCount).toBe(1);
});

/** Adds a job while `other` commits. Returns how often the addition was attempted. */
async function addDuring(
  scheduledAtSec: number,
  other: (tx: Transaction) => Promise<unknown>,
): Promise<number> {
  let attemptCount = 0;
  await transact(async (tx) => {
    attemptCount++;
    await jobs.add(tx, { type: TYPE, id: "new" }, {}, { group: "g", scheduledAtSec });
    if (attemptCount === 1) await kv.transact(other);
  });
  return attemptCount;
}

test("adding a job conflicts with an acceptor that leaves only jobs that are due later", async () => {
  await add("first", "g");
  await add("last", "g", NO_LIMIT - 10);
  const takeFirst = (tx: Transaction) => jobs.accept(tx, TYPE, { dueBySec: 0, countMax: 1 });
  expect(await addDuring(NO_LIMIT - 20, takeFirst)).toBe(2);
  expect((await accept(NO_LIMIT - 15))?.id).toBe("new");
});

test.each([
  ["that is due no earlier than the jobs left in its group", NO_LIMIT, [0, NO_LIMIT]],
  ["to a group that becomes ready and remains so", 20, [10, 10]],
])("adding a job %s does not conflict with an acceptor", async (_, scheduledAtSec, others) => {
  for (const [index, dueAtSec] of others.entries()) await add(`j${index}`, "g", dueAtSec);
  const takeOne = (tx: Transaction) => jobs.accept(tx, TYPE, { dueBySec: 15, countMax: 1 });
  expect(await addDuring(scheduledAtSec, takeOne)).toBe(1);
});

test("an acceptor that accepts the last job of a group also accepts a job that is added concurrently", async () => {
  await add("first", "g");
  await transact(async (tx) => {
    const acceptance = await jobs.accept(tx, TYPE, { dueBySec: 0, countMax: 5 });
    if (acceptance.kind === "none-due" || acceptance.held.length > 1) return;
    const second = { type: TYPE, id: "second" };
    await kv.transact((other) => jobs.add(other, second, {}, { group: "g" }));
  });
  expect((await kv.read((tx) => jobs.counts.read(tx, TYPE))).running).toBe(2);
});

test("job counters are kept per type, group and state", async () => {
  for (const id of ["a1", "a2", "a3"]) await add(id, "a");
  await add("b1", "b");
  await add("plain");
  const { held } = await acceptSome(2);
  await finish(held[0] as HeldJob);
  await remove("b1");
  for (const group of [undefined, "a", "b"]) {
    const [counted, recounted] = await kv.read((tx) =>
      Promise.all([jobs.counts.read(tx, TYPE, group), jobs.counts.recount(tx, TYPE, group)]),
    );
    expect(counted).toEqual(recounted);
  }
  const all = await kv.read((tx) => jobs.counts.read(tx, TYPE));
  expect(all.pending + all.running + all.finished).toBe(4);
});

test("the longest wait is that of the job with the earliest due time in all groups", async () => {
  const longest = () => jobs.groups.longestDueSec(kv, TYPE);
  expect(await longest()).toBeUndefined();
  const now = Math.floor(nowSec());
  await add("future", "f", now + 1_000);
  expect(await longest()).toBeUndefined();
  await add("young", "a", now - 10);
  await add("old", "b", now - 50);
  await add("older", "a", now - 40);
  expect(await longest()).toBe(now - 50);
  // The acceptor accepts the job `old` or `older`, and marks both groups as ready.
  const job = await accept(now);
  expect(await longest()).toBe(job?.id === "old" ? now - 40 : now - 50);
});

test("the longest wait is found even if its job is in the last of many groups", async () => {
  const now = Math.floor(nowSec());
  await charge(["last", 100_000]);
  await add("waiting", "last", now - 99);
  const groups = Array.from({ length: 600 }, (_, number) => `g${number}`);
  await transact(async (tx) => {
    for (const group of groups) {
      const plan = { group, scheduledAtSec: now - 10 };
      for (const id of ["a", "b"])
        await jobs.add(tx, { type: TYPE, id: `${group}-${id}` }, {}, plan);
    }
  });
  // Each acceptance marks several groups with due jobs as ready, but accepts jobs from only some of
  // them.
  for (let count = 0; count < groups.length / 4; count++) await accept(now);
  expect(await jobs.groups.longestDueSec(kv, TYPE)).toBe(now - 99);
});

const sweep = (after?: string, limit = 100) =>
  transact((tx) => jobs.idleGroups.forget(tx, TYPE, { after, limit }));

/** Returns the number of rows in the queue that name the group. */
async function rowsOf(group: string): Promise<number> {
  const rows = await kv.read((tx) => tx.getRangePage(JOBS.range()));
  return rows.entries.filter(({ key }) => JOBS.unpack(key).includes(group)).length;
}

async function runAndRemove(id: string, group: string): Promise<void> {
  await add(id, group);
  const { held } = await acceptSome(1);
  await charge([group, 1000]);
  await finish(held[0] as HeldJob);
  await remove(id);
}

test("a group without jobs is removed only after its usage has decayed", async () => {
  await runAndRemove("job", "left");
  expect((await sweep()).forgottenCount).toBe(0);
  const usedThen = await used("left");
  expect(usedThen).toBeGreaterThan(900);
  await add("job", "left");
  expect(await used("left")).toBe(usedThen);
  await remove("job");
  await pass(6 * 3600);
  expect((await sweep()).forgottenCount).toBe(1);
  expect(await rowsOf("left")).toBe(0);
  expect(await kv.read((tx) => jobs.counts.read(tx, TYPE, "left"))).toEqual({
    pending: 0,
    running: 0,
    finished: 0,
  });
});

test("a group is kept while it has a job in any state or has configured shares", async () => {
  await add("finished", "done");
  const { held } = await acceptSome(1);
  await finish(held[0] as HeldJob);
  await add("running", "busy");
  await acceptSome(1);
  await add("waiting", "patient");
  await setShares("named", 7);
  await runAndRemove("job", "named");
  await pass(24 * 3600);
  expect(await sweep()).toEqual({ forgottenCount: 0, last: undefined });
  expect((await standing("named")).shares).toBe(7);
});

test("groups are scanned in pages", async () => {
  for (const group of ["a", "b", "c"]) await runAndRemove("job", group);
  await pass(24 * 3600);
  const first = await sweep(undefined, 2);
  expect(first).toEqual({ forgottenCount: 2, last: "b" });
  expect(await sweep(first.last, 2)).toEqual({ forgottenCount: 1, last: undefined });
});

test("a group keeps its counters if it gets a job while a scan removes idle groups", async () => {
  await runAndRemove("job", "back");
  await pass(24 * 3600);
  let isFirst = true;
  await transact(async (tx) => {
    const { forgottenCount } = await jobs.idleGroups.forget(tx, TYPE, {
      after: undefined,
      limit: 9,
    });
    expect(forgottenCount).toBe(isFirst ? 1 : 0);
    if (isFirst)
      await kv.transact((other) =>
        jobs.add(other, { type: TYPE, id: "new" }, {}, { group: "back" }),
      );
    isFirst = false;
  });
  expect((await kv.read((tx) => jobs.counts.read(tx, TYPE, "back"))).pending).toBe(1);
});

test("after one transaction changes several jobs concurrently, a group is due when its first job is due", async () => {
  const due = [300, 100, 200];
  const name = (index: number) => ({ type: TYPE, id: `j${index}` });
  await transact((tx) =>
    Promise.all(
      due.map((scheduledAtSec, index) =>
        jobs.add(tx, name(index), {}, { group: "g", scheduledAtSec }),
      ),
    ),
  );
  expect(await firstDueSec()).toBe(100);
  await transact((tx) => Promise.all([jobs.remove(tx, name(0)), jobs.remove(tx, name(1))]));
  expect(await firstDueSec()).toBe(200);
  await transact((tx) =>
    Promise.all([
      jobs.remove(tx, name(2)),
      jobs.add(tx, name(3), {}, { group: "g", scheduledAtSec: 400 }),
    ]),
  );
  expect(await firstDueSec()).toBe(400);
  await remove("j3");
  expect(await firstDueSec()).toBeUndefined();
});

const setLimit = (group: string, countMax: number | undefined) =>
  transact((tx) => jobs.setGroupLimit(tx, TYPE, group, countMax));

test("a group with a limit runs at most that many jobs at a time, and does not delay other groups", async () => {
  await setLimit("a", 2);
  for (const id of ["a1", "a2", "a3"]) await add(id, "a");
  await charge(["b", 1000]);
  await add("b1", "b");
  const nowDue = Math.floor(nowSec());
  expect((await acceptSome(10, nowDue)).jobs.map(({ id }) => id)).toEqual(["a1", "a2"]);
  expect((await acceptSome(10, nowDue)).jobs.map(({ id }) => id)).toEqual(["b1"]);
  expect((await acceptSome(10, nowDue)).jobs).toEqual([]);
  // Acceptors do not poll for the due jobs, because their group has reached its limit.
  expect(await firstDueSec()).toBeGreaterThan(nowDue);
});

test.each([
  ["another job of the group has ended", (held: HeldJob) => finish(held)],
  ["another job of the group is removed", ({ id }: HeldJob) => remove(id)],
  ["the limit is raised", () => setLimit("a", 2)],
  ["the limit is removed", () => setLimit("a", undefined)],
])(
  "a job that waits because of its group's limit is accepted as soon as %s",
  async (_, release) => {
    await setLimit("a", 1);
    await add("a1", "a");
    await add("a2", "a");
    const nowDue = Math.floor(nowSec());
    const [held] = (await acceptSome(10, nowDue)).held;
    const acceptance = await transact((tx) =>
      jobs.accept(tx, TYPE, { dueBySec: nowDue, countMax: 10 }),
    );
    if (acceptance.kind !== "none-due") throw new Error("There is no room");
    const { enqueued } = acceptance;
    await release(held as HeldJob);
    await world.until(enqueued.fired(new AbortController().signal));
    expect((await acceptSome(10, nowDue)).jobs.map(({ id }) => id)).toEqual(["a2"]);
  },
);

test("two concurrent acceptors together do not exceed a group's limit", async () => {
  await setLimit("a", 3);
  for (let number = 0; number < 12; number++) await add(`a${number}`, "a");
  const nowDue = Math.floor(nowSec());
  const found = await Promise.all([
    acceptSome(2, nowDue),
    acceptSome(2, nowDue),
    acceptSome(2, nowDue),
  ]);
  const ids = found.flatMap(({ jobs: accepted }) => accepted.map(({ id }) => id));
  expect(new Set(ids).size).toBe(3);
  expect(ids).toHaveLength(3);
});

test("a group is over capacity if it runs as many jobs as its limit and other jobs of the group are due", async () => {
  await setLimit("a", 1);
  for (const id of ["a1", "a2", "a3"]) await add(id, "a");
  await add("b1", "b");
  const nowDue = Math.floor(nowSec());
  const crowded = () =>
    kv.read((tx) =>
      jobs.groups.crowded(
        tx,
        TYPE,
        new Map([
          ["a", 1],
          ["b", 1],
        ]),
        { dueBySec: nowDue, limit: 10 },
      ),
    );
  expect([...(await crowded())]).toEqual([]);
  await acceptSome(10, nowDue);
  await acceptSome(10, nowDue);
  expect([...(await crowded())]).toEqual([["a", 2]]);
});

test("a group whose limit is lowered reports its excess jobs even if no other job waits", async () => {
  for (const id of ["a1", "a2", "a3"]) await add(id, "a");
  const nowDue = Math.floor(nowSec());
  await acceptSome(10, nowDue);
  const due = { dueBySec: nowDue, limit: 10 };
  const crowded = (heldCount = 3) =>
    kv.read((tx) => jobs.groups.crowded(tx, TYPE, new Map([["a", heldCount]]), due));
  for (const [limit, count] of [
    [4, undefined],
    [3, undefined],
    [1, 2],
  ] as const) {
    await setLimit("a", limit);
    expect((await crowded()).get("a")).toBe(count);
  }
  // Each worker stops its share of the excess, rounded up. One worker holds one of the jobs, and
  // the other worker holds two.
  expect((await crowded(1)).get("a")).toBe(1);
  expect((await crowded(2)).get("a")).toBe(2);
  await add("a4", "a");
  expect((await crowded()).get("a")).toBe(3);
});

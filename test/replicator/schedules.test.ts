/**
 * Jobs with a schedule, in virtual time. To simulate a week: `SCHEDULE_HOURS=168 npx vitest run
 * test/replicator/schedules.test.ts`.
 */
import { afterEach, expect, test } from "vitest";
import { parseReplication } from "../../src/replicator/index.ts";
import { World } from "../simulation/kernel/world.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

type Node = ReturnType<typeof openVirtualNode>;

const JOE = { userName: "joe", isAdmin: true };
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const HOURS = Number(process.env.SCHEDULE_HOURS ?? 4);
/** Maximum accepted delay of a run's start. */
const LATE_MS_MAX = 2000;

const nodes: Node[] = [];
afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

async function open(world = new World("schedules"), config = {}): Promise<Node> {
  const node = openVirtualNode({ world, config: { parkAfterSec: 10, ...config } });
  nodes.push(node);
  await node.start();
  return node;
}

/** Returns a list to which the start time of each future run is added. */
function beginnings({ world }: Node): number[] {
  const times: number[] = [];
  world.listeners.push((name) => {
    if (name === "replication.started") times.push(world.time.nowMs);
  });
  return times;
}

async function startJob(node: Node, schedule: string, more = {}): Promise<string> {
  const asked = { source: "a", target: "b", create_target: true, schedule, ...more };
  return node.world.until(node.replicator.start(parseReplication(asked), JOE));
}

const pass = ({ world }: Node, ms: number): Promise<boolean> =>
  world.time.run(world.time.nowMs + ms);

async function hasArrived({ world, kv, databases }: Node, id: string): Promise<boolean> {
  const read = () => kv.read(async (tx) => (await databases.open(tx, "b")).documents.read(tx, id));
  return (await world.until(read().catch(() => undefined))) !== undefined;
}

const find = (node: Node, id: string) => node.world.until(node.replicator.find(id));

test(`in ${HOURS} hours of schedules, each run begins on time, and none is skipped`, async () => {
  const node = await open();
  const { world } = node;
  await node.createDatabase("a");
  const times = new Map<string, number[]>();
  world.listeners.push((name, fields) => {
    if (name !== "replication.started") return;
    const id = String(fields.jobId);
    times.set(id, [...(times.get(id) ?? []), world.time.nowMs]);
  });
  const quarterly = await startJob(node, "every 15m");
  const hourly = await startJob(node, "0 * * * * Europe/Berlin", { target: "c" });
  await pass(node, HOURS * HOUR_MS + MINUTE_MS);
  const began = times.get(quarterly) ?? [];
  const pauses = began.slice(1).map((time, index) => time - (began[index] as number));
  expect(Math.min(...pauses)).toBeGreaterThan(15 * MINUTE_MS - 1000);
  expect(Math.max(...pauses)).toBeLessThanOrEqual(15 * MINUTE_MS + LATE_MS_MAX);
  const onTheHour = times.get(hourly) ?? [];
  expect(onTheHour).toHaveLength(HOURS);
  // Virtual time is a sum of many pauses. A node's clock rounds this sum, so the test rounds it as
  // well.
  for (const time of onTheHour) expect(Math.round(time) % HOUR_MS).toBeLessThanOrEqual(LATE_MS_MAX);
  expect(await find(node, quarterly)).toMatchObject({ state: "pending", data: { errorCount: 0 } });
});

test("each run starts only when it is due, and copies the changes since the previous run", async () => {
  const node = await open();
  await node.createDatabase("a");
  await node.put("a", "first", {});
  const id = await startJob(node, "every 1h");
  await pass(node, MINUTE_MS);
  expect(await hasArrived(node, "first")).toBe(true);
  await node.put("a", "second", {});
  await pass(node, 50 * MINUTE_MS);
  expect(await hasArrived(node, "second")).toBe(false);
  const [measure] = await node.world.until(
    node.replicator.measures.of([(await find(node, id)) as never]),
  );
  expect(measure?.heldBackBy).toBe("schedule");
  await pass(node, 10 * MINUTE_MS);
  expect(await hasArrived(node, "second")).toBe(true);
});

test("a single run replaces all runs that were missed while no node ran", async () => {
  const world = new World("missed");
  const first = await open(world);
  await first.createDatabase("a");
  await startJob(first, "0 * * * *");
  await pass(first, HOUR_MS);
  await first.stop();
  nodes.splice(0);
  await world.time.run(world.time.nowMs + 10 * HOUR_MS + 30 * MINUTE_MS);
  const second = openVirtualNode({ world, config: { parkAfterSec: 10 } });
  nodes.push(second);
  const began = beginnings(second);
  await second.start();
  await pass(second, 25 * MINUTE_MS);
  expect(began).toHaveLength(1);
  await pass(second, HOUR_MS);
  expect(began).toHaveLength(2);
});

test("`retry` runs a job before its scheduled time, and a paused job does not run at its scheduled time", async () => {
  const node = await open();
  await node.createDatabase("a");
  const id = await startJob(node, "every 1h");
  await pass(node, MINUTE_MS);
  await node.put("a", "asked", {});
  const { commands } = node.replicator;
  expect(await node.world.until(commands.retry(id, { userName: "joe" }))).toBe("done");
  await pass(node, MINUTE_MS);
  expect(await hasArrived(node, "asked")).toBe(true);
  expect(await node.world.until(commands.pause(id, { userName: "joe" }))).toBe("done");
  await node.put("a", "paused", {});
  await pass(node, 2 * HOUR_MS);
  expect(await hasArrived(node, "paused")).toBe(false);
});

test("a continuous job with a daily time window copies only within this window", async () => {
  const node = await open();
  await node.createDatabase("a");
  const { nowMs } = node.world.time;
  const opensMs = Math.ceil(nowMs / MINUTE_MS) * MINUTE_MS + 5 * MINUTE_MS;
  const clock = (ms: number): string => new Date(ms).toISOString().slice(11, 16);
  const hours = `between ${clock(opensMs)} and ${clock(opensMs + 10 * MINUTE_MS)}`;
  const id = await startJob(node, hours, { continuous: true });
  await node.put("a", "early", {});
  await node.world.time.run(opensMs - 1000);
  expect(await hasArrived(node, "early")).toBe(false);
  await pass(node, 10_000);
  expect(await hasArrived(node, "early")).toBe(true);
  // The job does not park within its time window, because a watcher could wake it outside the
  // window.
  await pass(node, 5 * MINUTE_MS);
  await node.put("a", "within", {});
  await pass(node, 10_000);
  expect(await hasArrived(node, "within")).toBe(true);
  await node.world.time.run(opensMs + 11 * MINUTE_MS);
  const entry = await find(node, id);
  expect(entry).toMatchObject({ state: "pending" });
  expect(((entry?.scheduledAtSec ?? 0) * 1000) % DAY_MS).toBe(opensMs % DAY_MS);
  await node.put("a", "late", {});
  await pass(node, HOUR_MS);
  expect(await hasArrived(node, "late")).toBe(false);
});

test.each([
  ["watched", {}, LATE_MS_MAX],
  ["not watched", { parkAfterSec: 0 }, MINUTE_MS + LATE_MS_MAX],
])(
  "a job with a change threshold begins when its source has this number of changes (source is %s)",
  async (_, config, lateMs) => {
    const node = await open(new World("changes"), config);
    await node.createDatabase("a");
    const id = await startJob(node, "after 3 changes");
    for (const name of ["one", "two"]) {
      await node.put("a", name, {});
      await pass(node, 10 * MINUTE_MS);
    }
    expect(await hasArrived(node, "one")).toBe(false);
    expect(await find(node, id)).toMatchObject({ data: { errorCount: 0 } });
    await node.put("a", "three", {});
    await pass(node, lateMs);
    for (const name of ["one", "two", "three"]) expect(await hasArrived(node, name)).toBe(true);
    await node.put("a", "four", {});
    await pass(node, HOUR_MS);
    expect(await hasArrived(node, "four")).toBe(false);
  },
);

test.each([
  ["watched", {}],
  ["not watched", { parkAfterSec: 0 }],
])(
  "`retry` runs a job whose source has fewer changes than its threshold (source is %s)",
  async (_, config) => {
    const node = await open(new World("asked"), config);
    await node.createDatabase("a");
    const id = await startJob(node, "after 3 changes");
    await node.put("a", "one", {});
    // Advances time to a moment between two checks of the source for changes.
    await pass(node, 10.5 * MINUTE_MS);
    const { commands } = node.replicator;
    expect(await node.world.until(commands.retry(id, { userName: "joe" }))).toBe("done");
    await pass(node, MINUTE_MS);
    expect(await hasArrived(node, "one")).toBe(true);
    await node.put("a", "two", {});
    await pass(node, HOUR_MS);
    expect(await hasArrived(node, "two")).toBe(false);
  },
);

test("a job that gets no slot in its daily time window waits for the next window", async () => {
  const world = new World("late");
  const frontend = openVirtualNode({ world });
  nodes.push(frontend);
  await frontend.start({ runsJobs: false });
  await frontend.createDatabase("a");
  const opensMs = Math.ceil(world.time.nowMs / MINUTE_MS) * MINUTE_MS + 5 * MINUTE_MS;
  const clock = (ms: number): string => new Date(ms).toISOString().slice(11, 16);
  const hours = `between ${clock(opensMs)} and ${clock(opensMs + 10 * MINUTE_MS)}`;
  const id = await startJob(frontend, hours, { continuous: true });
  await pass(frontend, 20 * MINUTE_MS);
  const node = await open(world);
  const began = beginnings(node);
  await pass(node, MINUTE_MS);
  const entry = await find(node, id);
  expect(entry).toMatchObject({ state: "pending", data: { errorCount: 0 } });
  expect(((entry?.scheduledAtSec ?? 0) * 1000) % DAY_MS).toBe(opensMs % DAY_MS);
  expect(began).toEqual([]);
  // An operator is allowed to start a job outside its time window.
  const { commands } = node.replicator;
  expect(await world.until(commands.retry(id, { userName: "joe" }))).toBe("done");
  await pass(node, MINUTE_MS);
  expect(began).toHaveLength(1);
});

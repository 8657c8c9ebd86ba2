/** Settings that change while jobs are running. In virtual time. */
import { expect, test } from "vitest";
import { ActivityMonitor } from "../../src/jobs/index.ts";
import { parseReplication, REPLICATION_JOB_TYPE } from "../../src/replicator/index.ts";
import { World } from "../simulation/kernel/world.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

const JOE = { userName: "joe", isAdmin: false };
const FOREVER = new AbortController().signal;

/** Returns `values`, which a test can change, and `config`, which reads `values`. */
function live<T extends object>(values: T): { readonly values: T; readonly config: T } {
  const config = {} as T;
  for (const name of Object.keys(values) as (keyof T)[]) {
    Object.defineProperty(config, name, { enumerable: true, get: () => values[name] });
  }
  return { values, config };
}

test.each([
  { from: 60, to: 4 },
  { from: 4, to: 60 },
])(
  "changing an activity timeout from $from s to $to s makes no running job lose its lock",
  async ({ from, to }) => {
    const world = new World("timeout");
    const node = openVirtualNode({ world, config: { activityTimeoutSec: from } });
    await node.start();
    for (const name of ["a", "b"]) await node.createDatabase(name);
    const body = { source: "a", target: "b", continuous: true };
    const id = await world.until(node.replicator.start(parseReplication(body), JOE));
    await world.until(node.replicator.started(id, FOREVER));
    await world.time.run(world.time.nowMs + 100_000);
    // The second node has the new timeout, which then applies to all nodes. The second node's
    // monitor has not seen the earlier timeout.
    const other = openVirtualNode({ world, config: { activityTimeoutSec: to } });
    await other.start();
    const fresh = new AbortController();
    const { runtime, kv, jobs } = other;
    const monitor = new ActivityMonitor(runtime, kv, jobs, REPLICATION_JOB_TYPE).run(fresh.signal);
    await world.time.run(world.time.nowMs + 400_000);
    expect(node.names).not.toContain("jobs.expired");
    expect(await world.until(kv.read((tx) => jobs.getTypeTimeout(tx, REPLICATION_JOB_TYPE)))).toBe(
      to,
    );
    fresh.abort();
    await world.until(monitor);
    await other.stop();
    await node.stop();
  },
);

test("a changed timeout applies to a job that is already silent", async () => {
  const world = new World("silence");
  const node = openVirtualNode({ world, config: { activityTimeoutSec: 60 } });
  await node.start();
  const { kv, jobs } = node;
  const stored = kv.transact(async (tx) => {
    await jobs.setTypeTimeout(tx, REPLICATION_JOB_TYPE, 4);
    await jobs.setTypeTimeout(tx, "other", 4);
    await jobs.add(tx, { type: "other", id: "silent" }, {});
    await jobs.accept(tx, "other", { dueBySec: 0, countMax: 1 });
  });
  await world.until(stored);
  const stopping = new AbortController();
  const monitor = new ActivityMonitor(node.runtime, kv, jobs, "other").run(stopping.signal);
  const isTaken = (): boolean => node.names.includes("jobs.expired");
  expect(await world.time.run(world.time.nowMs + 12_000, isTaken)).toBe(true);
  stopping.abort();
  await world.until(monitor);
  await node.stop();
});

test("shortening the scheduler cycle takes effect immediately", async () => {
  const { values, config } = live({ intervalSec: 86_400, runSecMin: 1, jobsMax: 1 });
  const node = openVirtualNode({ config });
  const { world, replicator } = node;
  await node.start();
  for (const name of ["a", "b", "c"]) await node.createDatabase(name);
  for (const target of ["b", "c"]) {
    const body = { source: "a", target, continuous: true };
    await world.until(replicator.start(parseReplication(body), JOE));
  }
  await world.time.run(world.time.nowMs + 600_000);
  expect(node.names).not.toContain("replication.rotated");
  values.intervalSec = 10;
  const isRotated = (): boolean => node.names.includes("replication.rotated");
  // Within 30 s, a check finds waiting jobs, and the next cycle preempts a job.
  expect(await world.time.run(world.time.nowMs + 30_000, isRotated)).toBe(true);
  await node.stop();
});

test("a node fills additional slots as soon as the scheduler is notified that the setting has changed", async () => {
  const { values, config } = live({ jobsMax: 1, intervalSec: 86_400 });
  const node = openVirtualNode({ config });
  const { world, replicator, scheduler } = node;
  await node.start();
  for (const name of ["a", "b", "c"]) await node.createDatabase(name);
  for (const target of ["b", "c"]) {
    const body = { source: "a", target, continuous: true };
    await world.until(replicator.start(parseReplication(body), JOE));
  }
  const hasAccepted = (count: number) => (): boolean =>
    node.names.filter((name) => name === "replication.accepted").length === count;
  expect(await world.time.run(world.time.nowMs + 1000, hasAccepted(1))).toBe(true);
  values.jobsMax = 2;
  scheduler.settingsChanged();
  expect(await world.time.run(world.time.nowMs + 100, hasAccepted(2))).toBe(true);
  await node.stop();
});

test.each([
  { ageSec: 20, runsJobs: false },
  { ageSec: 1000, runsJobs: true },
])(
  "an ended transient job is removed within a tenth of $ageSec s after its maximum age (remaining node has runsJobs $runsJobs)",
  async ({ ageSec, runsJobs }) => {
    const world = new World("age");
    const { values, config } = live({ transientJobAgeSecMax: 86_400 });
    const worker = openVirtualNode({ world, config });
    await worker.start();
    for (const name of ["a", "b"]) await worker.createDatabase(name);
    const replication = parseReplication({ source: "a", target: "b" });
    const id = await world.until(worker.replicator.start(replication, JOE));
    await world.until(worker.replicator.ended(id, FOREVER));
    const endedMs = world.time.nowMs;
    await worker.stop();
    const node = openVirtualNode({ world, config });
    await node.start({ runsJobs });
    values.transientJobAgeSecMax = ageSec;
    const find = () => world.until(node.replicator.find(id));
    await world.time.run(endedMs + ageSec * 1000 - 1);
    expect(await find()).toBeDefined();
    await world.time.run(endedMs + ageSec * 1100 + 2000);
    expect(await find()).toBeUndefined();
    await node.stop();
  },
);

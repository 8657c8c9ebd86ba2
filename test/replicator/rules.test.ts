/**
 * Rules, in virtual time. A rule has a job for each database whose name matches, as long as the
 * database exists and matches.
 */
import { afterEach, expect, test } from "vitest";
import type { ReadTransaction } from "../../src/kv/index.ts";
import { World } from "../simulation/kernel/world.ts";
import { indexProblems } from "../support/index-problems.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

type Node = ReturnType<typeof openVirtualNode>;

const ROOT = { userName: "root" };
const USERS = { source: "local", target: "copy-{1}", databases: ["user-*"] };

const nodes: Node[] = [];
afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

async function open(options: Parameters<typeof openVirtualNode>[0] = {}): Promise<Node> {
  const node = openVirtualNode({ ...options, config: { parkAfterSec: 2, ...options.config } });
  nodes.push(node);
  await node.start();
  return node;
}

const put = ({ world, replicator }: Node, members: object, name = "users") =>
  world.until(replicator.rules.put(name, { ...members }, ROOT));

async function names({ world, kv, databases }: Node): Promise<readonly string[]> {
  return world.until(kv.read((tx) => databases.names(tx)));
}

async function summary({ world, replicator }: Node, name = "users") {
  const rule = await world.until(replicator.rules.get(name));
  if (rule === undefined) throw new Error(`There is no rule ${name}`);
  return rule.summary;
}

/** Advances time until the rule's summary has the expected members. */
async function once(node: Node, expected: Partial<Awaited<ReturnType<typeof summary>>>) {
  const untilMs = node.world.time.nowMs + 3_600_000;
  for (;;) {
    const found = await summary(node);
    if (node.world.time.nowMs > untilMs) throw new Error(`Not so: ${JSON.stringify(found)}`);
    const parts = Object.entries(expected);
    if (parts.every(([name, value]) => found[name as keyof typeof found] === value)) return found;
    await node.world.time.run(node.world.time.nowMs + 500);
  }
}

/** Advances time until `passes` accepts the result of `read`. */
async function onceRead<T>(
  { world, kv }: Node,
  read: (tx: ReadTransaction) => Promise<T>,
  passes: (found: T) => boolean,
): Promise<void> {
  const untilMs = world.time.nowMs + 3_600_000;
  while (!passes(await world.until(kv.read(read)))) {
    if (world.time.nowMs > untilMs) throw new Error("Not so within an hour");
    await world.time.run(world.time.nowMs + 500);
  }
}

const onceCopied = (node: Node, name: string, id: string): Promise<void> =>
  onceRead(
    node,
    async (tx) => (await node.databases.find(tx, name))?.documents.read(tx, id),
    (found) => found !== undefined,
  );

async function remove({ world, kv, databases }: Node, name: string): Promise<void> {
  await world.until(kv.transact((tx) => databases.remove(tx, name)));
}

async function jobsOf({ world, replicator }: Node, name = "users") {
  const uuid = await world.until(replicator.rules.uuidOf(name));
  const filter = { databaseUuid: uuid ?? "" };
  return world.until(replicator.lists.page({ filter, limit: 100 }));
}

test("a rule copies databases that match, and starts to copy those created later within ten seconds", async () => {
  const node = await open();
  for (const name of ["user-a", "user-b", "other"]) await node.createDatabase(name);
  await node.put("user-a", "one", {});
  expect(await put(node, USERS)).toBe("created");
  await onceCopied(node, "copy-a", "one");
  await once(node, { jobCount: 2, parkedCount: 2, matchedCount: 2, followedBy: "feed" });
  const createdAtMs = node.world.time.nowMs;
  await node.createDatabase("user-c");
  await once(node, { jobCount: 3 });
  expect(node.world.time.nowMs - createdAtMs).toBeLessThan(10_000);
  await node.put("user-c", "two", {});
  await onceCopied(node, "copy-c", "two");
  expect(await names(node)).toEqual([
    "copy-a",
    "copy-b",
    "copy-c",
    "other",
    "user-a",
    "user-b",
    "user-c",
  ]);
  const { entries, total } = await jobsOf(node);
  expect(total).toBe(3);
  expect(entries.map(({ data }) => [data.rule, data.userName])).toEqual(
    entries.map(() => ["users", "root"]),
  );
});

test("if a database is deleted, its job fails and is kept, unless the rule requires that the job is cancelled", async () => {
  const node = await open();
  for (const name of ["user-a", "user-b", "user-c"]) await node.createDatabase(name);
  await put(node, USERS);
  await once(node, { parkedCount: 3 });
  await remove(node, "user-a");
  await once(node, { jobCount: 3, failingCount: 1 });
  expect(await put(node, { ...USERS, delete: "stop" })).toBe("changed");
  await once(node, { jobCount: 2, failingCount: 0 });
  await remove(node, "user-b");
  const removedAtMs = node.world.time.nowMs;
  await once(node, { jobCount: 1, parkedCount: 1 });
  expect(node.world.time.nowMs - removedAtMs).toBeLessThan(10_000);
  await node.createDatabase("user-b");
  await node.put("user-b", "anew", {});
  await onceCopied(node, "copy-b", "anew");
});

test("if a rule's job requests the same replication as a document's job, the rule's job runs once the document is deleted", async () => {
  const node = await open();
  const { world, replicator } = node;
  for (const name of ["_replicator", "user-a", "copy-a"]) await node.createDatabase(name);
  const body = { source: "user-a", target: "copy-a", continuous: true, create_target: true };
  await node.put("_replicator", "mine", body);
  const { jobId } = await node.document("mine", ({ state }) => state === "running");
  await put(node, USERS);
  await once(node, { jobCount: 1, failingCount: 1 });
  const { entries } = await jobsOf(node);
  expect(entries).toMatchObject([
    { state: "crashing", data: { failure: { error: "duplicate_job" } } },
  ]);
  await world.until(replicator.commands.cancel(jobId, ROOT));
  await node.put("user-a", "one", {});
  await onceCopied(node, "copy-a", "one");
  await once(node, { parkedCount: 1, failingCount: 0 });
});

test("changing a rule changes its jobs, and cancels the jobs of databases that no longer match", async () => {
  const node = await open();
  for (const name of ["user-a", "user-b", "team-c"]) await node.createDatabase(name);
  await node.put("user-a", "one", {});
  await put(node, USERS);
  await once(node, { parkedCount: 2 });
  const before = await jobsOf(node);
  expect(await put(node, USERS)).toBe("same");
  await put(node, {
    ...USERS,
    target: "other-{1}",
    except: ["user-b"],
    databases: ["user-*", "team-*"],
  });
  await onceCopied(node, "other-a", "one");
  await once(node, { jobCount: 2, parkedCount: 2 });
  const after = await jobsOf(node);
  const targets = after.entries.map(({ data }) => data.replication?.target);
  expect(targets).toEqual([
    { kind: "local", database: "other-c" },
    { kind: "local", database: "other-a" },
  ]);
  expect(before.entries.map(({ jobId }) => jobId)).toContain(after.entries[1]?.jobId);
});

test("a paused job stays paused when a change of the rule replaces the job", async () => {
  const node = await open();
  const { world, replicator } = node;
  for (const name of ["user-a", "user-b"]) await node.createDatabase(name);
  await put(node, USERS);
  await once(node, { parkedCount: 2 });
  const idOf = async (database: string) => {
    const { entries } = await jobsOf(node);
    return entries.find(({ jobId }) => jobId.endsWith(database))?.jobId ?? "";
  };
  const paused = await idOf("user-a");
  const decider = { ...ROOT, why: "moved" };
  expect(await world.until(replicator.commands.pause(paused, decider))).toBe("done");
  await put(node, { ...USERS, options: { worker_batch_size: 7 } });
  for (const name of ["user-a", "user-b"]) await node.put(name, "one", {});
  await onceCopied(node, "copy-b", "one");
  await world.time.run(world.time.nowMs + 600_000);
  const { entries } = await jobsOf(node);
  const sizes = entries.map(({ data }) => data.replication?.options.workerBatchSize);
  expect(sizes).toEqual([7, 7]);
  const copy = await world.until(
    node.kv.read(async (tx) => (await node.databases.open(tx, "copy-a")).documents.read(tx, "one")),
  );
  expect(copy).toBeUndefined();
  const [control] = await world.until(replicator.commands.controls([paused]));
  expect(control).toMatchObject({ isPaused: true, events: [{ action: "pause", why: "moved" }] });
  expect(await world.until(replicator.commands.resume(await idOf("user-a"), ROOT))).toBe("done");
  await onceCopied(node, "copy-a", "one");
});

test("changing a rule does not interrupt a job that the change does not affect", async () => {
  const node = await open();
  await node.createDatabase("user-a");
  const rule = { ...USERS, security: true };
  await put(node, rule);
  await node.world.time.run(node.world.time.nowMs + 120_000);
  await once(node, { parkedCount: 1 });
  const times = async () => {
    const { addedTimeMs, lastStartMs } = (await jobsOf(node)).entries[0]?.data ?? {};
    return [addedTimeMs, lastStartMs];
  };
  const before = await times();
  await put(node, { ...rule, databases: ["user-*", "team-*"] });
  await node.world.time.run(node.world.time.nowMs + 120_000);
  expect(await times()).toEqual(before);
});

test("deleting a rule cancels its jobs in pages, and a new rule of the same name has its own jobs", async () => {
  const node = await open();
  for (let number = 0; number < 120; number++) await node.createDatabase(`user-${number}a`);
  await put(node, { ...USERS, databases: ["user-*a"], target: "copy-{db}" });
  await once(node, { jobCount: 120 });
  const uuid = await node.world.until(node.replicator.rules.uuidOf("users"));
  expect(await node.world.until(node.replicator.rules.remove("users", ROOT))).toBe(true);
  expect(await node.world.until(node.replicator.rules.get("users"))).toBeUndefined();
  await put(node, { ...USERS, databases: ["user-1a"], target: "copy-{db}" });
  await once(node, { jobCount: 1, parkedCount: 1 });
  const page = { filter: { databaseUuid: String(uuid) }, limit: 1 };
  while ((await node.world.until(node.replicator.lists.page(page))).total !== 0) {
    await node.world.time.run(node.world.time.nowMs + 500);
  }
  expect(await node.world.until(node.replicator.rules.remove("absent", ROOT))).toBe(false);
  expect(await node.world.until(node.kv.read((tx) => indexProblems(tx, node)))).toEqual([]);
});

test("a rule reports an invalid target name, and copies the other databases", async () => {
  const node = await open();
  for (const name of ["user-a", "user-7", "user-8"]) await node.createDatabase(name);
  await put(node, { ...USERS, target: "http://far.example/{1}" });
  const found = await once(node, { jobCount: 1, matchedCount: 3, faultCount: 2 });
  expect(found.faults).toEqual([
    { database: "user-7", reason: '"7" is not a valid database name, but would be the target' },
    { database: "user-8", reason: '"8" is not a valid database name, but would be the target' },
  ]);
});

test("another node takes over a rule if the node that follows the rule dies", async () => {
  const world = new World("rules");
  const first = await open({ world });
  for (let number = 0; number < 50; number++) await first.createDatabase(`user-a${number}`);
  await put(first, USERS);
  await once(first, { jobCount: 40 }).catch(() => {});
  const second = await open({ world });
  first.simulated.crash();
  nodes.splice(0, 1);
  await second.createDatabase("user-late");
  await once(second, { jobCount: 51, parkedCount: 51 });
});

test("a security object is copied before the documents, and again whenever it changes", async () => {
  const node = await open();
  const { world, kv, databases } = node;
  const setSecurity = (name: string, text: string) =>
    world.until(kv.transact(async (tx) => (await databases.open(tx, name)).setSecurity(tx, text)));
  const onceSecurity = (name: string, text: string) =>
    onceRead(
      node,
      async (tx) => (await databases.find(tx, name))?.security(tx),
      (found) => found === text,
    );
  const of = (member: string) => JSON.stringify({ members: { names: [member], roles: [] } });
  for (const name of ["user-a", "user-b"]) await node.createDatabase(name);
  await setSecurity("user-a", of("joe"));
  await put(node, { ...USERS, security: true });
  await onceSecurity("copy-a", of("joe"));
  await once(node, { parkedCount: 2 });
  await setSecurity("user-b", of("ann"));
  await onceSecurity("copy-b", of("ann"));
  await once(node, { parkedCount: 2 });
  await setSecurity("user-b", of("eve"));
  await onceSecurity("copy-b", of("eve"));
});

test.each([
  [true, ["user-*"], { joe: "theirs", ann: "ours" }],
  [true, ["user-joe", "user-ann"], { joe: "theirs", ann: "theirs" }],
  [["copy-user-joe"], ["user-*"], { joe: "theirs", ann: "ours" }],
  [["copy-user-ann"], ["user-*"], { joe: "theirs", ann: "theirs" }],
  [["copy-*"], ["user-*"], { joe: "theirs", ann: "theirs" }],
] as const)(
  "an existing target receives the security object only if the rule names the target (`security` %j, databases %j): %j",
  async (security, patterns, expected) => {
    const node = await open();
    const { world, kv, databases } = node;
    const of = (member: string) => JSON.stringify({ members: { names: [member], roles: [] } });
    const set = (name: string, text: string) =>
      world.until(
        kv.transact(async (tx) => (await databases.open(tx, name)).setSecurity(tx, text)),
      );
    const securityOf = (name: string) => async (tx: ReadTransaction) =>
      (await databases.find(tx, `copy-user-${name}`))?.security(tx);
    for (const name of ["user-joe", "user-ann", "copy-user-ann"]) await node.createDatabase(name);
    await set("copy-user-ann", of("ours"));
    const rule = { source: "local", target: "copy-{db}", databases: patterns, security };
    await put(node, rule);
    await once(node, { parkedCount: 2 });
    for (const name of ["joe", "ann"]) await set(`user-${name}`, of("theirs"));
    await onceRead(node, securityOf("joe"), (found) => found === of("theirs"));
    await once(node, { parkedCount: 2 });
    // A target that existed before the rule does not count as created by the rule, even after a
    // change of the rule or a restart of its jobs.
    await put(node, { ...rule, options: { worker_processes: 1 } });
    await world.time.run(world.time.nowMs + 120_000);
    for (const [name, member] of Object.entries(expected)) {
      const found = await world.until(kv.read(securityOf(name)));
      expect([name, found]).toEqual([name, of(member)]);
    }
    await set("user-joe", of("theirs again"));
    await onceRead(node, securityOf("joe"), (found) => found === of("theirs again"));
  },
);

test("a rule does not copy design documents if it has design_documents: false", async () => {
  const node = await open();
  await node.createDatabase("user-a");
  await node.put("user-a", "_design/x", {});
  await node.put("user-a", "one", {});
  await put(node, { ...USERS, design_documents: false });
  await onceCopied(node, "copy-a", "one");
  await once(node, { parkedCount: 1 });
  const { world, kv, databases } = node;
  const info = await world.until(
    kv.read(async (tx) => (await databases.open(tx, "copy-a")).info(tx)),
  );
  expect(info.documentCount).toBe(1);
});

test("reducing a rule's number of jobs stops the excess jobs, at most max_churn at a time", async () => {
  // `parkAfterSec: 0` disables parking.
  const node = await open({
    config: { parkAfterSec: 0, intervalSec: 5, runSecMin: 10, jobsMax: 100, churnMax: 3 },
  });
  const { world, scheduler } = node;
  const stops: unknown[] = [];
  world.listeners.push((name, fields) => {
    if (name === "replication.rotated") stops.push(fields.stopped);
  });
  for (let number = 0; number < 8; number++) await node.createDatabase(`user-a${number}`);
  await put(node, USERS);
  await world.time.run(world.time.nowMs + 60_000);
  expect([scheduler.runningCount, stops]).toEqual([8, []]);
  await put(node, { ...USERS, concurrency: 2 });
  await world.time.run(world.time.nowMs + 30_000);
  expect(scheduler.runningCount).toBe(2);
  expect(stops.slice(0, 2)).toEqual([3, 3]);
  expect(Math.max(...stops.map(Number))).toBe(3);
});

test("a rule runs at most the configured number of jobs, and jobs that are always busy take turns", async () => {
  const node = await open({
    config: { parkAfterSec: 2, intervalSec: 5, runSecMin: 10, jobsMax: 100 },
  });
  const { world, jobs, kv } = node;
  let runningMax = 0;
  world.listeners.push((name) => {
    if (name !== "replication.accepted") return;
    void kv
      .read((tx) => jobs.counts.read(tx, "replication", "rule:users"))
      .then(({ running }) => {
        runningMax = Math.max(runningMax, running);
      });
  });
  const numbers = Array.from({ length: 8 }, (_, number) => number);
  for (const number of numbers) {
    await node.createDatabase(`user-a${number}`);
    await node.put(`user-a${number}`, "one", {});
  }
  await put(node, { ...USERS, concurrency: 2 });
  for (const number of numbers) await onceCopied(node, `copy-a${number}`, "one");
  await once(node, { parkedCount: 8 });
  expect(runningMax).toBe(2);
  // Three jobs are always busy, but only two jobs can run at a time. The other jobs must
  // nevertheless copy their changes.
  for (let second = 0; second < 60; second++) {
    for (const busy of [0, 1, 2]) await node.put(`user-a${busy}`, `busy-${second}`, {});
    if (second === 10) await node.put("user-a7", "two", {});
    await world.time.run(world.time.nowMs + 1000);
  }
  const waitsSinceMs = world.time.nowMs;
  await onceCopied(node, "copy-a7", "two");
  expect(world.time.nowMs).toBe(waitsSinceMs);
  await once(node, { parkedCount: 8 });
  expect(runningMax).toBe(2);
});

/**
 * Requests that a node with free slots sends to its store, and events that make the node poll the
 * queue. In virtual time.
 */
import { expect, test } from "vitest";
import { usageSec } from "../../src/jobs/index.ts";
import { parseReplication, REPLICATION_JOB_TYPE } from "../../src/replicator/index.ts";
import { newJobData } from "../../src/replicator/jobs/job-data.ts";
import { encodeProgress, encodeRequest } from "../../src/replicator/jobs/job-data-record.ts";
import type { World } from "../simulation/kernel/world.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

const JOE = { userName: "joe", isAdmin: false };
const ONE_SHOT = parseReplication({ source: "a", target: "b" });

type IdleNode = Awaited<ReturnType<typeof openIdleNode>>;

/**
 * Opens a node with free slots, and counts its polls of the queue. The node joins the world
 * `shared`, if given.
 */
async function openIdleNode(shared?: World) {
  const node = openVirtualNode(shared === undefined ? {} : { world: shared });
  const { jobs, kv, world, runtime } = node;
  const accept = jobs.accept.bind(jobs);
  const looks = { count: 0 };
  jobs.accept = (tx, type, options) => {
    if (type === REPLICATION_JOB_TYPE) looks.count++;
    return accept(tx, type, options);
  };
  await node.start();
  for (const name of shared === undefined ? ["a", "b"] : []) await node.createDatabase(name);
  const nowSec = (): number => Math.floor(runtime.clock.nowMs() / 1000);
  return {
    ...node,
    looks,
    pass: (durationSec: number) => world.time.run(world.time.nowMs + durationSec * 1000),
    async addLater(id: string, dueInSec: number): Promise<void> {
      const origin = { document: undefined, userName: "joe", replicationId: undefined };
      const data = newJobData({ ...origin, replication: ONE_SHOT, refusal: undefined }, 0);
      const scheduledAtSec = nowSec() + dueInSec;
      const plan = { request: encodeRequest(data), scheduledAtSec, group: `group-${id}` };
      const name = { type: REPLICATION_JOB_TYPE, id };
      await world.until(kv.transact((tx) => jobs.add(tx, name, encodeProgress(data), plan)));
    },
  };
}

test("a node whose jobs are all due later polls the queue once a minute", async () => {
  const node = await openIdleNode();
  for (let number = 0; number < 50; number++) await node.addLater(`job-${number}`, 7200 + number);
  await node.pass(60);
  node.looks.count = 0;
  await node.pass(3600);
  expect(node.looks.count).toBeLessThanOrEqual(61);
  await node.stop();
});

test("a job that is due after the next poll does not make a node poll earlier", async () => {
  const node = await openIdleNode();
  await node.pass(1);
  node.looks.count = 0;
  await node.addLater("job", 7200);
  await node.pass(1);
  expect(node.looks.count).toBe(0);
  await node.addLater("other", 30);
  await node.pass(1);
  expect(node.looks.count).toBe(1);
  await node.stop();
});

test("usually only one of eight waiting nodes tries to accept a new job", async () => {
  const first = await openIdleNode();
  const nodes: IdleNode[] = [first];
  while (nodes.length < 8) nodes.push(await openIdleNode(first.world));
  const add = async (from: number): Promise<void> => {
    for (let number = from; number < from + 100; number++) {
      await first.addLater(`job-${number}`, 0);
      await first.pass(1);
    }
  };
  // While these jobs are accepted, each node detects that there are other acceptors.
  await add(0);
  const seen = first.names.length;
  await add(100);
  const names = first.names.slice(seen);
  const countOf = (wanted: string): number => names.filter((name) => name === wanted).length;
  expect(countOf("replication.accepted")).toBe(100);
  expect(countOf("kv.retry")).toBeLessThan(200);
  for (const node of nodes) await node.stop();
});

test("a node accepts a job when the job becomes due, and does not poll the queue earlier", async () => {
  const node = await openIdleNode();
  await node.addLater("job", 45);
  await node.pass(1);
  node.looks.count = 0;
  await node.pass(43);
  expect(node.looks.count).toBe(0);
  await node.pass(1.1);
  expect(node.names).toContain("replication.accepted");
  await node.stop();
});

test("the unused part of a job's prepaid usage is refunded soon after the job ends, even if the node is idle", async () => {
  const node = await openIdleNode();
  const { world, replicator, kv, jobs, runtime } = node;
  const id = await world.until(replicator.start(ONE_SHOT, JOE));
  await world.until(replicator.ended(id, new AbortController().signal));
  const group = (
    await world.until(kv.read((tx) => jobs.get(tx, { type: REPLICATION_JOB_TYPE, id })))
  )?.group as string;
  await node.pass(2);
  const standing = await world.until(
    kv.read((tx) => jobs.groups.standing(tx, REPLICATION_JOB_TYPE, group)),
  );
  expect(usageSec(standing, runtime.clock.nowMs() / 1000)).toBeLessThan(2);
  await node.stop();
});

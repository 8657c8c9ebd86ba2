/** An operator's commands for a job on any node. */
import { afterEach, expect, test } from "vitest";
import { Utf8Text } from "../../../src/base/index.ts";
import { MemoryStorage } from "../../../src/kv/index.ts";
import {
  type JobControl,
  type JobFilter,
  parseReplication,
} from "../../../src/replicator/index.ts";
import { failingAfter, NO_PLACE } from "../../../src/replicator/jobs/failing.ts";
import { jobOutcome } from "../../../src/replicator/jobs/job-data.ts";
import { decodeJob, encodeProgress } from "../../../src/replicator/jobs/job-data-record.ts";
import { ADMIN, type Node, openNode } from "../../support/open-node.ts";

const USER = { userName: null, isAdmin: true };
const OPERATOR = "ops";
const nodes: Node[] = [];

async function open(options: Parameters<typeof openNode>[0] = {}): Promise<Node> {
  const node = await openNode(options);
  nodes.push(node);
  return node;
}

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

/** Starts a continuous job from `a` to `b`, and waits until it has copied three documents. */
async function startContinuous(node: Node): Promise<string> {
  await node.createDatabase("a");
  for (const id of ["one", "two", "three"]) await node.put("a", id, "{}");
  const members = { source: "a", target: "b", create_target: true, continuous: true };
  return node.replicator.start(parseReplication(members), USER);
}

async function controlOf(node: Node, jobId: string): Promise<JobControl> {
  const [control] = await node.replicator.commands.controls([jobId]);
  return control as JobControl;
}

async function stateOf(node: Node, jobId: string) {
  return (await node.replicator.find(jobId))?.data.state;
}

/** Resolves when the document is in `b`. The database need not exist yet. */
async function arrived(node: Node, id: string): Promise<void> {
  await node.onceContent("b", (ids) => ids.includes(id));
}

function endingCount(node: Node): number {
  return node.events.filter(({ name }) => name === "replication.ended").length;
}

function ended(node: Node, jobId: string, state: string) {
  return node.event("replication.ended", (event) => event.jobId === jobId && event.state === state);
}

test("pausing a job writes a checkpoint, and the job stays paused on every node until it is resumed", async () => {
  const storage = new MemoryStorage();
  const node = await open({ storage });
  node.start();
  const jobId = await startContinuous(node);
  await node.event("replication.started");
  await arrived(node, "three");
  expect(await node.replicator.commands.pause(jobId, { userName: OPERATOR })).toBe("done");
  await ended(node, jobId, "pending");
  expect(node.events.some(({ name }) => name === "replication.checkpoint")).toBe(true);
  expect(await node.replicator.commands.pause(jobId, { userName: OPERATOR })).toBe("no-need");

  const other = await open({ storage });
  other.start();
  await node.put("a", "four", "{}");
  const oneShot = await other.replicator.start(
    parseReplication({ source: "a", target: "c", create_target: true }),
    USER,
  );
  await other.replicator.ended(oneShot, new AbortController().signal);
  expect(await stateOf(other, jobId)).toBe("pending");
  expect(await node.content("b")).not.toHaveProperty("four");

  expect(await other.replicator.commands.resume(jobId, { userName: OPERATOR })).toBe("done");
  await arrived(node, "four");
  const { events } = await controlOf(node, jobId);
  expect(events.map(({ action, userName }) => [action, userName])).toEqual([
    ["resume", OPERATOR],
    ["pause", OPERATOR],
  ]);
});

test("a retry makes a job in backoff due immediately", async () => {
  const node = await open({ config: { penaltySecMin: 100_000 } });
  node.start();
  await node.createDatabase("b");
  const members = { source: "a", target: "b", continuous: true };
  const jobId = await node.replicator.start(parseReplication(members), USER);
  await ended(node, jobId, "crashing");
  await node.createDatabase("a");
  await node.put("a", "one", "{}");
  expect(await node.replicator.commands.retry(jobId, { userName: OPERATOR })).toBe("done");
  await arrived(node, "one");
});

test("a reset job reads all changes again, and its later runs resume from its own checkpoint", async () => {
  const node = await open();
  node.start();
  const jobId = await startContinuous(node);
  await arrived(node, "three");
  // Re-creates the target without the documents that were copied before the checkpoint.
  await node.kv.transact((tx) => node.databases.remove(tx, "b"));
  await node.createDatabase("b");
  expect(await node.replicator.commands.startFrom(jobId, 0, { userName: OPERATOR })).toBe("done");
  await arrived(node, "three");
  expect(await node.replicator.commands.pause(jobId, { userName: OPERATOR })).toBe("done");
  // Two runs have ended: the run that was reset and the run that was paused.
  await node.event("replication.ended", () => endingCount(node) === 2);
  const { events, restartAt } = await controlOf(node, jobId);
  expect(restartAt).toBeUndefined();
  expect(events.map(({ action }) => action)).toEqual(["pause", "reset"]);
});

test("a job can be started at a given sequence", async () => {
  const node = await open();
  await node.createDatabase("a");
  await node.put("a", "before", "{}");
  const { updateSequence } = await node.kv.read(async (tx) => {
    const database = await node.databases.open(tx, "a");
    return {
      updateSequence: (await database.changes.page(tx, { limit: 10 })).entries.at(-1)?.sequence,
    };
  });
  await node.put("a", "after", "{}");
  const members = { source: "a", target: "b", create_target: true };
  const jobId = await node.replicator.start(parseReplication(members), USER);
  expect(
    await node.replicator.commands.startFrom(jobId, updateSequence, { userName: OPERATOR }),
  ).toBe("done");
  node.start();
  await node.replicator.ended(jobId, new AbortController().signal);
  expect(Object.keys(await node.content("b"))).toEqual(["after"]);
});

test("retrying a paused job and pausing an ended job are refused, and an unknown job is reported as missing", async () => {
  const node = await open();
  const jobId = await startContinuous(node);
  const { commands } = node.replicator;
  expect(await commands.pause(jobId, { userName: null })).toBe("done");
  expect(await commands.retry(jobId, { userName: null })).toBe("paused");
  expect(await commands.resume("nobody", { userName: null })).toBe("missing");
  const oneShot = await node.replicator.start(
    parseReplication({ source: "a", target: "c", create_target: true }),
    USER,
  );
  node.start();
  await node.replicator.ended(oneShot, new AbortController().signal);
  expect(await commands.pause(oneShot, { userName: null })).toBe("ended");
  expect(await commands.retry(oneShot, { userName: null })).toBe("done");
  await ended(node, oneShot, "completed");
});

test("cancelling a persistent job deletes its document, and cancelling a transient job removes the job", async () => {
  const node = await open();
  await node.createDatabase("_replicator");
  await node.put("_replicator", "doc", '{"source":"a","target":"b","continuous":true}');
  const jobId = await startContinuous(node);
  for await (const entry of node.replicator.lists.all({})) {
    expect(await node.replicator.commands.cancel(entry.jobId, { userName: OPERATOR })).toBe("done");
  }
  expect((await node.read("_replicator", "doc"))?.deleted).toBe(true);
  expect(await node.replicator.find(jobId)).toBeUndefined();
  for await (const entry of node.replicator.lists.all({})) expect(entry).toBeUndefined();
});

test("if a cancelled job's document has another revision, that revision gets a job, as after a deletion", async () => {
  const node = await open();
  const { kv, databases, replicator } = node;
  await node.createDatabase("_replicator");
  await kv.transact(async (tx) => {
    const database = await databases.open(tx, "_replicator");
    for (const [hash, target] of Object.entries({ loser: "b", winner: "c" })) {
      const body = Utf8Text.of(`{"source":"a","target":"${target}","continuous":true}`);
      const revisions = { start: 1, hashes: [hash] };
      const edit = { mode: "replicated", id: "doc", deleted: false, body, revisions } as const;
      await database.write(tx, { ...edit, attachments: [] }, ADMIN);
    }
  });
  const targets = async () => {
    const found: unknown[] = [];
    for await (const { data } of replicator.lists.all({})) found.push(data.replication?.target);
    return found;
  };
  expect(await targets()).toEqual([{ kind: "local", database: "c" }]);
  await replicator.bulk.start("cancel", {}, { userName: OPERATOR });
  expect(await targets()).toEqual([{ kind: "local", database: "b" }]);
  await replicator.bulk.start("cancel", {}, { userName: OPERATOR });
  expect(await targets()).toEqual([]);
  expect((await node.read("_replicator", "doc"))?.deleted).toBe(true);
});

test("deleting a _replicator database ends all of its jobs, including running jobs, and no other jobs", async () => {
  const node = await open({ config: { jobsMax: 5 } });
  node.start();
  const other = await startContinuous(node);
  await node.createDatabase("x/_replicator");
  for (let number = 0; number < 120; number++) {
    const body = JSON.stringify({ source: "a", target: `t${number}`, continuous: true });
    await node.put("x/_replicator", `job-${number}`, body);
  }
  await node.event("replication.started", ({ jobId }) => jobId !== other);
  await node.kv.transact((tx) => node.databases.remove(tx, "x/_replicator"));
  // The count does not include jobs that a node accepted in the meantime, because such jobs remove
  // themselves.
  const { removedCount } = await node.event("replication.database-removed");
  expect(removedCount).toBeLessThanOrEqual(120);
  const left: string[] = [];
  for await (const { jobId } of node.replicator.lists.all({})) left.push(jobId);
  expect(left).toEqual([other]);
});

test.each<[JobFilter, boolean]>([
  [{ states: ["crashing"] }, true],
  [{ states: ["pending", "crashing"] }, true],
  [{ states: ["running"] }, false],
  [{ source: "Example.com" }, true],
  [{ source: "example.com:5984" }, true],
  [{ source: "example.org" }, false],
  [{ target: "b", source: "example.com" }, true],
  [{ target: "c", source: "example.com" }, false],
  [{ failing: true, states: ["crashing"] }, true],
  [{ failing: false }, false],
  [{ error: "unreachable" }, true],
  [{ error: "dns" }, false],
  [{ reason: "refused" }, true],
  [{ reason: "time-out" }, false],
  [{ databaseUuid: "u" }, false],
  [{ paused: false, stalled: false, left_behind: false }, true],
  [{ owner: "joe" }, true],
])("the filter %j finds a failing job: %s", async (filter, expected) => {
  const node = await open();
  const members = { source: "http://example.com:5984/a", target: "b", continuous: true };
  const requester = { userName: "joe", isAdmin: false };
  const id = await node.replicator.start(parseReplication(members), requester);
  const name = { type: "replication", id };
  await node.kv.transact(async (tx) => {
    const job = await node.jobs.get(tx, name);
    if (job === undefined) throw new Error("The job is there");
    const failure = { error: "error", reason: "connection refused" };
    const failing = failingAfter(undefined, failure, { ...NO_PLACE, class: "unreachable" }, 5);
    const data = { ...decodeJob(job), ...jobOutcome("crashing", failure), failing };
    await node.jobs.resubmit(tx, name, 2 ** 35, encodeProgress(data));
  });
  const { entries, total } = await node.replicator.lists.page({ filter, limit: 10 });
  expect(entries.map(({ jobId }) => jobId)).toEqual(expected ? [id] : []);
  expect(total).toBe(entries.length);
});

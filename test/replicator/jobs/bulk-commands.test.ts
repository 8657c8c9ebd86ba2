/** Stored commands that apply to many jobs: their results, order, undo and deletion. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Trace, Utf8Text } from "../../../src/base/index.ts";
import { createSystemRuntime } from "../../../src/host/index.ts";
import type { HeldJob } from "../../../src/jobs/index.ts";
import { KeyValueStore, MemoryEngine } from "../../../src/kv/index.ts";
import {
  CommandJobs,
  parseReplication,
  REPLICATION_JOB_TYPE,
} from "../../../src/replicator/index.ts";
import { COMMAND_TYPE } from "../../../src/replicator/job-watching/parked-jobs.ts";
import { replicatorKeys } from "../../../src/replicator/replicator-keys.ts";
import { SUBSPACES } from "../../../src/server/layout.ts";
import { composeNode } from "../../support/compose-node.ts";
import { deferred } from "../../support/deferred.ts";
import { ADMIN } from "../../support/open-node.ts";

const DAY_MS = 24 * 3_600_000;
const ROOT = { userName: "root" };
const KEYS = replicatorKeys(SUBSPACES.replicator);

let nowMs: number;
let node: ReturnType<typeof open>;

function open() {
  const system = createSystemRuntime();
  const runtime = { ...system, clock: { ...system.clock, nowMs: () => nowMs } };
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  return { ...composeNode({ runtime, kv }), kv, runtime };
}

beforeEach(async () => {
  nowMs = 1_800_000_000_000;
  node = open();
  await node.replicator.prepare();
  for (const target of ["a", "b", "c"]) {
    const replication = parseReplication({ source: "http://far.example/db", target });
    await node.replicator.start(replication, { userName: "ann", isAdmin: true });
  }
});
afterEach(() => node.kv.close());

async function listedPages(): Promise<number> {
  const page = await node.kv.read((tx) => tx.getRangePage(KEYS.commandPage.range()));
  return page.entries.length;
}

test("a command and its list of jobs are deleted after a week", async () => {
  const { bulk } = node.replicator;
  const { id } = await bulk.start("pause", {}, ROOT);
  nowMs += 7 * DAY_MS - 1;
  await bulk.forget();
  expect(await bulk.get(id)).toMatchObject({ state: "completed", matched: 3, changed: 3 });
  expect(await listedPages()).toBe(1);
  nowMs += 2;
  await bulk.forget();
  await node.remover.once(new AbortController().signal);
  expect(await bulk.get(id)).toBeUndefined();
  expect(await bulk.latest(10)).toEqual([]);
  expect(await listedPages()).toBe(0);
});

test("a command counts the jobs that it cannot change, and changes the others", async () => {
  const { bulk, lists } = node.replicator;
  const { entries } = await lists.page({ filter: {}, limit: 1 });
  const id = entries[0]?.jobId ?? "";
  await node.kv.transact((tx) =>
    node.jobs.resubmit(tx, { type: REPLICATION_JOB_TYPE, id }, 0, { format: 99 }),
  );
  expect(await bulk.start("pause", {}, ROOT)).toMatchObject({
    ...{ state: "completed", matched: 3, done: 3, changed: 2, failed: 1 },
  });
});

test("the list of a command is split by the bytes of its ids", async () => {
  const { bulk } = node.replicator;
  await node.kv.transact(async (tx) => {
    const database = await node.databases.create(tx, "_replicator");
    const body = Utf8Text.of('{"source":"http://far.example/db","target":"a"}');
    for (const last of ["1", "2", "3"]) {
      // Six bytes per character in JSON.
      const id = "\u0001".repeat(6_900) + last;
      const edit = { mode: "interactive", id, parent: undefined, deleted: false } as const;
      await database.write(tx, { ...edit, body, attachments: [] }, ADMIN);
    }
  });
  expect(await bulk.start("pause", {}, ROOT)).toMatchObject({ matched: 6, changed: 6 });
  expect(await listedPages()).toBe(3);
});

test("commands are listed newest first", async () => {
  const { bulk } = node.replicator;
  const ids: string[] = [];
  for (const action of ["pause", "resume", "retry"] as const) {
    ids.unshift((await bulk.start(action, {}, ROOT)).id);
    nowMs += 1;
  }
  expect((await bulk.latest(2)).map(({ id }) => id)).toEqual(ids.slice(0, 2));
});

test("an undo command cannot be undone, and does not change jobs that another command has changed in the meantime", async () => {
  const { bulk } = node.replicator;
  const paused = await bulk.start("pause", {}, ROOT);
  const resumed = await bulk.start("resume", { target: "a" }, ROOT);
  await bulk.start("pause", { target: "a" }, ROOT);
  const undone = await bulk.undo(paused.id, ROOT);
  expect(undone).toMatchObject({ action: "resume", matched: 3, changed: 2 });
  expect(await bulk.undo(typeof undone === "string" ? "" : undone.id, ROOT)).toBe("final");
  expect(await bulk.undo(resumed.id, ROOT)).toMatchObject({ changed: 0 });
  expect(await bulk.undo("none", ROOT)).toBe("missing");
  const { entries } = await node.replicator.lists.page({ filter: { paused: true }, limit: 10 });
  expect(entries).toHaveLength(1);
});

test("if a command that continues in the background fails, the event contains the id of the command's request", async () => {
  const logged = deferred<unknown>();
  const trace: Trace = {
    event(name, fields) {
      if (name === "replication.command-failed") logged.resolve(fields);
    },
  };
  const runtime = { ...node.runtime, trace };
  const bulk = { finish: () => Promise.reject(new Error("disk full")) };
  const config = { activityTimeoutSec: 60 };
  const commands = new CommandJobs({ runtime, kv: node.kv, jobs: node.jobs, config, bulk });
  const held = { type: COMMAND_TYPE, id: "c0", lock: "none" } as unknown as HeldJob;
  void commands
    .run(held, { data: { requestId: "r0" } }, new AbortController().signal)
    .catch(() => {});
  expect(await logged.promise).toEqual({
    command: "c0",
    requestId: "r0",
    error: "Error: disk full",
  });
});

/**
 * A rule's follower that has lost its job makes no more changes; a listing reads rows in pages. In
 * virtual time.
 */
import { afterEach, expect, test, vi } from "vitest";
import type { HeldJob } from "../../src/jobs/index.ts";
import { SweepPace } from "../../src/replicator/parking/sweep-pace.ts";
import type { ListedServer } from "../../src/replicator/parking/watched-server.ts";
import { parseRule } from "../../src/replicator/rules/rule.ts";
import { RuleFollower } from "../../src/replicator/rules/rule-follower.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

const TYPE = "follower";
const RULE = {
  source: "local",
  target: "copy-{1}",
  databases: ["user-*"],
  delete: "stop",
  security: true,
};
const IDENTITY = { uuid: "u".repeat(32), generation: 1 };
const NAMES = ["user-a", "user-b", "user-c"];
const MINUTE_MS = 60_000;

type Node = ReturnType<typeof openVirtualNode>;

const nodes: Node[] = [];
afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

/** Opens a follower of a rule. `server` replaces methods of the rule's source. */
async function open(server: Partial<ListedServer>) {
  const node = openVirtualNode({});
  nodes.push(node);
  await node.start({ runsJobs: false });
  const { world, kv, jobs, config } = node;
  await world.until(kv.transact((tx) => jobs.setTypeTimeout(tx, TYPE, 1)));
  await world.until(kv.transact((tx) => jobs.add(tx, { type: TYPE, id: "users" }, {})));
  const acceptance = await world.until(
    kv.transact((tx) => jobs.accept(tx, TYPE, { dueBySec: 2 ** 36, countMax: 1 })),
  );
  if (acceptance.kind === "none-due") throw new Error("The job is due");
  const quiet: ListedServer = {
    lastUpdate: async () => undefined,
    latestChanged: async () => [],
    updates: async () => ({ names: [], deleted: new Set(), last: 1 }),
    sequences: async () => new Map(),
    requestCount: () => 1,
    names: async () => ({ names: [], hasMore: false }),
    security: async () => undefined,
  };
  const follower = new RuleFollower(
    { ...node, store: node.ruleStore, pace: new SweepPace(node.runtime.clock) },
    acceptance.held[0] as HeldJob,
    { ...IDENTITY, name: "users", rule: parseRule(RULE, config), owner: { userName: "root" } },
    { ...quiet, ...server },
    async () => {},
  );
  return {
    world,
    follower,
    ruleStore: node.ruleStore,
    async loseJob(): Promise<void> {
      await kv.transact(async (tx) => {
        const last = await jobs.lastActivity(tx, TYPE);
        if (last !== undefined) await jobs.requeueSilent(tx, TYPE, last, 10);
      });
    },
    rows: () => world.until(kv.read((tx) => node.ruleStore.databasesNamed(tx, IDENTITY, NAMES))),
  };
}

/**
 * Situations by name. Each function returns methods of a source, one of which calls `lose`. The
 * follower then loses its job before it makes the change that the method's response requires.
 */
const SITUATIONS: Readonly<
  Record<string, (lose: () => Promise<void>, isLater: () => boolean) => Partial<ListedServer>>
> = {
  "lists databases": (lose) => ({
    names: async () => {
      await lose();
      return { names: NAMES, hasMore: false };
    },
  }),
  "receives the names of new databases": (lose) => ({
    lastUpdate: async () => 1,
    updates: async () => {
      await lose();
      return { names: NAMES, deleted: new Set(), last: 2 };
    },
  }),
  "finds that databases were deleted": (lose, isLater) => ({
    names: async () => {
      if (isLater()) await lose();
      return { names: isLater() ? [] : NAMES, hasMore: false };
    },
    sequences: async (names) => new Map(names.map((name) => [name, "missing"])),
  }),
  "finds that security objects have changed": (lose, isLater) => ({
    names: async () => ({ names: NAMES, hasMore: false }),
    security: async () => {
      if (isLater()) await lose();
      return isLater() ? '{"members":{"names":["joe"]}}' : undefined;
    },
  }),
};

test.each(Object.keys(SITUATIONS))(
  "a follower that has lost its job changes nothing when it %s",
  async (name) => {
    const outcomes = [];
    for (const loses of [false, true]) {
      let isLater = false;
      const lose = async (): Promise<void> => {
        if (loses) await opened.loseJob();
      };
      const opened = await open(
        (SITUATIONS[name] as (typeof SITUATIONS)[string])(lose, () => isLater),
      );
      const { world, follower, rows } = opened;
      const stopping = new AbortController();
      let failure: unknown;
      const following = follower.follow(stopping.signal).catch((error: unknown) => {
        failure = error;
      });
      if (name.startsWith("finds")) await world.time.run(world.time.nowMs + MINUTE_MS);
      const before = JSON.stringify(await rows());
      isLater = true;
      await world.time.run(world.time.nowMs + 2 * MINUTE_MS);
      const isChanged = JSON.stringify(await rows()) !== before;
      outcomes.push([isChanged, (failure as { code?: string } | undefined)?.code]);
      stopping.abort(new Error("The test is over"));
      await world.until(following);
    }
    expect(outcomes).toEqual([
      [true, undefined],
      [false, "JOBS_HALTED"],
    ]);
  },
);

test("a listing in which nothing has changed reads rows in pages only", async () => {
  const names = Array.from({ length: 700 }, (_, index) => `user-${1000 + index}`);
  const { world, follower, ruleStore } = await open({
    names: async () => ({ names, hasMore: false }),
  });
  const stopping = new AbortController();
  const following = follower.follow(stopping.signal).catch(() => {});
  await world.time.run(world.time.nowMs + MINUTE_MS);
  const named = vi.spyOn(ruleStore, "databasesNamed");
  const pages = vi.spyOn(ruleStore, "databases");
  await world.time.run(world.time.nowMs + MINUTE_MS);
  stopping.abort(new Error("The test is over"));
  await world.until(following);
  expect(named).not.toHaveBeenCalled();
  expect(pages).toHaveBeenCalled();
});

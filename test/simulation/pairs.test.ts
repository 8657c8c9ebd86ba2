/**
 * The `pair` option on a cluster whose nodes crash, in virtual time. Two databases that both
 * receive writes end with the same leaves.
 * `PAIR_SEEDS=1000 npx vitest run test/simulation/pairs.test.ts` simulates more clusters.
 */
import { expect, test } from "vitest";
import { Utf8Text } from "../../src/base/index.ts";
import { ADMIN } from "../support/open-node.ts";
import { openVirtualNode } from "../support/virtual-node.ts";
import { World } from "./kernel/world.ts";

type Node = ReturnType<typeof openVirtualNode>;
/** Function that breaks a part of a node. It is called for each node. */
type Sabotage = (node: Node) => void;

const SEEDS = Number(process.env.PAIR_SEEDS ?? 8);
const NODES = 3;
const WRITES = 40;
const CRASHES_MAX = 6;
const OPERATOR = { userName: "op", why: "test" };
const TRAITS = { delayMsMax: 20, conflictRatio: 0.05, unknownRatio: 0.02 };
/** Time within which the databases must be equal, and the job parked, after the last write. */
const PATIENCE_MS = 20 * 60_000;

/** Simulates a cluster. Returns the problem found, or `undefined`. */
async function simulate(seed: string, sabotage: Sabotage = () => {}): Promise<string | undefined> {
  const world = new World(seed);
  const { random } = world;
  const nodes: Node[] = [];
  const open = async (): Promise<Node> => {
    const config = { parkAfterSec: 2, workerLeaseSec: 10, activityTimeoutSec: 20 };
    const node = openVirtualNode({ world, config, traits: TRAITS });
    sabotage(node);
    await node.start();
    nodes.push(node);
    return node;
  };
  const alive = (): readonly Node[] => nodes.filter(({ simulated }) => !simulated.isCrashed);
  for (let count = 0; count < NODES; count++) await open();
  // The last node never crashes, so that the test can use it.
  const sound = nodes[NODES - 1] as Node;
  for (const name of ["left", "right", "_replicator"]) await sound.createDatabase(name);
  const pair = { source: "left", target: "right", pair: true };
  await sound.put("_replicator", "pair", { ...pair, continuous: true, owner: null });
  const { jobId } = await sound.document("pair", ({ data }) => data.reverse !== undefined);
  let crashes = 0;
  for (let write = 0; write < WRITES; write++) {
    const database = random.ratio() < 0.5 ? "left" : "right";
    await writeTo(sound, database, `doc-${random.integer(8)}`, write);
    // Sometimes the job has time to park before the next write.
    await world.time.run(world.time.nowMs + random.integer(random.ratio() < 0.3 ? 15_000 : 500));
    const [victim] = alive();
    if (random.ratio() < 0.2 && crashes < CRASHES_MAX && victim !== sound) {
      crashes++;
      victim?.simulated.crash();
      await open();
    }
    if (random.ratio() < 0.1) {
      await world.until(sound.replicator.commands.pause(jobId, OPERATOR));
      await world.time.run(world.time.nowMs + random.integer(5_000));
      await world.until(sound.replicator.commands.resume(jobId, OPERATOR));
    }
  }
  const problem = await problemOf(sound);
  for (const node of alive()) await node.stop();
  return problem;
}

/** Writes a document, or edits its winning revision. */
async function writeTo(node: Node, name: string, id: string, value: number): Promise<void> {
  const body = Utf8Text.of(JSON.stringify({ value }));
  await node.world.until(
    node.kv.transact(
      async (tx) => {
        const database = await node.databases.open(tx, name);
        const found = await database.documents.read(tx, id);
        const parent = found?.deleted === false ? found.revision : undefined;
        const edit = { mode: "interactive", id, parent, deleted: false, attachments: [] } as const;
        await database.write(tx, { ...edit, body }, ADMIN);
      },
      { whenUnknown: "retry" },
    ),
  );
}

async function problemOf(node: Node): Promise<string | undefined> {
  const { world } = node;
  const endMs = world.time.nowMs + PATIENCE_MS;
  let before = "";
  while (world.time.nowMs < endMs) {
    await world.time.run(world.time.nowMs + 10_000);
    const [left, right] = [await leavesOf(node, "left"), await leavesOf(node, "right")];
    const isParked = (await node.document("pair", () => true)).data.state === "parked";
    if (left === right && left === before && isParked) return undefined;
    before = left;
  }
  return "the databases differ, or the job does not park";
}

/** Returns the leaves of all documents as text. */
async function leavesOf(node: Node, name: string): Promise<string> {
  return node.world.until(
    node.kv.read(async (tx) => {
      const database = await node.databases.open(tx, name);
      const all: unknown[] = [];
      for (let doc = 0; doc < 8; doc++) {
        const leaves = await database.documents.leaves(tx, `doc-${doc}`);
        all.push(leaves);
      }
      return JSON.stringify(all);
    }),
  );
}

async function firstProblem(sabotage: Sabotage): Promise<string | undefined> {
  for (let seed = 0; seed < SEEDS; seed++) {
    const problem = await simulate(`pairs-${seed}`, sabotage);
    if (problem !== undefined) return `seed ${seed}: ${problem}`;
  }
  return undefined;
}

test(`on ${SEEDS} clusters whose nodes crash, both databases end with the same leaves`, async () => {
  expect(await firstProblem(() => {})).toBe(undefined);
});

test("the simulation detects a pair whose target is not watched", async () => {
  const problem = await firstProblem(({ parked }) => {
    const { add } = parked;
    parked.add = (tx, jobId, places) => add.call(parked, tx, jobId, places.slice(0, 1));
  });
  expect(problem).toMatch(/differ/);
});

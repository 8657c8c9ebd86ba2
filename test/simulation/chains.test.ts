/**
 * The `after` option on a cluster whose nodes crash, in virtual time. Each job starts after the
 * jobs that its `after` lists, and all jobs start.
 * `CHAIN_SEEDS=1000 npx vitest run test/simulation/chains.test.ts` simulates more clusters.
 */
import { expect, test } from "vitest";
import type { ReplicationJobData } from "../../src/replicator/jobs/job-data.ts";
import { openVirtualNode } from "../support/virtual-node.ts";
import { EPOCH_MS, World } from "./kernel/world.ts";

type Node = ReturnType<typeof openVirtualNode>;
/** Function that breaks a part of a node. It is called for each node. */
type Sabotage = (node: Node) => void;

const SEEDS = Number(process.env.CHAIN_SEEDS ?? 12);
const JOBS = 10;
const NODES = 3;
const CRASHES_MAX = 6;
const TRAITS = { delayMsMax: 20, conflictRatio: 0.05, unknownRatio: 0.02 };
/** Time within which all jobs must have completed or parked after the last job was added. */
const PATIENCE_MS = 20 * 60_000;

interface Planned {
  readonly id: string;
  readonly isContinuous: boolean;
  readonly after: readonly string[];
}

function plan({ random }: World): readonly Planned[] {
  return Array.from({ length: JOBS }, (_, number): Planned => {
    const earlier = Array.from({ length: number }, (__, other) => `job-${other}`);
    const after = earlier.filter(() => random.ratio() < 0.3);
    return { id: `job-${number}`, isContinuous: random.ratio() < 0.3, after };
  });
}

/** Simulates a cluster. Returns the problem found, or `undefined`. */
async function simulate(seed: string, sabotage: Sabotage = () => {}): Promise<string | undefined> {
  const world = new World(seed);
  const { random } = world;
  const nodes: Node[] = [];
  let crashes = 0;
  const open = async (): Promise<Node> => {
    const config = { parkAfterSec: 2, workerLeaseSec: 10, activityTimeoutSec: 20 };
    const node = openVirtualNode({ world, config, traits: TRAITS });
    sabotage(node);
    await node.start();
    nodes.push(node);
    return node;
  };
  const alive = (): readonly Node[] => nodes.filter(({ simulated }) => !simulated.isCrashed);
  const crashOne = (node: Node): void => {
    if (crashes >= CRASHES_MAX || alive().length < 2) return;
    crashes++;
    node.simulated.crash();
  };
  for (let count = 0; count < NODES; count++) await open();
  // The last node never crashes, so that the test can use it.
  const sound = nodes[NODES - 1] as Node;
  for (const name of ["films", "_replicator"]) await sound.createDatabase(name);
  await sound.put("films", "doc", {});
  /** Time of each job's first copied document. */
  const copiedMs = new Map<string, number>();
  world.listeners.push((name, { jobId }, nodeName) => {
    const id = String(jobId).split("|")[1] ?? "";
    if (name === "replication.copied" && !copiedMs.has(id)) {
      copiedMs.set(id, EPOCH_MS + world.time.nowMs);
    }
    const ending = name === "replication.ended" || name === "replication.parked";
    const node = nodes.find(({ simulated }) => simulated.name === nodeName);
    if (node === undefined || node === sound || !ending || random.ratio() > 0.4) return;
    // At this moment, the job has completed or caught up, and the jobs that wait for it have not
    // started yet.
    crashOne(node);
  });
  const planned = plan(world);
  for (const { id, isContinuous, after } of planned.toSorted(() => random.ratio() - 0.5)) {
    const pair = { source: "films", target: `copy-${id}`, create_target: true };
    await sound.put("_replicator", id, { ...pair, continuous: isContinuous, after, owner: null });
    await world.time.run(world.time.nowMs + random.integer(3_000));
    if (alive().length < NODES) await open();
  }
  const { uuid } = await world.until(
    sound.kv.read((tx) => sound.databases.open(tx, "_replicator")),
  );
  const jobs = new Map<string, ReplicationJobData>();
  const endMs = world.time.nowMs + PATIENCE_MS;
  while (world.time.nowMs < endMs && jobs.size < JOBS) {
    await world.time.run(world.time.nowMs + 5_000);
    for (const { id } of planned) {
      const entry = await world.until(sound.replicator.findDocument(uuid, id));
      if (entry?.data.state === "completed" || entry?.data.state === "parked") {
        jobs.set(id, entry.data);
      }
    }
  }
  const problem = problemOf(planned, jobs, copiedMs);
  for (const node of alive()) await node.stop();
  return problem;
}

function problemOf(
  planned: readonly Planned[],
  jobs: ReadonlyMap<string, ReplicationJobData>,
  copiedMs: ReadonlyMap<string, number>,
): string | undefined {
  for (const { id, after } of planned) {
    const job = jobs.get(id);
    if (job === undefined) return `${id} never ended`;
    const startedMs = job.history.findLast(({ type }) => type === "started")?.timeMs ?? 0;
    for (const other of after) {
      const found = jobs.get(other);
      const history = found?.history ?? [];
      const firstMs = history.findLast(({ type }) => type === "started")?.timeMs ?? Infinity;
      // A continuous job can catch up at any time after its first copied document. It might park
      // much later.
      const endMs = history.find(({ type }) => type === "stopped")?.timeMs ?? Infinity;
      const isLasting = found?.replication?.continuous === true;
      const reachedMs = isLasting ? (copiedMs.get(other) ?? firstMs) : endMs;
      if (startedMs < reachedMs) {
        return `${id} started at ${startedMs}, and ${other} was reached at ${reachedMs}`;
      }
    }
  }
  return undefined;
}

async function firstProblem(sabotage: Sabotage): Promise<string | undefined> {
  for (let seed = 0; seed < SEEDS; seed++) {
    const problem = await simulate(`chains-${seed}`, sabotage);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

test(`on ${SEEDS} clusters whose nodes crash, each job starts after the jobs that it names`, async () => {
  expect(await firstProblem(() => {})).toBe(undefined);
});

test("the simulation detects a wake-up that is lost because it is written in a later transaction", async () => {
  const problem = await firstProblem(({ chains, kv }) => {
    const { noteReached } = chains;
    chains.noteReached = async (tx, ...job) => {
      tx.afterCommit(() => void kv.transact((later) => noteReached.call(chains, later, ...job)));
    };
  });
  expect(problem).toMatch(/never ended$/);
});

test("the simulation detects jobs that do not wait for the jobs in their `after`", async () => {
  const problem = await firstProblem(({ chains }) => {
    chains.begin = async () => false;
  });
  expect(problem).toMatch(/ started at /);
});

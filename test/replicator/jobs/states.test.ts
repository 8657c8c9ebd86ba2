/**
 * The state shown for a job. Whether the job is running depends only on the queue. In virtual time.
 */
import { expect, test } from "vitest";
import { parseReplication } from "../../../src/replicator/index.ts";
import { openWholeApi } from "../../server/whole-api.fixture.ts";
import { World } from "../../simulation/kernel/world.ts";
import { openVirtualNode } from "../../support/virtual-node.ts";

const JOE = { userName: "joe", isAdmin: false };
const FOREVER = new AbortController().signal;
const BODY = { source: "a", target: "b", continuous: true };

type VirtualNode = ReturnType<typeof openVirtualNode>;

/** Opens a frontend and a node that runs a continuous job. */
async function open() {
  const world = new World("states");
  const frontend = openVirtualNode({ world });
  await frontend.start({ runsJobs: false });
  for (const name of ["a", "b"]) await frontend.createDatabase(name);
  const worker = openVirtualNode({ world, nodeName: "first" });
  await worker.start();
  const id = await world.until(frontend.replicator.start(parseReplication(BODY), JOE));
  await world.until(frontend.replicator.started(id, FOREVER));
  const shown = async (node: VirtualNode = frontend) => {
    const entry = await world.until(node.replicator.find(id));
    return [entry?.state, entry?.worker?.node];
  };
  return { world, frontend, worker, id, shown };
}

test("a dead node's job is pending as soon as the node's lease expires, even if no other node runs jobs", async () => {
  const { world, frontend, worker, shown } = await open();
  expect(await shown()).toEqual(["running", "first"]);
  worker.simulated.crash();
  const isExpelled = (): boolean => frontend.names.includes("jobs.worker-cleared");
  expect(await world.time.run(world.time.nowMs + 12_000, isExpelled)).toBe(true);
  expect(await shown()).toEqual(["pending", undefined]);
  const listed = [];
  for await (const { state } of frontend.replicator.lists.all({})) listed.push(state);
  expect(listed).toEqual(["pending"]);
  const second = openVirtualNode({ world, nodeName: "second" });
  await second.start();
  await world.time.run(world.time.nowMs + 2000);
  expect(await shown()).toEqual(["running", "second"]);
  await second.stop();
  expect(await shown()).toEqual(["pending", undefined]);
  await frontend.stop();
});

test("a request for a continuous job that gets no slot is answered with the job's id after ten seconds", async () => {
  const world = new World("no slot");
  const frontend = openVirtualNode({ world });
  await frontend.start({ runsJobs: false });
  const { replicator } = frontend;
  const filtered = { ...BODY, target: "c", filter: "design/filter" };
  const ids = await Promise.all(
    [BODY, filtered].map((body) => world.until(replicator.start(parseReplication(body), JOE))),
  );
  const answers: unknown[] = [];
  for (const [index, id] of ids.entries()) {
    void replicator.started(id, FOREVER).then((answer) => {
      answers[index] = answer;
    });
  }
  await world.time.run(world.time.nowMs + 9900);
  expect(answers).toEqual([]);
  await world.time.run(world.time.nowMs + 200);
  expect(answers).toEqual([expect.stringMatching(/^[0-9a-f]{32}\+continuous$/), ids[1]]);
  for (const answer of answers) {
    expect(await world.until(replicator.cancel(String(answer), JOE))).toBe(answer);
  }
  await frontend.stop();
});

test("a job that version 0.1 stored as running is shown in the state that it has in the queue", async () => {
  const { frontend, worker, id, shown } = await open();
  const { world, kv, jobs } = frontend;
  await worker.stop();
  await world.until(
    kv.transact(async (tx) => {
      const name = { type: "replication", id };
      const job = await jobs.get(tx, name);
      const data = { ...job?.data, state: "running", node: "gone", processId: "1" };
      await jobs.resubmit(tx, name, 2 ** 36, data);
    }),
  );
  expect(await shown()).toEqual(["pending", undefined]);
  await frontend.stop();
});

test("a frontend shows another node's running job and a parked job as docs/spec/replicator.md requires", async () => {
  const world = new World("views");
  const config = { parkAfterSec: 60 };
  const frontend = openVirtualNode({ world, config });
  await frontend.start({ runsJobs: false });
  const worker = openVirtualNode({ world, config, nodeName: "first" });
  await worker.start();
  const user = { name: "joe", roles: ["_admin"], isAdmin: true };
  const authenticate = async () => user;
  const api = await world.until(openWholeApi({ node: frontend, authenticate }));
  const ask = async (request: string, body?: object) =>
    (await world.until(api.ask(request, body === undefined ? {} : { body }))).json;
  for (const name of ["a", "b", "_replicator"]) await frontend.createDatabase(name);
  await ask("PUT /_replicator/job", BODY);
  const views = async () => {
    const [{ jobs }, { docs }, tasks, own] = [
      await ask("GET /_scheduler/jobs"),
      await ask("GET /_scheduler/docs"),
      await ask("GET /_active_tasks"),
      await ask("GET /_tandem/jobs"),
    ];
    const queue = await world.until(
      frontend.kv.read((tx) => frontend.jobs.counts.read(tx, "replication", "_replicator")),
    );
    const figures = await world.until(frontend.replicator.figures.read());
    return {
      jobs: jobs.map(({ state }: { state: string }) => state),
      docs: docs.map(({ state }: { state: string }) => state),
      tasks: tasks.map(({ node }: { node: string }) => node),
      parked: own.jobs.map(({ parked }: { parked: boolean }) => parked),
      queue,
      gauges: { running: figures.states.running, parked: figures.parkedCount },
    };
  };
  await world.time.run(world.time.nowMs + 10_000);
  const alike = { jobs: ["running"], docs: ["running"] };
  expect(await views()).toEqual({
    ...alike,
    tasks: ["first"],
    parked: [false],
    queue: { pending: 0, running: 1, finished: 0 },
    gauges: { running: 1, parked: 0 },
  });
  await world.time.run(world.time.nowMs + 120_000);
  expect(await views()).toEqual({
    ...alike,
    tasks: [],
    parked: [true],
    queue: { pending: 1, running: 0, finished: 0 },
    gauges: { running: 1, parked: 1 },
  });
  await worker.stop();
  await frontend.stop();
});

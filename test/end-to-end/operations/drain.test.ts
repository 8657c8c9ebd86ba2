/**
 * Two processes share a store. One process is drained, and the other takes over the jobs. A killed
 * process is shown as dead.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { onceAnswered, Processes, type TandemProcess } from "../../support/open-process.ts";
import { type Ran, tandem as run } from "../../support/tandem-command.ts";

const JOBS = 6;

const processes = new Processes();
const directory = processes.directory();
let one: TandemProcess;
let other: TandemProcess;

beforeAll(async () => {
  one = await processes.open({ directory });
  await one.call("PUT", "/a");
  for (let n = 0; n < JOBS; n++) {
    await one.call("PUT", `/_replicator/job${n}`, {
      source: "a",
      target: `b${n}`,
      create_target: true,
      continuous: true,
    });
  }
  await nodeOnce(one, ({ jobs }) => jobs === JOBS);
  other = await processes.open({ directory });
});
afterAll(() => processes.close());

interface NodeView {
  readonly id: string;
  readonly name: string;
  readonly pid: string;
  readonly state: string;
  readonly draining: boolean;
  readonly drained: boolean;
  readonly jobs: number;
}

async function nodeOf(process: TandemProcess): Promise<NodeView | undefined> {
  const { body } = await one.call("GET", "/_tandem/nodes");
  return body.nodes.find(({ pid }: NodeView) => pid === String(process.child.pid));
}

async function nodeOnce(
  process: TandemProcess,
  passes: (node: NodeView) => boolean,
): Promise<NodeView> {
  const found = await onceAnswered(
    [one, other ?? one],
    () => nodeOf(process),
    (node) => node !== undefined && passes(node),
  );
  return found as NodeView;
}

const tandem = (...flags: readonly string[]): Promise<Ran> =>
  run(["nodes", ...flags, "--server", one.url]);

test("a drained node hands its jobs to another node, and accepts no jobs until it is undrained", async () => {
  await nodeOnce(other, ({ id, state, jobs }) => id !== null && state === "running" && jobs === 0);
  const { id } = (await nodeOf(one)) as NodeView;
  const drained = await tandem("drain", id);
  expect(drained).toEqual({
    code: 0,
    output: "drained: the node has no jobs left\n",
    errors: expect.anything(),
  });
  expect(await nodeOf(one)).toMatchObject({
    id,
    state: "draining",
    draining: true,
    drained: true,
    jobs: 0,
  });
  await nodeOnce(other, ({ jobs }) => jobs === JOBS);
  await one.call("PUT", "/a/document", {});
  await other.onceAnswered(
    () => one.call("GET", `/b${JOBS - 1}/document`),
    ({ status }) => status === 200,
  );
  const again = await one.call("POST", `/_tandem/nodes/${id}/_drain`);
  expect(again.body).toEqual({ ok: true, matched: 1, changed: 0 });
  expect((await tandem("undrain", id)).output).toBe("done\n");
  expect(await nodeOnce(one, ({ state }) => state === "running")).toMatchObject({ jobs: 0 });
  await one.call("POST", `/_tandem/nodes/${(await nodeOf(other))?.id}/_drain`);
  await nodeOnce(one, ({ jobs }) => jobs === JOBS);
});

test("a killed process is shown as dead until it is restarted", async () => {
  expect(await nodeOf(other)).toMatchObject({ state: "draining" });
  const former = other;
  await other.kill();
  const dead = await nodeOnce(former, ({ state }) => state === "dead");
  expect(dead).toMatchObject({ state: "dead", draining: true, jobs: 0 });
  other = await processes.open({ directory });
  expect(await nodeOnce(other, ({ id }) => id !== null)).toMatchObject({
    state: "running",
    draining: false,
  });
  await one.call("POST", "/_tandem/nodes/_local/_drain");
  // Both processes have the same node name.
  await nodeOnce(one, ({ drained }) => drained);
  await nodeOnce(other, ({ drained }) => drained);
  expect(await nodeOf(former)).toBeUndefined();
});

test("draining an unknown node fails", async () => {
  expect((await one.call("POST", "/_tandem/nodes/nobody/_drain")).status).toBe(404);
  expect((await tandem("drain", "nobody")).errors).toContain("404 not_found");
});

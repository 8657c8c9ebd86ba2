/**
 * Requests to a frontend that require outgoing connections. The frontend adds a question to the
 * queue, and a replication node answers the question. In virtual time.
 */
import { expect, test } from "vitest";
import { parseJson } from "../../src/base/index.ts";
import { AskedQuestions } from "../../src/replicator/index.ts";
import { World } from "../simulation/kernel/world.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

const FOREVER = new AbortController().signal;
const AUTHORITY = { userName: "root", wasAdmin: true };
const RULE = { source: "local", databases: ["a"], target: "copy-{db}" };
const SILENT_RULE = { ...RULE, source: "http://silent.test" };

/** Opens a frontend, and a node that sends requests only to servers that never respond. */
async function open() {
  const world = new World("questions");
  const frontend = openVirtualNode({ world });
  await frontend.start({ runsJobs: false });
  for (const name of ["a", "_replicator"]) await frontend.createDatabase(name);
  const asking: string[] = [];
  const worker = openVirtualNode({
    world,
    fetch: ({ url, signal }) => {
      asking.push(url);
      return new Promise((_, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason)),
      );
    },
  });
  const { rules } = frontend.replicator;
  const asked = new AskedQuestions({ ...frontend, rules, plans: frontend.rulePlans });
  /** Returns the outcome of a question, and the time that the question took. */
  const outcomeOf = async (answer: Promise<unknown>) => {
    const beganMs = world.time.nowMs;
    const found = await world.until(answer.catch((error: unknown) => error));
    return { found, tookMs: world.time.nowMs - beganMs };
  };
  return { world, frontend, worker, asked, asking, outcomeOf };
}

test("a question fails immediately if no node can answer it, or as soon as the last node that could answer it loses its lease", async () => {
  const { world, frontend, worker, asked, asking, outcomeOf } = await open();
  const refused = { code: "REPLICATOR_NO_NODE", reason: expect.stringContaining("Start one") };
  const plan = (rule: object) => outcomeOf(asked.ofPut("rule", { ...rule }, AUTHORITY, FOREVER));
  expect((await plan(SILENT_RULE)).found).toMatchObject(refused);
  expect((await plan(RULE)).found).toMatchObject({ made: { count: 1, first: ["a"] } });
  // Planning this rule requires reading the security objects of the targets, which a frontend
  // cannot do.
  expect((await plan({ ...RULE, security: true })).found).toMatchObject(refused);
  await worker.start();
  await world.time.run(world.time.nowMs + 2000);

  // The node receives the number 4.0 unchanged, although JavaScript would write it as 4.
  const planned = plan({ ...SILENT_RULE, create_target_params: parseJson('{"q":4.0}') });
  await world.time.run(world.time.nowMs + 1000, () => asking.length > 0);
  worker.simulated.crash();
  const { found, tookMs } = await planned;
  expect(found).toMatchObject(refused);
  // The question ends because of the crash. Listing the source could take a minute.
  expect(tookMs).toBeLessThan(15_000);
  const left = await world.until(
    frontend.kv.read((tx) => frontend.jobs.list(tx, "question", { limit: 10 })),
  );
  expect(left.entries).toEqual([]);
  await frontend.stop();
});

test("a frontend itself follows a rule over local databases, even if the rule had another source before", async () => {
  const { world, frontend } = await open();
  const { rules } = frontend.replicator;
  const put = (rule: object) => world.until(rules.put("rule", { ...rule }, AUTHORITY));
  const shown = async () => (await world.until(rules.get("rule")))?.summary;
  const jobsLeft = () =>
    world.until(frontend.kv.read((tx) => frontend.jobs.list(tx, "replication", { limit: 10 })));
  await put(SILENT_RULE);
  expect((await shown())?.failure).toMatchObject({ error: "no_replication_node" });
  await put(RULE);
  await world.time.run(world.time.nowMs + 1000);
  expect(await shown()).toMatchObject({ jobCount: 1, failure: undefined });

  await frontend.createDatabase("ab");
  await put({ ...RULE, databases: ["a*"], target: "copy-{db}" });
  await world.time.run(world.time.nowMs + 1000);
  expect((await shown())?.jobCount).toBe(2);
  await put(SILENT_RULE);
  await world.time.run(world.time.nowMs + 1000);
  expect((await shown())?.failure).toMatchObject({ error: "no_replication_node" });
  await world.until(rules.remove("rule", AUTHORITY));
  await world.time.run(world.time.nowMs + 1000);
  expect((await jobsLeft()).entries).toEqual([]);
  await frontend.stop();
});

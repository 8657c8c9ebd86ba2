/** Jobs that replicate in both directions (`pair`), between two nodes. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { onceAnswered, Processes, type TandemNode } from "../../support/open-process.ts";
import { tandem } from "../../support/tandem-command.ts";

const processes = new Processes();
let berlin: TandemNode;
let paris: TandemNode;

beforeAll(async () => {
  const ini = "[replicator]\npark_after_sec = 1\nmin_backoff_penalty_sec = 1\n";
  berlin = await processes.openHere({ ini });
  paris = await processes.openHere({ ini });
  for (const node of [berlin, paris]) await node.call("PUT", "/films");
  await berlin.call("PUT", "/_replicator");
});
afterAll(() => processes.close());

/** Waits until `passes` accepts the job. */
// biome-ignore lint/suspicious/noExplicitAny: rows of every shape.
async function once(name: string, passes: (job: any) => boolean) {
  const path = `/_tandem/jobs/${encodeURIComponent(name)}`;
  const ask = () => berlin.call("GET", path);
  return (await onceAnswered([berlin, paris], ask, ({ body }) => passes(body))).body;
}

async function onceCopied(node: TandemNode, path: string): Promise<void> {
  await onceAnswered(
    [berlin, paris],
    () => node.call("GET", path),
    ({ status }) => status === 200,
  );
}

const pair = () => ({
  source: "films",
  target: `${paris.url}/films`,
  pair: true,
  continuous: true,
});

test("the job of one document copies in both directions, parks, and is paused as a whole", async () => {
  await berlin.call("PUT", "/films/from-berlin", {});
  await paris.call("PUT", "/films/from-paris", {});
  const checked = await berlin.call("POST", "/_tandem/replications/_check", pair());
  expect(checked.body).toMatchObject({ ok: true, target: { changes: 1 } });
  expect((await berlin.call("PUT", "/_replicator/pair", pair())).status).toBe(201);
  await onceCopied(paris, "/films/from-berlin");
  await onceCopied(berlin, "/films/from-paris");
  const parked = await once("_replicator/pair", (job) => job.parked);
  expect(parked).toMatchObject({
    ...{ pair: true, state: "running", lag_sec: 0, pending: 0 },
    info: { docs_written: 2, reverse: { docs_written: 1 } },
  });
  const shown = await tandem(["jobs", "show", "_replicator/pair", "--server", berlin.url]);
  expect(shown.output).toMatch(/^directions +both \(pair\)$/m);
  const { body: twin } = await berlin.call("POST", "/_tandem/replications/_check", {
    ...{ source: `${paris.url}/films`, target: "films", continuous: true },
  });
  expect(twin.job).toMatchObject({ name: "_replicator/pair" });
  // A change at the target wakes the job.
  await paris.call("PUT", "/films/later", {});
  await onceCopied(berlin, "/films/later");
  await berlin.call("POST", "/_tandem/jobs/_replicator%2Fpair/_pause");
  await once("_replicator/pair", (job) => job.paused && job.state === "pending");
  const start = await berlin.call("POST", "/_tandem/jobs/_replicator%2Fpair/_start_from", {
    since: "5-a",
  });
  expect([start.status, start.body.reason]).toEqual([
    400,
    '`since` must be 0 for a job with `pair`, which reads from two databases, but is "5-a"',
  ]);
});

test("the topology has an edge for each direction of a pair", async () => {
  const { body } = await berlin.call("GET", "/_tandem/topology");
  expect(body).toMatchObject({ jobs: 1, edges: [{ jobs: 1 }, { jobs: 1 }], loops: [{}] });
});

test("a rule with `pair` gives each database one job, which copies in both directions", async () => {
  for (const name of ["user-1", "user-2"]) {
    await berlin.call("PUT", `/${name}`);
    await berlin.call("PUT", `/${name}/from-berlin`, {});
  }
  const rule = { source: "local", target: `${paris.url}/{db}`, databases: ["user-*"], pair: true };
  expect((await berlin.call("PUT", "/_tandem/rules/users", rule)).status).toBe(201);
  await onceCopied(paris, "/user-2/from-berlin");
  await paris.call("PUT", "/user-2/from-paris", {});
  await onceCopied(berlin, "/user-2/from-paris");
  const { body } = await berlin.call("GET", "/_tandem/jobs?rule=users");
  expect(body.jobs.map((job: { name: string; pair: boolean }) => [job.name, job.pair])).toEqual([
    ["users/user-1", true],
    ["users/user-2", true],
  ]);
});

test("the failure of a pair names neither the source nor the target as its side", async () => {
  const members = { pair: true, continuous: true };
  await berlin.call("PUT", "/_replicator/missing", {
    ...{ source: "films", target: `${paris.url}/none`, ...members },
  });
  const { last_failure: failure } = await once("_replicator/missing", (job) => job.failing);
  expect(failure).toMatchObject({ side: null, error: "db_not_found" });
});

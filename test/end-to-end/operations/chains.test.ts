/** Jobs that start after other jobs (`after`), and the topology of jobs, on a real node. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { onceAnswered, Processes, type TandemProcess } from "../../support/open-process.ts";

const MAIN = fileURLToPath(new URL("../../../dist/program/main.js", import.meta.url));
const MISSING =
  "no_job: The job waits for _replicator/first, but you have no job of this name; create it, or change `after`";

const processes = new Processes();
let node: TandemProcess;

beforeAll(async () => {
  node = await processes.open();
  await node.call("PUT", "/films");
  await node.call("PUT", "/films/alien", { year: 1979 });
  await node.call("PUT", "/_replicator");
});
afterAll(() => processes.close());

const copy = (target: string, more: object = {}) => ({
  source: "films",
  target,
  create_target: true,
  ...more,
});

function put(id: string, members: object) {
  return node.call("PUT", `/_replicator/${id}`, members);
}

/** Waits until `passes` accepts the job. */
// biome-ignore lint/suspicious/noExplicitAny: rows of every shape.
async function once(id: string, passes: (job: any) => boolean) {
  const path = `/_tandem/jobs/${encodeURIComponent(`_replicator/${id}`)}`;
  const { body } = await onceAnswered(
    [node],
    () => node.call("GET", path),
    ({ body: job }) => passes(job),
  );
  return body;
}

function tandem(...flags: readonly string[]): Promise<string> {
  const options = { env: { ...process.env, COLUMNS: "80" } };
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [MAIN, ...flags, "--server", node.url], options, (error, output) =>
      error === null ? resolve(output) : reject(error),
    );
  });
}

test("a job that waits for another job shows the reason, and starts once the other job has completed", async () => {
  const checked = await node.call(
    "POST",
    "/_tandem/replications/_check",
    copy("second", { after: ["first"] }),
  );
  expect(checked.body).toMatchObject({ ok: true });
  expect((await put("self", copy("self", { after: "self" }))).status).toBe(403);
  expect((await put("second", copy("second", { after: "first" }))).status).toBe(201);
  expect(await once("second", () => true)).toMatchObject({
    state: "pending",
    after: ["_replicator/first"],
    held_back_by: "after",
    next_try: null,
    info: { error: MISSING },
  });
  const { body: scheduled } = await node.call("GET", "/_scheduler/docs/_replicator/second");
  expect(scheduled).toMatchObject({ state: "pending", info: { error: MISSING } });
  const shown = await tandem("jobs", "show", "_replicator/second");
  expect(shown).toMatch(/^starts after +_replicator\/first$/m);
  expect(shown).toMatch(/^held back by +after$/m);
  expect(shown).toContain("no_job: The job waits for _replicator/first");
  await put("first", copy("first"));
  await once("second", ({ state }) => state === "completed");
  expect((await node.call("GET", "/_replicator/second")).body._replication_state).toBe("completed");
});

test("a cycle of jobs is reported, and a retry of one job breaks the cycle", async () => {
  await put("x", copy("x", { after: "y" }));
  await put("y", copy("y", { after: "x" }));
  const { info } = await once("x", () => true);
  expect(info.error).toMatch(/^cycle: The job waits for _replicator\/y, which in turn waits/);
  await tandem("jobs", "retry", "_replicator/x");
  await once("y", ({ state }) => state === "completed");
});

test("the topology shows edges, lags and loops", async () => {
  await put("there", { source: "first", target: `${node.url}/second/`, continuous: true });
  await put("back", { source: "second", target: "first", continuous: true });
  for (const id of ["there", "back"]) await once(id, ({ lag_sec: lag }) => lag === 0);
  const { status, body } = await node.call("GET", "/_tandem/topology?name=_replicator/*");
  expect(status).toBe(200);
  expect(body.edges).toContainEqual({
    ...{ source: "first", target: "second", state: "running", lag_sec: 0, failing: 0, jobs: 1 },
    names: ["_replicator/there"],
  });
  expect(body.databases).toContainEqual({ name: "films", host: null });
  expect([body.loops, body.truncated]).toEqual([[["first", "second"]], false]);
  expect((await node.call("GET", "/_tandem/topology?nonsense=1")).status).toBe(400);
  const printed = await tandem("jobs", "topology", "--source", "first");
  expect(printed.split("\n").every((line) => line.length <= 80)).toBe(true);
  expect(printed).toMatch(/^first +second +running +0 s +1 +-$/m);
  expect(printed).toContain("1 job.");
  expect(await tandem("jobs", "topology")).toContain("Loops:\n  first <-> second\n");
});

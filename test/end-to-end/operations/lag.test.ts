/** A real node shows operators the lag of a job and the cause of the lag. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Processes, type TandemNode } from "../../support/open-process.ts";
import { tandem as run } from "../../support/tandem-command.ts";

const processes = new Processes();
let node: TandemNode;

beforeAll(async () => {
  node = await processes.openHere({
    ini: "[replicator]\nlag_interval_sec = 1\npark_after_sec = 0\n",
  });
});
afterAll(() => processes.close());

const pathOf = (id: string) => `/_tandem/jobs/${encodeURIComponent(`_replicator/${id}`)}`;

/** Waits until the job of a document matches the expected values. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
async function jobOnce(id: string, passes: (job: any) => boolean) {
  const ask = () => node.call("GET", pathOf(id));
  const { body } = await node.onceAnswered(ask, (answer) => passes(answer.body));
  return body;
}

function write(database: string, prefix: string, count: number) {
  const docs = Array.from({ length: count }, (_, n) => ({ _id: `${prefix}${n}`, n }));
  return node.call("POST", `/${database}/_bulk_docs`, { docs });
}

async function tandem(...flags: readonly string[]): Promise<string> {
  return (await run(["jobs", ...flags, "--server", node.url])).output;
}

test("a paused job with 300 pending changes reports this number, and the time since the job fell behind", async () => {
  await node.call("PUT", "/a");
  await write("a", "first", 3);
  const source = `${node.url}/a`;
  const follow = { source, target: "b", create_target: true, continuous: true };
  await node.call("PUT", "/_replicator/follow", follow);
  await jobOnce("follow", (job) => job.state === "running" && job.pending === 0);
  await node.call("POST", `${pathOf("follow")}/_pause`);
  await jobOnce("follow", (job) => job.state === "pending");
  await write("a", "later", 300);
  const behind = await jobOnce("follow", (job) => job.pending === 300);
  expect(behind).toMatchObject({
    lag_sec: expect.any(Number),
    behind_since: expect.any(String),
    docs_per_sec: 0,
    held_back_by: "paused",
    next_try: null,
    info: { changes_pending: 300 },
  });
  const queries = ["behind_sec=0", "behind=true", "sort=lag", "behind_sec=0&sort=lag&paused=true"];
  for (const query of queries) {
    const { body } = await node.call("GET", `/_tandem/jobs?${query}`);
    expect(body.jobs.map((job: { doc_id: string }) => job.doc_id)).toEqual(["follow"]);
  }
  const later = await node.call("GET", "/_tandem/jobs?behind_sec=3600");
  expect(later.body).toMatchObject({ total_rows: 0, jobs: [] });
  const upToDate = await node.call("GET", "/_tandem/jobs?behind=false");
  expect(upToDate.body.jobs).toEqual([]);
  const shown = await tandem("show", "_replicator/follow");
  expect(shown).toMatch(/pending changes +300/);
  expect(shown).toMatch(/held back by +paused/);
  expect(shown).toMatch(/last runs:\n.*SEQ *\n.* stopped +3 /);

  const steered = await node.call("POST", "/_tandem/jobs/_resume?behind_sec=0");
  expect(steered.body).toEqual({ ok: true, matched: 1, changed: 1 });
  await jobOnce("follow", (job) => job.pending === 0 && job.lag_sec === 0);
  const caughtUp = await node.call("GET", "/_tandem/jobs?state=running&behind=false");
  expect(caughtUp.body.jobs).toMatchObject([{ doc_id: "follow" }]);
  await node.call("POST", `${pathOf("follow")}/_pause`);
  await jobOnce("follow", (job) => job.state === "pending");
  const { body } = await node.call("GET", `${pathOf("follow")}/runs`);
  expect(body).toMatchObject({
    total_rows: 2,
    runs: [
      { cause: "stopped", docs_written: 300, bytes: expect.any(Number) },
      { cause: "stopped", docs_written: 3, reason: null },
    ],
  });
  expect(body.runs[0].bytes).toBeGreaterThan(300);
  expect(await tandem("runs", "_replicator/follow", "--json")).toContain('"total_rows"');
});

test("a job throttled by its source's budget reports this as the cause of its lag", async () => {
  await node.call("PUT", "/slow");
  await write("slow", "d", 50);
  const budget = { read: { requests_per_sec: 0.5 } };
  await node.call("PUT", `/_tandem/budgets/${encodeURIComponent(new URL(node.url).host)}`, budget);
  const follow = { source: `${node.url}/slow`, target: "c", create_target: true };
  await node.call("PUT", "/_replicator/slow", { ...follow, continuous: true });
  const held = await jobOnce("slow", (job) => job.held_back_by === "budget");
  expect(held).toMatchObject({ state: "running" });
});

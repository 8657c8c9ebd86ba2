/** Documents with conflicts: how the API lists and counts them. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../src/server/index.ts";

let server: RunningServer;

beforeAll(async () => {
  const config = readConfig({ port: 0, store: "memory" }, {});
  server = await openServer(config, { event() {} });
});

afterAll(() => server.stop());

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
async function ask(method: string, path: string, body?: object): Promise<any> {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { "Content-Type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return response.json();
}

const conflictsOf = (name: string, query = "") =>
  ask("GET", `/_tandem/databases/${name}/conflicts${query}`);

async function metric(): Promise<number> {
  const text = await (await fetch(`${server.url}/_node/_local/_prometheus`)).text();
  return Number(/^tandem_databases_conflicts (\d+)$/m.exec(text)?.[1]);
}

test("a conflict that a replication creates is listed with the replication's job until one leaf is deleted", async () => {
  for (const name of ["berlin", "paris"]) {
    await ask("PUT", `/${name}`);
    await ask("PUT", `/${name}/same`, {});
    await ask("PUT", `/${name}/other`, { from: name });
  }
  expect(await conflictsOf("paris")).toEqual({
    total_rows: 0,
    complete: true,
    bookmark: null,
    conflicts: [],
  });
  const job = { source: "berlin", target: "paris" };
  expect(await ask("POST", "/_replicate", job)).toMatchObject({ ok: true });
  const { _rev: winner, _conflicts: losers } = await ask("GET", "/paris/other?conflicts=true");
  const row = { id: "other", winner, conflicts: losers, leaves: 2 };
  const page = await conflictsOf("paris");
  expect(page).toMatchObject({ total_rows: 1, complete: true, conflicts: [row] });
  const [{ since, job_id: jobId }] = page.conflicts;
  expect(Date.parse(since)).toBeGreaterThan(0);
  expect(await ask("GET", `/_tandem/jobs/${jobId}`)).toMatchObject({
    target: expect.stringContaining("paris"),
  });
  expect(await ask("GET", "/_tandem/conflicts")).toEqual({
    databases: [{ name: "paris", conflicts: 1 }],
    bookmark: null,
  });
  expect(await metric()).toBe(1);
  await ask("DELETE", `/paris/other?rev=${losers[0]}`);
  expect(await conflictsOf("paris")).toMatchObject({ total_rows: 0, conflicts: [] });
  expect(await ask("GET", "/_tandem/conflicts")).toEqual({ databases: [], bookmark: null });
  expect(await metric()).toBe(0);
});

test("a request with a bookmark returns the next page of conflicts, and a removed database has no conflicts", async () => {
  await ask("PUT", "/many");
  const ids = Array.from({ length: 5 }, (_, at) => `é ${at}`);
  const docs = ids.flatMap((_id) => [
    { _id, _rev: "1-a" },
    { _id, _rev: "1-b" },
    { _id, _rev: "2-c", _deleted: true },
  ]);
  await ask("POST", "/many/_bulk_docs", { new_edits: false, docs });
  const found: string[] = [];
  let bookmark: string | null = "";
  while (bookmark !== null) {
    const from: string = bookmark === "" ? "" : `&bookmark=${encodeURIComponent(bookmark)}`;
    const page = await conflictsOf("many", `?limit=2${from}`);
    expect(page.total_rows).toBe(5);
    for (const { id, ...row } of page.conflicts) {
      expect(row).toMatchObject({ winner: "1-b", conflicts: ["1-a"], leaves: 2, job_id: null });
      found.push(id);
    }
    bookmark = page.bookmark;
  }
  expect(found).toEqual(ids);
  expect(await metric()).toBe(5);
  await ask("DELETE", "/many");
  expect(await metric()).toBe(0);
  await ask("PUT", "/many");
  expect(await conflictsOf("many")).toMatchObject({ total_rows: 0, complete: true });
});

test.each([
  ["limit=0", "limit"],
  ["skip=1", "skip"],
])(
  "a list of conflicts with the query ?%s is rejected, and the reason contains the parameter's name",
  async (query, name) => {
    const { error, reason } = await conflictsOf("paris", `?${query}`);
    expect([error, reason]).toEqual(["bad_request", expect.stringContaining(name)]);
  },
);

test("listing the conflicts of a missing database returns 404", async () => {
  expect(await conflictsOf("none")).toMatchObject({ error: "not_found" });
});

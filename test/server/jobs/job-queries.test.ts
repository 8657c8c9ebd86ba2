/** Queries and commands for several jobs, over HTTP. Each refusal states its reason. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../../src/server/index.ts";
import { call } from "../../support/open-process.ts";

let server: RunningServer;
let announce: (name: string) => void = () => {};
const ask = (method: string, path: string, body?: object) =>
  call(`${server.url}${path}`, method, body);

beforeAll(async () => {
  const config = readConfig({ port: 0, store: "memory" }, {});
  server = await openServer(config, { event: (name) => announce(name) });
  await ask("PUT", "/a");
  const crashed = new Promise<void>((resolve) => {
    announce = (name) => name === "replication.crashed" && resolve();
  });
  await ask("PUT", "/_replicator/broken", { source: "nothing", target: "b" });
  await crashed;
  for (const id of ["one", "two"]) {
    await ask("PUT", `/_replicator/${id}`, {
      source: "a",
      target: id,
      create_target: true,
      continuous: true,
    });
  }
});
afterAll(() => server.stop());

test("a failing job shows its last failure, with the endpoint's side and host", async () => {
  const { body } = await ask("GET", "/_tandem/jobs?failing=true");
  expect(body).toMatchObject({ total_rows: 1, offset: 0, bookmark: null });
  expect(body.jobs[0]).toMatchObject({
    doc_id: "broken",
    failing: true,
    failing_since: expect.any(String),
    left_behind: 0,
    parked: false,
    lag_sec: null,
    last_failure: {
      class: "not_found",
      error: "db_not_found",
      phase: "open",
      side: "source",
      host: null,
      tries: expect.any(Number),
    },
  });
});

test("failing jobs are grouped, and a filter with the properties of a group finds the group's jobs", async () => {
  const { body } = await ask("GET", "/_tandem/failing");
  expect(body).toEqual({
    total_rows: 1,
    jobs: 1,
    groups: [
      {
        tag: null,
        class: "not_found",
        side: "source",
        host: null,
        login: null,
        login_gate: null,
        count: 1,
        since: expect.any(String),
        next_try: expect.any(String),
        error: "db_not_found",
        reason: expect.stringContaining("nothing"),
        example: "_replicator/broken",
      },
    ],
  });
  expect((await ask("GET", "/_tandem/failing?skip=1")).body.groups).toEqual([]);
  const named = await ask("GET", "/_tandem/jobs?error=not_found&side=source&host=-");
  expect([named.body.total_rows, named.body.jobs[0].doc_id]).toEqual([1, "broken"]);
  expect((await ask("GET", "/_tandem/jobs?side=target")).body.total_rows).toBe(0);
});

test("lists of servers and groups contain the number of jobs of each server and group", async () => {
  const later = { source: "https://far.invalid/a", target: "b", continuous: true };
  await ask("PUT", "/_tandem/budgets/far.invalid", { read: { requests_per_sec: 5 } });
  await ask("PUT", "/extra%2F_replicator");
  await ask("PUT", "/extra%2F_replicator/later", later);
  const { body } = await ask("GET", "/_tandem/endpoints");
  expect(body.total_rows).toBe(1);
  expect(body.endpoints[0]).toMatchObject({
    host: "far.invalid",
    source_jobs: 1,
    target_jobs: 0,
    budgets: [{ name: "far.invalid", read: { requests_per_sec: 5 }, write: {} }],
  });
  const groups = await ask("GET", "/_tandem/groups");
  const named = groups.body.groups.map(({ name }: { name: string }) => name);
  expect(named.toSorted()).toEqual(["_replicator", "extra/_replicator"]);
  expect(groups.body.groups[0]).toEqual({
    name: expect.any(String),
    shares: 100,
    usage_sec: expect.any(Number),
    standing: expect.any(Number),
    jobs: { running: expect.any(Number), pending: expect.any(Number), ended: 0 },
    longest_wait_sec: expect.any(Number),
  });
  await ask("DELETE", "/_tandem/budgets/far.invalid");
  await ask("POST", "/_tandem/jobs/_cancel?source=far.invalid");
});

test("a budget can be created, changed and removed, and a removed budget is not found", async () => {
  const path = "/_tandem/budgets/near.invalid";
  const put = (rate: number) => ask("PUT", path, { read: { requests_per_sec: rate } });
  expect(await put(5)).toMatchObject({ status: 201, body: { ok: true } });
  expect(await put(6)).toMatchObject({ status: 200, body: { ok: true } });
  expect((await ask("GET", path)).body).toMatchObject({ read: { requests_per_sec: 6 } });
  expect(await ask("DELETE", path)).toMatchObject({ status: 200, body: { ok: true } });
  expect((await ask("DELETE", path)).status).toBe(404);
  expect((await ask("GET", path)).status).toBe(404);
  expect((await put(7)).status).toBe(201);
  expect((await ask("DELETE", path)).status).toBe(200);
});

test("a request with a bookmark returns the next page", async () => {
  const seen: string[] = [];
  let query = "limit=1&database=_replicator";
  for (let page = 0; page < 3; page++) {
    const { status, body } = await ask("GET", `/_tandem/jobs?${query}`);
    expect([status, body.total_rows, body.jobs.length]).toEqual([200, 3, 1]);
    seen.push(body.jobs[0].doc_id);
    expect(body.bookmark === null).toBe(page === 2);
    query = `limit=1&database=_replicator&bookmark=${encodeURIComponent(body.bookmark)}`;
  }
  expect(seen).toEqual(["broken", "one", "two"]);
});

test.each([
  ["sorce=x", "Unknown parameter sorce. Choose from: name, state, database"],
  ["state=dead", "Unknown state dead. Choose from: running"],
  ["error=whatever", "Unknown error whatever. Choose from: unreachable, dns"],
  ["side=left", "Unknown side left. Choose from: source, target, -"],
  ["behind_sec=long", "behind_sec must be an integer"],
  ["sort=name", "Unknown sort name. Choose from: id, since, tries, lag"],
  ["bookmark=x", "Invalid bookmark: use the one returned with the previous page"],
  ["failing=perhaps", "Invalid boolean parameter"],
  ["name=a&name=b", "Parameter name is given more than once"],
])("GET /_tandem/jobs?%s is refused: %s", async (query, reason) => {
  const { status, body } = await ask("GET", `/_tandem/jobs?${query}`);
  expect(status).toBe(400);
  expect(body.reason).toContain(reason);
});

test("a command with an unknown filter is refused, and changes nothing", async () => {
  const refused = await ask("POST", "/_tandem/jobs/_pause?sorce=x&all=true");
  expect([refused.status, refused.body.reason]).toEqual([
    400,
    expect.stringContaining("Unknown parameter sorce"),
  ]);
  expect((await ask("POST", "/_tandem/jobs/_pause")).status).toBe(400);
  expect((await ask("GET", "/_tandem/jobs?paused=true")).body.total_rows).toBe(0);
});

test.each([
  ["/_tandem/jobs/_pause?name=", "name must not be empty"],
  ["/_tandem/jobs/_pause?name=&failing=true", "name must not be empty"],
  ["/_tandem/jobs/_pause?all=true&owner=", "owner must not be empty"],
  ["/_tandem/credentials/_replace?dry_run=true&owner=", "owner must not be empty"],
])("a command with an empty filter, %s, is refused", async (path, reason) => {
  const refused = await ask("POST", path, {});
  expect([refused.status, refused.body.reason]).toEqual([400, reason]);
});

test("a command applies to the jobs that match its filter", async () => {
  const paused = await ask("POST", "/_tandem/jobs/_pause?failing=true");
  expect(paused.body).toEqual({ ok: true, matched: 1, changed: 1 });
  const { body } = await ask("GET", "/_tandem/jobs?paused=true");
  expect(body.jobs.map((job: { doc_id: string }) => job.doc_id)).toEqual(["broken"]);
  expect(body.jobs[0].last_failure.next_try).toBeNull();
  const resumed = await ask("POST", "/_tandem/jobs/_resume?all=true&list=true");
  expect(resumed.body).toEqual({ ok: true, matched: 3, changed: 1, jobs: ["_replicator/broken"] });
  const retried = await ask("POST", "/_tandem/jobs/_retry_failures?all=true");
  expect(retried.body).toEqual({ ok: true, matched: 3, changed: 0 });
});

test("documents of _scheduler/docs can be selected by keys, and listed in either direction", async () => {
  const shown = async (query: string) => {
    const { body } = await ask("GET", `/_scheduler/docs/_replicator?${query}`);
    return [body.total_rows, body.docs.map((doc: { doc_id: string }) => doc.doc_id)];
  };
  expect(await shown("descending=true&limit=2")).toEqual([3, ["two", "one"]]);
  const keys = encodeURIComponent(JSON.stringify(["two", "nobody", "broken"]));
  expect(await shown(`keys=${keys}`)).toEqual([2, ["two", "broken"]]);
  const twice = encodeURIComponent(JSON.stringify(["two", "one", "two", "broken"]));
  expect(await shown(`keys=${twice}&skip=1&limit=2`)).toEqual([4, ["one", "two"]]);
  expect(await shown(`keys=${twice}&states=crashing`)).toEqual([1, ["broken"]]);
});

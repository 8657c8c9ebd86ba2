/** What a node counts and measures, as operators read it. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../src/server/index.ts";
import type { CounterRow } from "../../src/server/metrics/metric-table.ts";

let server: RunningServer;

beforeAll(async () => {
  const config = readConfig({ port: 0, store: "memory" }, {});
  server = await openServer(config, { event() {} });
});

afterAll(() => server.stop());

// biome-ignore lint/suspicious/noExplicitAny: tests look into it as they like.
async function ask(method: string, path: string, body?: object): Promise<any> {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { "Content-Type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return response.headers.get("content-type") === "application/json" ? JSON.parse(text) : text;
}

/** The value of a sample in Prometheus's text. */
async function sample(name: string): Promise<number> {
  const text: string = await ask("GET", "/_node/_local/_prometheus");
  const line = text.split("\n").find((each) => each.startsWith(`${name} `));
  return Number(line?.split(" ").at(-1));
}

test("requests are counted by method and by status", async () => {
  const before = await sample('couchdb_httpd_status_codes{code="404"}');
  await ask("GET", "/nope");
  await ask("GET", "/nope");
  expect(await sample('couchdb_httpd_status_codes{code="404"}')).toBe((before || 0) + 2);
  const { httpd, httpd_request_methods } = (await ask("GET", "/_node/_local/_stats")).couchdb;
  expect(httpd.requests.type).toBe("counter");
  expect(httpd.requests.value).toBeGreaterThanOrEqual(3);
  expect(httpd_request_methods.GET.value).toBe(httpd.requests.value);
  const node = await ask("GET", "/_node/_local");
  expect(await ask("GET", `/_node/${node.name}/_stats/couchdb/httpd/requests`)).toMatchObject({
    type: "counter",
    desc: "number of HTTP requests",
  });
});

test("a replication is counted under CouchDB's names", async () => {
  await ask("PUT", "/source");
  await ask("PUT", "/source/a", {});
  const local = (name: string): string => `${server.url}/${name}`;
  const body = { source: local("source"), target: local("target"), create_target: true };
  expect((await ask("POST", "/_replicate", body)).ok).toBe(true);
  const { jobs, checkpoints, requests, responses } = await ask(
    "GET",
    "/_node/_local/_stats/couch_replicator",
  );
  expect(jobs.accepts.value).toBe(1);
  expect(jobs.starts.value).toBe(1);
  expect(jobs.crashes.value).toBe(0);
  expect(jobs.running).toMatchObject({ value: 0, type: "gauge" });
  expect(checkpoints.success.value).toBeGreaterThan(0);
  expect(responses.success.value + responses.failure.value).toBe(requests.value);
  expect(await sample("couchdb_couch_replicator_jobs_starts_total")).toBe(1);
  expect(await sample("couchdb_couch_replicator_jobs_running")).toBe(0);
  expect(await sample("couchdb_couch_replicator_jobs_total")).toBe(1);
  expect(await sample("couchdb_couch_replicator_checkpoints_total")).toBe(
    checkpoints.success.value,
  );
  expect(await sample("tandem_replications_completed_total")).toBe(1);
});

test("the longest wait counts from when a job was added, in seconds", async () => {
  const config = readConfig({ port: 0, store: "memory", nodeType: "api_frontend" }, {});
  const frontend = await openServer(config, { event() {} });
  const gauge = async (): Promise<number> => {
    const url = `${frontend.url}/_node/_local/_stats/tandem/groups/longest_wait_seconds`;
    return ((await (await fetch(url)).json()) as { value: number }).value;
  };
  try {
    expect(await gauge()).toBe(0);
    const document = { source: `${frontend.url}/a`, target: `${frontend.url}/b` };
    const body = JSON.stringify(document);
    const headers = { "content-type": "application/json" };
    await fetch(`${frontend.url}/_replicator/waiting`, { method: "PUT", headers, body });
    const first = await gauge();
    expect(first).toBeGreaterThan(0);
    expect(first).toBeLessThan(60);
    expect(await gauge()).toBeGreaterThan(first);
  } finally {
    await frontend.stop();
  }
});

test("the process tells its age and its memory", async () => {
  const system = await ask("GET", "/_node/_local/_system");
  expect(system.uptime).toBeGreaterThanOrEqual(0);
  expect(system.memory.processes_used).toBeGreaterThan(0);
});

test("a name that counts nothing is null, and another node is down, as in CouchDB", async () => {
  expect(await ask("GET", "/_node/_local/_stats/nope")).toBeNull();
  expect(await ask("GET", "/_node/foo/_stats")).toEqual({
    error: "nodedown",
    reason: "foo is down",
  });
});

test("a metric for an event that does not exist does not compile", () => {
  const base: Omit<CounterRow, "event"> = { path: ["tandem", "nothing"], description: "nothing" };
  const rows: CounterRow[] = [
    { ...base, event: "kv.retry" },
    // @ts-expect-error: there is no such event.
    { ...base, event: "kv.retired" },
  ];
  expect(rows.length).toBe(2);
});

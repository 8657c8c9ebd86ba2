/** Counters and gauges of a node, as operators read them. */
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

/** Returns the value of a sample in Prometheus's text format. */
async function sample(name: string): Promise<number> {
  const text: string = await ask("GET", "/_node/_local/_prometheus");
  const line = text.split("\n").find((each) => each.startsWith(`${name} `));
  return Number(line?.split(" ").at(-1));
}

test("request times are exported as a summary", async () => {
  const name = "couchdb_request_time_seconds";
  const [countBefore, sumBefore] = [await sample(`${name}_count`), await sample(`${name}_sum`)];
  await ask("GET", "/");
  // Three requests have ended since the first sample was taken: both sample requests and `GET /`.
  expect(await sample(`${name}_count`)).toBe(countBefore + 3);
  expect(await sample(`${name}_sum`)).toBeGreaterThan(sumBefore);
  const [median, longest] = [0.5, 0.999].map((part) => sample(`${name}{quantile="${part}"}`));
  expect(await median).toBeGreaterThan(0);
  expect(await longest).toBeGreaterThanOrEqual((await median) ?? 0);
  const text: string = await ask("GET", "/_node/_local/_prometheus");
  expect(text).toContain(`# TYPE ${name} summary`);
});

test("CouchDB metrics for which Tandem has no data have the same type as in CouchDB", async () => {
  const text: string = await ask("GET", "/_node/_local/_prometheus");
  expect(text).toContain("# TYPE couchdb_couch_replicator_cluster_is_stable gauge");
  expect(text).toContain("# TYPE couchdb_couch_log_requests_total counter");
});

test("requests are counted by method and by response status", async () => {
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

test("a replication is counted in the metrics that CouchDB has", async () => {
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
  expect(await sample("tandem_replications_copied_documents_total")).toBe(1);
  // The bytes of the document are counted both when it is read and when it is written.
  expect(await sample("tandem_replications_copied_bytes_total")).toBeGreaterThan(100);
  const before = await sample("tandem_replications_copied_bytes_total");
  await ask("PUT", "/source/b", { text: "x".repeat(100_000) });
  expect((await ask("POST", "/_replicate", body)).ok).toBe(true);
  expect(await sample("tandem_replications_copied_documents_total")).toBe(2);
  expect(await sample("tandem_replications_copied_bytes_total")).toBeGreaterThan(before + 200_000);
});

test("the longest wait of any job is measured in seconds since the job was added", async () => {
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

/** Returns the values of a gauge by the values of its labels. */
async function samples(name: string): Promise<Record<string, number>> {
  const text: string = await ask("GET", "/_node/_local/_prometheus");
  const found = text.matchAll(new RegExp(`^${name}\\{(.*)\\} (\\S+)$`, "gm"));
  return Object.fromEntries(
    [...found].map(([, labels, value]) => [
      [...String(labels).matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, text]) => text).join(" "),
      Number(value),
    ]),
  );
}

/**
 * Counts the jobs that `GET /_tandem/jobs` lists for a filter, by the name that `nameOf` returns.
 */
async function counted(filter: string, nameOf: (job: Job) => string) {
  const { jobs } = await ask("GET", `/_tandem/jobs?limit=1000&${filter}`);
  const counts: Record<string, number> = {};
  for (const job of jobs as Job[]) counts[nameOf(job)] = (counts[nameOf(job)] ?? 0) + 1;
  return counts;
}

interface Job {
  readonly state: string;
  readonly paused: boolean;
  readonly last_failure: { readonly class: string; readonly host: string | null };
}

const causeOf = ({ last_failure: { class: failureClass, host } }: Job) =>
  `${failureClass} ${host ?? "none"}`;

/** Waits until the event feed has reported this number of failing jobs. */
async function onceFailing(count: number): Promise<void> {
  const stopping = new AbortController();
  const { body } = await fetch(`${server.url}/_tandem/events`, { signal: stopping.signal });
  for await (const _ of body ?? []) {
    if ((await ask("GET", "/_tandem/jobs?failing=true")).total_rows === count) break;
  }
  stopping.abort();
}

test("gauges agree with the lists of jobs: states, flags, and failures by class and host", async () => {
  await ask("PUT", "/_replicator");
  const document = (id: string, source: string) =>
    ask("PUT", `/_replicator/${id}`, { source, target: "copy", create_target: true });
  for (let n = 0; n < 3; n++) await document(`lost${n}`, `nowhere${n}`);
  await document("gone", "http://127.0.0.1:9/db");
  await document("proto", "http://__proto__/db");
  await onceFailing(5);
  await ask("POST", "/_tandem/jobs/_replicator%2Flost0/_pause");
  expect(await samples("tandem_jobs_failing_by_cause")).toEqual(
    await counted("failing=true", causeOf),
  );
  expect(await samples("tandem_jobs_failing_by_cause")).toMatchObject({ "not_found none": 3 });
  expect(await sample("tandem_jobs_failing")).toBe(5);
  expect(await sample("tandem_jobs_paused")).toBe(1);
  expect(await sample("tandem_jobs_parked")).toBe(0);
  const states = await samples("tandem_jobs_state");
  expect(states).toMatchObject(await counted("", ({ state }) => state));
  expect(Object.keys(states).toSorted()).toEqual(
    ["completed", "crashing", "failed", "pending", "running"].toSorted(),
  );
  expect(await sample("couchdb_couch_replicator_jobs_crashed")).toBe(states.crashing);
  expect(await sample("tandem_nodes_alive")).toBe(1);
  expect(await sample("tandem_store_disk_full")).toBe(0);
  const tree = await ask("GET", "/_node/_local/_stats/tandem/jobs/failing_by_cause/not_found");
  expect(tree.none).toMatchObject({ value: 3, type: "gauge" });
  const causes = await ask("GET", "/_node/_local/_stats/tandem/jobs/failing_by_cause");
  const hosts = Object.values(causes as object).flatMap((of) => Object.keys(of));
  expect(hosts).toContain("__proto__");

  await ask("POST", "/_tandem/jobs/_replicator%2Flost1/_cancel");
  await ask("POST", "/_tandem/jobs/_replicator%2Flost2/_cancel");
  expect(await samples("tandem_jobs_failing_by_cause")).toMatchObject({ "not_found none": 1 });
});

test("the metrics count the rules whose source cannot be listed, and the API lists these rules", async () => {
  const rule = (source: string) => ({ source, target: "copy-{db}", databases: ["user-*"] });
  await ask("PUT", "/_tandem/rules/fine", rule("local"));
  await ask("PUT", "/_tandem/rules/lost", rule("http://127.0.0.1:9/"));
  await ask("PUT", "/_tandem/rules/missing", rule("http://127.0.0.1:9/"));
  while ((await sample("tandem_rules_failing")) !== 2) await new Promise(setImmediate);
  const page = (more: string) => ask("GET", `/_tandem/rules?failing=true&limit=1${more}`);
  const { rules, bookmark, ...rest } = await page("");
  expect(rest).toEqual({ total_rows: 2 });
  expect([rules[0].name, rules[0].status.last_error.error]).toEqual([
    "lost",
    "http_request_failed",
  ]);
  const next = await page(`&bookmark=${bookmark}`);
  expect([next.rules[0].name, next.bookmark]).toEqual(["missing", null]);
  for (const name of ["fine", "lost", "missing"]) await ask("DELETE", `/_tandem/rules/${name}`);
  expect(await sample("tandem_rules_failing")).toBe(0);
});

test("all metrics that couchdb-prometheus-exporter reads exist, and those for which Tandem has no data are 0, with CouchDB's description", async () => {
  const { couch_log, couch_replicator, couchdb, fabric, mango } = await ask(
    "GET",
    "/_node/_local/_stats",
  );
  const nothing = { value: 0, type: "counter" };
  expect(couch_log.level.warning).toEqual({
    ...nothing,
    desc: "number of logged warning messages",
  });
  expect(mango.docs_examined).toMatchObject(nothing);
  expect(mango.query_time.value).toMatchObject({ median: 0, n: 0 });
  expect(fabric.worker.timeout).toMatchObject(nothing);
  expect(fabric.doc_update.write_quorum_errors).toMatchObject(nothing);
  expect(couchdb.httpd_status_codes["417"]).toMatchObject(nothing);
  expect(couchdb.httpd_request_methods.COPY).toMatchObject(nothing);
  expect(couchdb.httpd.temporary_view_reads).toMatchObject(nothing);
  expect(couchdb.request_time.type).toBe("histogram");
  expect(couchdb.request_time.value.max).toBeGreaterThan(0);
  const exposed = {
    connection: "acquires creates releases owner_crashes worker_crashes closes",
    docs: "dbs_created dbs_deleted dbs_found dbs_changes failed_state_updates completed_state_updates",
    jobs: "adds duplicate_adds removes starts stops crashes running pending crashed total",
    stream_responses: "success failure",
  };
  for (const [group, names] of Object.entries(exposed)) {
    for (const name of names.split(" ")) {
      expect(couch_replicator[group][name]?.value).toBeGreaterThanOrEqual(0);
    }
  }
  expect(couch_replicator.cluster_is_stable.value).toBe(1);
  expect(await sample('couchdb_couch_log_requests_total{level="error"}')).toBe(0);
  expect(await sample("couchdb_mango_docs_examined_total")).toBe(0);
  const { memory } = await ask("GET", "/_node/_local/_system");
  expect(memory).toMatchObject({ atom: 0, atom_used: 0, code: 0, ets: 0 });
  // A job of another test might still be running.
  expect(await ask("GET", "/_node/_local/_active_tasks")).toEqual(expect.any(Array));
});

test("metrics contain the age and memory of the process", async () => {
  const system = await ask("GET", "/_node/_local/_system");
  expect(system.uptime).toBeGreaterThanOrEqual(0);
  expect(system.memory.processes_used).toBeGreaterThan(0);
});

test("the value of an unknown metric is null, and the metrics of another node are not found, as in CouchDB", async () => {
  expect(await ask("GET", "/_node/_local/_stats/nope")).toBeNull();
  expect(await ask("GET", "/_node/foo/_stats")).toEqual({
    error: "not_found",
    reason: "no such node: foo",
  });
});

test("code with a metric for a nonexistent event does not compile", () => {
  const base: Omit<CounterRow, "event"> = { path: ["tandem", "nothing"], description: "nothing" };
  const rows: CounterRow[] = [
    { ...base, event: "kv.retry" },
    // @ts-expect-error: there is no such event.
    { ...base, event: "kv.retired" },
  ];
  expect(rows.length).toBe(2);
});

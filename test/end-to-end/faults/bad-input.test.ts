/**
 * Invalid requests. The response has CouchDB's status and error, and a reason that names the field.
 * The server keeps running.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Answer, Processes, type TandemNode } from "../../support/open-process.ts";

const processes = new Processes();
let node: TandemNode;

beforeAll(async () => {
  node = await processes.openHere({ ini: "[replicator]\nretries_per_request = 1\n" });
  await node.call("PUT", "/a");
});
afterAll(async () => {
  expect((await node.call("GET", "/_up")).body.status).toBe("ok");
  await processes.close();
});

function expectRefusal(answer: Answer, status: number, error: string, reason: string): void {
  expect(answer.status).toBe(status);
  expect(answer.body.error).toBe(error);
  expect(answer.body.reason).toContain(reason);
}

const FIELDS: readonly [body: unknown, reason: string][] = [
  [{}, "`source`"],
  [{ target: "b" }, "`source`"],
  [{ source: "a" }, "`target`"],
  [{ source: 7, target: "b" }, "`source` must be a string or an object"],
  [{ source: ["a"], target: "b" }, "`source` must be a string or an object"],
  [{ source: null, target: "b" }, "`source`"],
  [{ source: "", target: "b" }, "`source`"],
  [{ source: "ftp://host/a", target: "b" }, "`source`"],
  [{ source: { url: 7 }, target: "b" }, "`source.url`"],
  [{ source: {}, target: "b" }, "`source.url`"],
  [{ source: "http://host:port/a", target: "b" }, "`source` has an invalid url"],
  [{ source: { url: "http://h/a", headers: 1 }, target: "b" }, "`source.headers`"],
  [{ source: { url: "http://h/a", headers: { x: 1 } }, target: "b" }, "`source.headers.x`"],
  [{ source: { url: "http://h/a", headers: { x: "a\r\nb" } }, target: "b" }, "`source.headers.x`"],
  [{ source: { url: "http://h/a", auth: 1 }, target: "b" }, "`source.auth`"],
  [{ source: { url: "http://h/a", auth: { basic: {} } }, target: "b" }, "`source.auth.basic`"],
  [{ source: "a", target: "b", continuous: "true" }, "`continuous` must be a boolean"],
  [{ source: "a", target: "b", create_target: 1 }, "`create_target` must be a boolean"],
  [{ source: "a", target: "b", doc_ids: "x" }, "`doc_ids` must be an array"],
  [{ source: "a", target: "b", doc_ids: [1] }, "`doc_ids` array must contain"],
  [{ source: "a", target: "b", selector: [] }, "`selector` must be a JSON object"],
  [{ source: "a", target: "b", filter: "nope" }, "Must match `ddocname/filtername`"],
  [{ source: "a", target: "b", filter: "d/f", selector: {} }, "mutually exclusive"],
  [{ source: "a", target: "b", filter: "_view" }, "`view`"],
  [{ source: "a", target: "b", query_params: "x" }, "`query_params` must be an object"],
  [{ source: "a", target: "b", worker_batch_size: -1 }, "`worker_batch_size`"],
  [{ source: "a", target: "b", worker_processes: "many" }, "`worker_processes`"],
  [{ source: "a", target: "b", http_connections: 0 }, "`http_connections`"],
  [{ source: "a", target: "b", schedule: "daily" }, "`schedule` must be like"],
  [{ source: "a", target: "b", schedule: "between 22:00 and 06:00" }, "must include an interval"],
  [
    { source: "a", target: "b", schedule: "every 1h", continuous: true },
    "`schedule` of a continuous replication must be a window",
  ],
];

test.each(FIELDS)("_replicate and _replicator refuse %j", async (body, reason) => {
  expectRefusal(await node.call("POST", "/_replicate", body), 400, "bad_request", reason);
  expectRefusal(await node.call("PUT", "/_replicator/bad", body), 403, "forbidden", reason);
  expect((await node.call("GET", "/_replicator/bad")).status).toBe(404);
});

test("_replicate refuses a schedule, because the caller waits for the end of the replication", async () => {
  const body = { source: "a", target: "b", schedule: "every 1h" };
  const answer = await node.call("POST", "/_replicate", body);
  expectRefusal(
    answer,
    400,
    "bad_request",
    "`schedule` is only supported in documents of a _replicator database",
  );
});

test("a replication document with more than 10,000 doc_ids is refused", async () => {
  const doc_ids = Array.from({ length: 10_001 }, (_, at) => String(at));
  const answer = await node.call("PUT", "/_replicator/bad", { source: "a", target: "b", doc_ids });
  expectRefusal(answer, 403, "forbidden", "`doc_ids` array must not have more than 10000 ids");
  const long = { source: "a", target: "b", doc_ids: ["x".repeat(2_000_000)] };
  expectRefusal(
    await node.call("PUT", "/_replicator/bad", long),
    403,
    "forbidden",
    "A replication document must not have more than 2000000 characters",
  );
  const allowed = { source: "a", target: "b", doc_ids: doc_ids.slice(1) };
  expect((await node.call("PUT", "/_replicator/many", allowed)).status).toBe(201);
});

test("a body that is not a JSON object is refused", async () => {
  const replicate = (body: string) => node.call("POST", "/_replicate", body);
  expectRefusal(await replicate('{"source": "a", '), 400, "bad_request", "invalid UTF-8 JSON");
  expectRefusal(await replicate(""), 400, "bad_request", "invalid UTF-8 JSON");
  expectRefusal(await replicate("[]"), 400, "bad_request", "Request body must be a JSON object");
  expectRefusal(await replicate('"a"'), 400, "bad_request", "Request body must be a JSON object");
  const text = await fetch(`${node.url}/_replicate`, { method: "POST", body: "{}" });
  expect([text.status, await text.json()]).toEqual([
    415,
    { error: "bad_content_type", reason: "Content-Type must be application/json" },
  ]);
  const got = await node.call("GET", "/_replicate");
  expectRefusal(got, 405, "method_not_allowed", "Only POST allowed");
});

test("the error names the missing database or the unreachable server", async () => {
  const unknown = await node.call("POST", "/_replicate", { source: "nowhere", target: "a" });
  expectRefusal(unknown, 500, "db_not_found", `could not open ${node.url}/nowhere/`);
  const target = await node.call("POST", "/_replicate", {
    source: "a",
    target: `${node.url}/none`,
  });
  expectRefusal(target, 500, "db_not_found", `could not open ${node.url}/none/`);
  const refused = await node.call("POST", "/_replicate", {
    source: "http://user:secret@127.0.0.1:1/a",
    target: "a",
  });
  expectRefusal(
    refused,
    500,
    "http_request_failed",
    "could not reach http://127.0.0.1:1/_session: the connection was refused",
  );
  expect(JSON.stringify(refused.body)).not.toContain("secret");
  expect(node.log()).not.toContain("secret");
});

test("a cancellation is refused if it names no job or an unknown job", async () => {
  const cancel = (body: object) => node.call("POST", "/_replicate", { ...body, cancel: true });
  expectRefusal(await cancel({ replication_id: "nope" }), 404, "not_found", "missing");
  expectRefusal(await cancel({}), 400, "bad_request", "`source`");
  const text = await node.call("POST", "/_replicate", { cancel: "true" });
  expectRefusal(text, 400, "bad_request", "parameter `cancel` must be a boolean");
});

test("cancelling the job of a document is refused as long as the document exists", async () => {
  const body = { source: "a", target: "kept", create_target: true, continuous: true };
  expect((await node.call("PUT", "/_replicator/kept", body)).status).toBe(201);
  const { body: job } = await node.onceAnswered(
    () => node.call("GET", "/_scheduler/docs/_replicator/kept"),
    (answer) => answer.body.state === "running",
  );
  const cancelled = await node.call("POST", "/_replicate", {
    replication_id: job.id,
    cancel: true,
  });
  expectRefusal(cancelled, 401, "unauthorized", "Persistent replication collision");
  const { body: document } = await node.call("GET", "/_replicator/kept");
  expect((await node.call("DELETE", `/_replicator/kept?rev=${document._rev}`)).status).toBe(200);
});

test("invalid queries of the scheduler are refused with CouchDB's error and reason", async () => {
  const limit = await node.call("GET", "/_scheduler/jobs?limit=abc");
  expectRefusal(limit, 400, "query_parse_error", "limit must be an integer");
  const skip = await node.call("GET", "/_scheduler/jobs?skip=-1");
  expectRefusal(skip, 400, "query_parse_error", "skip not in range of [0,infinity]");
  const states = await node.call("GET", "/_scheduler/docs?states=odd");
  expectRefusal(states, 400, "query_parse_error", "Unknown states odd.");
  expectRefusal(await node.call("GET", "/_scheduler/jobs/none"), 404, "not_found", "missing");
  expectRefusal(await node.call("GET", "/_scheduler/docs/a"), 400, "bad_request", "Invalid path");
});

test("a wrong password causes a 401 error in a request to a node, and in a replication from that node", async () => {
  const guarded = await processes.openHere({ ini: "[admins]\nanna = right\n" });
  const ask = async (credentials: string | undefined, path: string): Promise<Answer> => {
    const headers: Record<string, string> =
      credentials === undefined ? {} : { authorization: `Basic ${btoa(credentials)}` };
    const response = await fetch(guarded.url + path, { headers });
    return { status: response.status, body: await response.json() };
  };
  expect((await ask("anna:right", "/_all_dbs")).status).toBe(200);
  expectRefusal(await ask("anna:wrong", "/_all_dbs"), 401, "unauthorized", "incorrect");
  expectRefusal(await ask(undefined, "/_replicator"), 401, "unauthorized", "not authorized");
  expect((await ask(undefined, "/_up")).status).toBe(200);
  const copied = await node.call("POST", "/_replicate", {
    source: guarded.url.replace("://", "://anna:wrong@").concat("/_users"),
    target: "a",
  });
  expectRefusal(copied, 401, "unauthorized", "unauthorized to access or create database");
  const allowed = await node.call("POST", "/_replicate", {
    source: guarded.url.replace("://", "://anna:right@").concat("/_users"),
    target: "a",
  });
  expect(allowed.status).toBe(200);
  const session = await fetch(`${guarded.url}/_session`, {
    method: "POST",
    body: new URLSearchParams({ name: "anna", password: "right" }),
  });
  const cookie = session.headers.get("set-cookie")?.split(";")[0] as string;
  const byCookie = await fetch(`${guarded.url}/_all_dbs`, { headers: { cookie } });
  expect(byCookie.status).toBe(200);
});

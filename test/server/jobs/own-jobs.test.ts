/**
 * Several users request the same replication, so that their jobs have the same replication id. Each
 * user sees only their own job under this id.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../../src/server/index.ts";

let server: RunningServer;

beforeAll(async () => {
  const config = readConfig(
    { port: 0, store: "memory" },
    { COUCHDB_USER: "root", COUCHDB_PASSWORD: "secret" },
  );
  config.configuration.set("chttpd_auth", "iterations", "10");
  // The second job must not be retried within the test.
  config.configuration.set("replicator", "max_backoff_penalty_sec", "3600");
  config.configuration.set("replicator", "min_backoff_penalty_sec", "3600");
  server = await openServer(config, { event() {} });
  for (const name of ["a", "b"]) {
    await ask("PUT", `/${name}`, "root:secret");
    await ask("PUT", `/${name}/_security`, "root:secret", {});
  }
  for (const name of ["joe", "ann", "eve"]) {
    const user = { name, type: "user", roles: [], password: "pw" };
    await ask("PUT", `/_users/org.couchdb.user:${name}`, "root:secret", user);
  }
});

afterAll(() => server.stop());

async function ask(method: string, path: string, as: string | undefined, body?: object) {
  const authorization = as && { Authorization: `Basic ${Buffer.from(as).toString("base64")}` };
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { "Content-Type": "application/json", ...authorization },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it as they like.
  return { status: response.status, body: (await response.json()) as any };
}

test("if two users request the same replication, each of them sees only their own job by its replication id", async () => {
  const copy = { source: "a", target: "b", continuous: true };
  const { body: first } = await ask("POST", "/_replicate", "joe:pw", copy);
  const { status, body: second } = await ask("POST", "/_replicate", "ann:pw", copy);
  expect([status, second._local_id]).toEqual([202, first._local_id]);
  const path = `/_scheduler/jobs/${encodeURIComponent(first._local_id)}`;
  const seen = async (as: string | undefined) => {
    const { status: code, body } = await ask("GET", path, as);
    return code === 200 ? [body.user, body.state] : [code, body.error];
  };
  expect(await seen("joe:pw")).toEqual(["joe", "running"]);
  expect(await seen("ann:pw")).toEqual(["ann", "crashing"]);
  expect(await seen("root:secret")).toEqual(["joe", "running"]);
  expect(await seen("eve:pw")).toEqual([401, "unauthorized"]);
  expect(await seen(undefined)).toEqual([401, "unauthorized"]);
  const missing = await ask("GET", "/_scheduler/jobs/none", "eve:pw");
  expect(missing.status).toBe(401);

  // Each user cancels their own job.
  const cancel = { replication_id: first._local_id, cancel: true };
  expect((await ask("POST", "/_replicate", "ann:pw", cancel)).status).toBe(200);
  expect(await seen("joe:pw")).toEqual(["joe", "running"]);
  expect(await seen("ann:pw")).toEqual([401, "unauthorized"]);
});

test("the response to a failed replication contains the job's id, with which the user can find the job", async () => {
  const { body } = await ask("POST", "/_replicate", "joe:pw", { source: "missing", target: "b" });
  expect(body).toMatchObject({ error: "db_not_found", _local_id: expect.any(String) });
  const path = `/_scheduler/jobs/${encodeURIComponent(body._local_id)}`;
  const found = await ask("GET", path, "joe:pw");
  expect(found).toMatchObject({ status: 200, body: { state: "failed", user: "joe" } });
  expect((await ask("GET", path, "eve:pw")).status).toBe(401);
});

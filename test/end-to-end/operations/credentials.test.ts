/** Many jobs of one user with a password share one session, and the password is never shown. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type HttpProxy, openHttpProxy } from "../../support/faults/http-proxy.ts";
import { call, Processes, type TandemNode } from "../../support/open-process.ts";
import { load, sampleLines } from "../../support/sample-data.ts";

const PASSWORD = "pass-word-0815";
const processes = new Processes();
const films = sampleLines("films").slice(0, 50);
let here: TandemNode;
let there: TandemNode;
let proxy: HttpProxy;

beforeAll(async () => {
  [here, there] = await Promise.all([
    processes.openHere({
      environment: { TANDEM_LOG_LEVEL: "debug" },
      // The interval is long, so that the session is not renewed before the server has forgotten
      // it. The default interval can elapse on a slow machine.
      ini: "[replicator]\nsession_min_update_interval = 3600\n",
    }),
    processes.openHere({ environment: { COUCHDB_USER: "jan", COUCHDB_PASSWORD: PASSWORD } }),
  ]);
  proxy = await openHttpProxy(there.url);
  const authorization = `Basic ${btoa(`jan:${PASSWORD}`)}`;
  const withUser = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(there.url + path, {
      method,
      headers: { "content-type": "application/json", authorization },
      ...(body === undefined ? {} : { body: String(body) }),
    });
    return { status: response.status, body: await response.json() };
  };
  await load({ call: withUser }, "films", films);
});
afterAll(async () => {
  await proxy.close();
  await processes.close();
});

const source = (password = PASSWORD): string =>
  `${proxy.url.replace("://", `://jan:${password}@`)}/films`;

test("jobs of one user share a session, even if the server forgets the session in the meantime", async () => {
  let forgotten = 0;
  proxy.intercept(async (request, forward) => {
    const isForgotten = request.path.includes("_changes") && forgotten < 2;
    if (isForgotten && request.headers.cookie !== undefined) {
      forgotten++;
      return { status: 401, body: '{"error":"unauthorized","reason":"Session expired"}' };
    }
    return forward(request);
  });
  for (let number = 0; number < 10; number++) {
    const document = { source: source(), target: `copy-${number}`, create_target: true };
    await here.call("PUT", `/_replicator/job-${number}`, document);
  }
  await here.onceAnswered(
    () => here.call("GET", "/_scheduler/docs?states=completed"),
    ({ body }) => body.total_rows === 10,
  );
  const logins = proxy.requests.filter(({ path }) => path === "/_session");
  expect(logins).toHaveLength(1);
  const authorized = proxy.requests.filter(({ headers }) => headers.authorization !== undefined);
  expect(authorized).toEqual([]);
  proxy.intercept((request, forward) => forward(request));
});

test("a wrong password causes a 401 error whose message does not contain the password", async () => {
  const body = { source: source("wrong-0815"), target: "none", create_target: true };
  const answer = await here.call("POST", "/_replicate", body);
  expect(answer).toMatchObject({ status: 401, body: { error: "unauthorized" } });
  expect(JSON.stringify(answer.body)).not.toContain("wrong-0815");
});

test("passwords are neither shown nor logged", async () => {
  const pages = await Promise.all(
    ["/_scheduler/jobs", "/_scheduler/docs", "/_active_tasks"].map((path) =>
      here.call("GET", path),
    ),
  );
  for (const text of [JSON.stringify(pages), here.log()]) {
    // Searches for the whole password, because a part of it might occur in an id by chance.
    expect(text).not.toContain(PASSWORD);
    expect(text).not.toContain("wrong-0815");
  }
  expect((await call(`${here.url}/_up`, "GET")).status).toBe(200);
});

/**
 * Responses for a read-only operator. `route-access.test.ts` checks which routes this role may use.
 */
import { beforeEach, expect, test } from "vitest";
import type { User } from "../../../src/api/index.ts";
import { ADMIN, type OpenApi } from "../../api/api.fixture.ts";
import { openWholeApi } from "../whole-api.fixture.ts";

const READER: User = { name: "rita", roles: ["_tandem_reader"], isAdmin: false };
const STRANGER: User = { name: "sam", roles: [], isAdmin: false };

const JOB = {
  source: {
    url: "http://ann:hidden1@couch.example/films?token=hidden2",
    headers: { Authorization: "Basic hidden3" },
  },
  target: {
    url: "http://couch.example/copy",
    auth: { basic: { username: "ann", password: "hidden4" } },
  },
  continuous: true,
};

let world: OpenApi;
let current: User;

beforeEach(async () => {
  current = ADMIN;
  world = await openWholeApi({ authenticate: async () => current });
  for (const name of ["_replicator", "films"]) await world.ask(`PUT /${name}`);
  await world.ask("PUT /films/one", { body: { text: "hidden5" } });
  expect((await world.ask("PUT /_replicator/job", { body: JOB })).status).toBe(201);
});

test.each([
  "GET /_scheduler/jobs",
  "GET /_scheduler/docs",
  "GET /_scheduler/docs/_replicator/job",
  "GET /_tandem/jobs",
  "GET /_tandem/jobs/_replicator%2Fjob",
])("%s shows a read-only operator the jobs of all users, without credentials", async (request) => {
  current = READER;
  const { status, text } = await world.ask(request);
  expect(status).toBe(200);
  expect(text).toContain("couch.example/films");
  expect(text).not.toContain("hidden");
});

test("a read-only operator sees any user's job by its id, and a user without the role does not", async () => {
  current = READER;
  const { jobs } = (await world.ask("GET /_scheduler/jobs")).json;
  const path = `GET /_scheduler/jobs/${encodeURIComponent(jobs[0].id)}`;
  const { status, text } = await world.ask(path);
  expect([status, text.includes("hidden")]).toEqual([200, false]);
  current = STRANGER;
  expect((await world.ask(path)).status).toBe(401);
});

test("a read-only operator does not see documents, lists of databases or the configuration", async () => {
  current = READER;
  for (const [path, status] of [
    ["/films/one", 403],
    ["/films/_all_docs", 403],
    ["/_replicator/job", 403],
    ["/_all_dbs", 401],
    ["/_node/_local/_config", 401],
  ] as const) {
    const answer = await world.ask(`GET ${path}`);
    expect([path, answer.status, answer.text.includes("hidden")]).toEqual([path, status, false]);
  }
});

test("a change by a read-only operator is refused, and the reason contains the name of the role", async () => {
  current = READER;
  const before = (await world.ask("GET /_tandem/jobs/_replicator%2Fjob")).json;
  for (const request of [
    "POST /_tandem/jobs/_pause?all=true",
    "POST /_tandem/jobs/_replicator%2Fjob/_cancel",
    "POST /_replicate",
  ]) {
    expect(await world.ask(request, { body: {} })).toMatchObject({
      status: 403,
      json: { error: "forbidden", reason: expect.stringContaining("_tandem_reader") },
    });
  }
  const after = (await world.ask("GET /_tandem/jobs/_replicator%2Fjob")).json;
  expect([after.paused, after.state, after.control]).toEqual([
    before.paused,
    before.state,
    before.control,
  ]);
});

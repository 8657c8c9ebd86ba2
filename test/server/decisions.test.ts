/**
 * Operators' decisions about jobs are stored with the user and the reason. All resources that
 * accept decisions store them in the same way.
 */
import { beforeEach, expect, test, vi } from "vitest";
import type { OpenApi } from "../api/api.fixture.ts";
import { ADMIN } from "../api/api.fixture.ts";
import { deferred } from "../support/deferred.ts";
import { openWholeApi } from "./whole-api.fixture.ts";

const JOB = "/_tandem/jobs/_replicator%2Fcopy";
const SOURCE = {
  url: "http://couch.example/films",
  auth: { basic: { username: "ann", password: "old" } },
};

let world: OpenApi;

beforeEach(async () => {
  world = await openWholeApi({ authenticate: async () => ({ ...ADMIN, name: "root" }) });
  await world.ask("PUT /_replicator");
  const body = { source: SOURCE, target: "copy", continuous: true };
  expect((await world.ask("PUT /_replicator/copy", { body })).status).toBe(201);
});

async function decisions(): Promise<unknown[]> {
  const { control } = (await world.ask(`GET ${JOB}`)).json;
  return control.map((event: Readonly<Record<string, unknown>>) => [
    event.action,
    event.user,
    event.why,
  ]);
}

test("a decision is stored with its reason, both for one job and for many jobs", async () => {
  const replace = {
    host: "http://couch.example",
    username: "ann",
    auth: { basic: { username: "ann", password: "new" } },
    why: "a new password",
  };
  for (const [request, body] of [
    [`POST ${JOB}/_pause`, { why: " the disk is full " }],
    ["POST /_tandem/jobs/_resume?all=true", { why: "x".repeat(200) }],
    [`POST ${JOB}/_start_from`, { since: 7, why: "from the backup" }],
    ["POST /_tandem/credentials/_replace", replace],
    [`POST ${JOB}/_retry`, { why: "  " }],
    [`POST ${JOB}/_pause`, undefined],
  ] as const) {
    const { status, text } = await world.ask(request, body === undefined ? {} : { body });
    expect([request, status, text]).toEqual([request, 200, expect.any(String)]);
  }
  expect(await decisions()).toEqual([
    ["pause", "root", null],
    ["retry", "root", null],
    ["replace-credentials", "root", "a new password"],
    ["start-from", "root", "from the backup"],
    ["resume", "root", "x".repeat(200)],
    ["pause", "root", "the disk is full"],
  ]);
});

test("`_start_from` accepts a valid sequence of the source, and refuses an invalid one", async () => {
  const startFrom = (since: unknown) => world.ask(`POST ${JOB}/_start_from`, { body: { since } });
  const times = ["9999-99-99T00:00:00Z", "2026-02-30T00:00:00Z"];
  for (const since of [{}, -1, 1.5, true, null, "", "now", [], [[1]], ...times]) {
    const { status, json } = await startFrom(since);
    expect([status, json.error]).toEqual([400, "bad_request"]);
    expect(json.reason).toMatch(/^`since` must be an update sequence of the source, /);
    expect(json.reason).toContain(`but is ${JSON.stringify(since)}`);
  }
  const large = { body: '{"since":-9007199254740993}' };
  expect((await world.ask(`POST ${JOB}/_start_from`, large)).status).toBe(400);
  for (const since of [0, 7, "7", "7-x", [7, "x"], "2026-02-28T00:00:00Z"]) {
    expect((await startFrom(since)).status).toBe(200);
  }
});

test("`_start_from` refuses unknown members", async () => {
  const body = { since: 0, x: 1 };
  const { status, json } = await world.ask(`POST ${JOB}/_start_from`, { body });
  expect([status, json]).toEqual([400, { error: "bad_request", reason: "`x` is not known" }]);
});

test("long sequences do not prevent later commands, and the latest one is kept in full", async () => {
  const long = `0-${"a".repeat(30_000)}`;
  for (let count = 0; count < 20; count++) {
    const { status } = await world.ask(`POST ${JOB}/_start_from`, { body: { since: long } });
    expect(status).toBe(200);
  }
  const wide = await world.ask(`POST ${JOB}/_start_from`, { body: { since: "中".repeat(32_000) } });
  expect([wide.status, wide.json.reason]).toEqual([
    400,
    expect.stringMatching(/^`since` must be .* of at most 32768 bytes, but has 96002$/),
  ]);
  const paused = await world.ask(`POST ${JOB}/_pause`, {
    body: { why: `${"\u0001".repeat(199)}.` },
  });
  expect(paused.status).toBe(200);
  const { restart_at: restartAt, control } = (await world.ask(`GET ${JOB}`)).json;
  expect(restartAt).toBe(long);
  expect(control).toHaveLength(20);
  expect(control[1].since).toBe(`${long.slice(0, 999)}…`);
});

test.each([
  ["GET", "_replicator/copy", "_replicator%2Fcopy"],
  ["POST", "_replicator/copy/_pause", "_replicator%2Fcopy/_pause"],
  ["POST", "_replicator/a%20b/failures/_retry", "_replicator%2Fa%20b/failures/_retry"],
  ["GET", "a%2Fb/c", "a%2Fb%2Fc"],
])(
  "%s /_tandem/jobs/%s is refused with the path in which the name is escaped",
  async (method, path, escaped) => {
    const { status, json } = await world.ask(`${method} /_tandem/jobs/${path}`);
    expect([status, json.error]).toEqual([404, "not_found"]);
    expect(json.reason).toMatch(/^There is no such resource: use DATABASE\/DOCUMENT, /);
    expect(json.reason.endsWith(` as in /_tandem/jobs/${escaped}`)).toBe(true);
  },
);

test.each(["/_tandem", "/_tandem/nosuch", "/_tandem/databases/a/b/conflicts"])(
  "the reason for the unknown path %s does not name a database",
  async (path) => {
    const { status, json } = await world.ask(`PATCH ${path}`);
    expect([status, json.reason]).toEqual([404, expect.stringContaining("/_tandem/openapi.json")]);
  },
);

test("the event of a decision contains the request id of the response, but the stored decision does not", async () => {
  const announced = vi.spyOn(world.parts.runtime.trace, "event");
  for (const [command, name] of [
    ["_pause", "replication.controlled"],
    ["_cancel", "replication.cancelled"],
  ] as const) {
    const { headers } = await world.ask(`POST ${JOB}/${command}`);
    const requestId = headers["X-Couch-Request-ID"];
    expect(requestId).toMatch(/^[0-9a-f]{10}$/);
    expect(announced).toHaveBeenCalledWith(name, expect.objectContaining({ requestId }));
    const { text } = await world.ask("GET /_tandem/jobs");
    expect(text).not.toContain(requestId);
  }
});

test("the events of a command for many jobs contain the command's id and the request id", async () => {
  const announced = vi.spyOn(world.parts.runtime.trace, "event");
  for (const [action, name] of [
    ["_pause", "replication.controlled"],
    ["_resume", "replication.controlled"],
    ["_cancel", "replication.cancelled"],
  ] as const) {
    announced.mockClear();
    const { headers } = await world.ask(`POST /_tandem/jobs/${action}?database=_replicator`);
    const requestId = headers["X-Couch-Request-ID"];
    const command = String(headers.Location).split("/").at(-1);
    expect(command).toMatch(/^[0-9a-f]{32}$/);
    expect(announced).toHaveBeenCalledWith(name, expect.objectContaining({ requestId, command }));
    const { text } = await world.ask("GET /_tandem/commands");
    expect(text).toContain(command);
    expect(text).not.toContain(requestId);
    expect((await world.ask("GET /_tandem/jobs")).text).not.toContain(requestId);
  }
});

test("the event of a job added by _replicate has the request id of the response", async () => {
  const stopping = new AbortController();
  const added = deferred<unknown>();
  vi.spyOn(world.parts.runtime.trace, "event").mockImplementation((name, fields) => {
    if (name === "replication.added") added.resolve(fields);
  });
  const body = { source: SOURCE, target: "elsewhere", continuous: true };
  const asked = world.ask("POST /_replicate", { body, signal: stopping.signal });
  const fields = await added.promise;
  stopping.abort(new Error("The client has disconnected"));
  const requestId = (await asked).headers["X-Couch-Request-ID"];
  expect(fields).toMatchObject({ requestId });
});

test.each([
  ["a reason that is too long", { why: "x".repeat(201) }],
  ["a reason that is not a string", { why: 5 }],
  ["an unknown member", { reason: "no" }],
  ["a value that is not an object", []],
])("%s is refused, and no decision is stored", async (_, body) => {
  for (const path of [`${JOB}/_pause`, "/_tandem/jobs/_pause?all=true"]) {
    expect((await world.ask(`POST ${path}`, { body })).status).toBe(400);
  }
  expect(await decisions()).toEqual([]);
});

test.each([{ foo: 1 }, { ids: ["a"], why: "no" }, []])(
  "a retry of failed documents with the body %j is refused",
  async (body) => {
    const { status, json } = await world.ask(`POST ${JOB}/failures/_retry`, { body });
    expect([status, json.error]).toEqual([400, "bad_request"]);
  },
);

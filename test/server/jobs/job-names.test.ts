/** Names of jobs are accepted in place of ids, shown in lists, and searched with `name=`. */
import { beforeEach, expect, test, vi } from "vitest";
import type { OpenApi } from "../../api/api.fixture.ts";
import { ADMIN } from "../../api/api.fixture.ts";
import { deferred } from "../../support/deferred.ts";
import { openWholeApi } from "../whole-api.fixture.ts";

let world: OpenApi;

beforeEach(async () => {
  world = await openWholeApi({ authenticate: async () => ({ ...ADMIN, name: "root" }) });
  const copy = (id: string) => ({ source: `http://far.example/${id}`, target: "copied" });
  for (const [database, id] of [
    ["_replicator", "copy-1"],
    ["_replicator", "copy-2"],
    ["_replicator", "a/_replicator/b"],
    ["copies/_replicator", "1"],
  ] as const) {
    await world.ask(`PUT /${encodeURIComponent(database)}`);
    const path = `/${encodeURIComponent(database)}/${encodeURIComponent(id)}`;
    const { status } = await world.ask(`PUT ${path}`, { body: copy(id) });
    expect([path, status]).toEqual([path, 201]);
  }
});

async function named(name: string): Promise<readonly string[]> {
  const { status, json } = await world.ask(`GET /_tandem/jobs?name=${encodeURIComponent(name)}`);
  expect([name, status, json.total_rows]).toEqual([name, 200, json.jobs.length]);
  return json.jobs.map((job: { readonly name: string }) => job.name).sort();
}

const ALL = [
  "_replicator/a/_replicator/b",
  "_replicator/copy-1",
  "_replicator/copy-2",
  "copies/_replicator/1",
];

test.each([
  ["", ALL],
  ["*", ALL],
  ["_replicator/copy", ["_replicator/copy-1", "_replicator/copy-2"]],
  ["_replicator/copy-2", ["_replicator/copy-2"]],
  ["_replicator/*2", ["_replicator/copy-2"]],
  ["_rep*-1", ["_replicator/copy-1"]],
  ["*/_replicator/*", ["_replicator/a/_replicator/b", "copies/_replicator/1"]],
  ["cop", ["copies/_replicator/1"]],
  ["copies/", ["copies/_replicator/1"]],
  ["copies/_replicator/1", ["copies/_replicator/1"]],
  ["ies/", []],
  ["none/_replicator/", []],
  ["_replicator/*copy-1x*", []],
])("the filter name=%s finds the jobs %j", async (name, expected) => {
  expect(await named(name)).toEqual(expected);
});

test("a name with slashes refers to the job of the document", async () => {
  for (const name of ALL) {
    const { status, json } = await world.ask(`GET /_tandem/jobs/${encodeURIComponent(name)}`);
    expect([status, json.name]).toEqual([200, name]);
  }
  const { status, json } = await world.ask("GET /_tandem/jobs/copies%2F1");
  expect([status, json.error]).toEqual([404, "not_found"]);
});

test.each([
  ["replication id", {}, "*+continuous"],
  // The filter function cannot be read, so the replication id stays unknown.
  ["job id", { filter: "app/some" }, undefined],
])("a transient job is found by a part of its %s", async (_, options, pattern) => {
  const stopping = new AbortController();
  const body = { source: "http://far.example/x", target: "x", continuous: true, ...options };
  const added = deferred<unknown>();
  vi.spyOn(world.parts.runtime.trace, "event").mockImplementation((name, fields) => {
    if (name === "replication.added") added.resolve(fields);
  });
  const asked = world.ask("POST /_replicate", { body, signal: stopping.signal });
  await added.promise;
  const { json } = await world.ask("GET /_tandem/jobs");
  const { id, name } = json.jobs.find((job: { doc_id: string | null }) => job.doc_id === null);
  expect(name).toBe(id);
  expect(await named(pattern ?? id.slice(0, 8))).toEqual([id]);
  stopping.abort(new Error("The client has disconnected"));
  await asked;
});

test("a command with a name applies to the jobs with this name", async () => {
  const { json } = await world.ask("POST /_tandem/jobs/_pause?name=_replicator/copy-*");
  expect(json).toMatchObject({ ok: true, matched: 2, changed: 2 });
});

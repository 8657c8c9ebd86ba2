/**
 * `/_tandem/commands`: commands for many jobs continue in the background, can be cancelled, and can
 * be undone.
 */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { OpenApi } from "../../api/api.fixture.ts";
import { ADMIN } from "../../api/api.fixture.ts";
import { openApiNode, openWholeApi, type WholeApiNode } from "../whole-api.fixture.ts";

/** A command for this number of jobs responds before it has changed all of them. */
const MANY = 1_100;
const NEVER = new AbortController().signal;

let world: OpenApi;
let node: WholeApiNode;

beforeEach(async () => {
  node = openApiNode();
  world = await openWholeApi({ authenticate: async () => ({ ...ADMIN, name: "root" }), node });
  await world.ask("PUT /_replicator");
});

afterEach(() => {
  vi.restoreAllMocks();
});

async function addJobs(count: number): Promise<void> {
  const docs = Array.from({ length: count }, (_, index) => ({
    _id: `job-${String(index).padStart(5, "0")}`,
    source: `http://far.example/${index}`,
    target: "copied",
  }));
  for (let first = 0; first < count; first += 500) {
    const body = { docs: docs.slice(first, first + 500) };
    expect((await world.ask("POST /_replicator/_bulk_docs", { body })).status).toBe(201);
  }
}

function idIn(headers: Readonly<Record<string, string>>): string {
  return headers.Location?.split("/").at(-1) ?? "";
}

async function pausedCount(): Promise<number> {
  return (await world.ask("GET /_tandem/jobs?paused=true&limit=0")).json.total_rows;
}

test("a command for a few jobs ends before its response", async () => {
  await addJobs(3);
  const { status, json, headers } = await world.ask("POST /_tandem/jobs/_pause?all=true", {
    body: { why: "maintenance" },
  });
  expect([status, json]).toEqual([200, { ok: true, matched: 3, changed: 3 }]);
  const id = idIn(headers);
  expect(id).toMatch(/^[0-9a-f]{32}$/);
  const shown = await world.ask(`GET /_tandem/commands/${id}`);
  expect(shown.json).toEqual({
    ...{ id, action: "pause", user: "root", why: "maintenance", undoes: null },
    ...{ state: "completed", matched: 3, done: 3, changed: 3, failed: 0 },
    ...{ started: expect.any(String), ended: expect.any(String) },
  });
  const listed = await world.ask("GET /_tandem/commands");
  expect(listed.json).toEqual({ commands: [shown.json] });
  const job = await world.ask("GET /_tandem/jobs/_replicator%2Fjob-00000");
  expect(job.json.control).toMatchObject([{ action: "pause", command: id }]);
});

test("a command for many jobs continues after its response, and can be undone as a whole", async () => {
  await addJobs(MANY);
  await world.ask("POST /_tandem/jobs/_replicator%2Fjob-00007/_pause");
  const paused = await world.ask("POST /_tandem/jobs/_pause?all=true");
  const { id } = paused.json;
  expect([paused.status, paused.json]).toEqual([202, { ok: true, id, matched: MANY }]);
  expect(paused.headers.Location).toBe(`/_tandem/commands/${id}`);
  const running = (await world.ask(`GET /_tandem/commands/${id}`)).json;
  expect(running).toMatchObject({ state: "running", matched: MANY, ended: null });
  expect(running.done).toBeLessThan(MANY);
  const undoing = await world.ask(`POST /_tandem/commands/${id}/_undo`);
  expect([undoing.status, undoing.json.error]).toEqual([409, "conflict"]);
  // Two nodes continue the command concurrently. Each job must be processed only once.
  const { bulk } = node.replicator;
  await Promise.all([bulk.finish(id, NEVER), bulk.finish(id, NEVER)]);
  const ended = (await world.ask(`GET /_tandem/commands/${id}`)).json;
  expect(ended).toMatchObject({ state: "completed", done: MANY, changed: MANY - 1, failed: 0 });
  expect(await pausedCount()).toBe(MANY);
  // If a job is resumed and paused again after the command, undoing the command leaves the job
  // paused.
  await world.ask("POST /_tandem/jobs/_replicator%2Fjob-00009/_resume");
  await world.ask("POST /_tandem/jobs/_replicator%2Fjob-00009/_pause");
  const undone = await world.ask(`POST /_tandem/commands/${id}/_undo`);
  expect([undone.status, undone.json.matched]).toEqual([202, MANY]);
  await bulk.finish(undone.json.id, NEVER);
  const last = (await world.ask(`GET /_tandem/commands/${undone.json.id}`)).json;
  expect(last).toMatchObject({ action: "resume", undoes: id, changed: MANY - 2 });
  expect(await pausedCount()).toBe(2);
});

test("a cancelled command stops, and its changes can be undone", async () => {
  await addJobs(MANY);
  const { id } = (await world.ask("POST /_tandem/jobs/_pause?all=true")).json;
  expect((await world.ask(`DELETE /_tandem/commands/${id}`)).json).toEqual({ ok: true });
  const again = await world.ask(`DELETE /_tandem/commands/${id}`);
  expect(again.json).toEqual({ ok: true, no_changes: true });
  await node.replicator.bulk.finish(id, NEVER);
  const { state, done } = (await world.ask(`GET /_tandem/commands/${id}`)).json;
  expect(state).toBe("cancelled");
  expect(await pausedCount()).toBe(done);
  const undone = await world.ask(`POST /_tandem/commands/${id}/_undo`);
  await node.replicator.bulk.finish(idIn(undone.headers), NEVER);
  expect(await pausedCount()).toBe(0);
});

test("a command applies to the jobs that matched its filter when the command began", async () => {
  await addJobs(3);
  await world.ask("POST /_tandem/jobs/_replicator%2Fjob-00000/_pause");
  const resumed = await world.ask("POST /_tandem/jobs/_resume?paused=true");
  expect(resumed.json).toMatchObject({ matched: 1, changed: 1 });
  const { json, headers } = await world.ask(
    "POST /_tandem/jobs/_cancel?name=_replicator/job-0000*",
  );
  expect(json).toMatchObject({ matched: 3, changed: 3 });
  expect((await world.ask("GET /_tandem/jobs")).json.total_rows).toBe(0);
  expect((await world.ask("GET /_replicator")).json.doc_count).toBe(0);
  const undone = await world.ask(`POST /_tandem/commands/${idIn(headers)}/_undo`);
  expect([undone.status, undone.json.reason]).toEqual([
    409,
    "Only pausing and resuming jobs can be undone.",
  ]);
});

test("a command processes half as many jobs when its transaction is repeated", async () => {
  await addJobs(30);
  const { commands } = node.replicator;
  const applied: (readonly string[])[] = [];
  const apply = commands.applyToAll.bind(commands);
  vi.spyOn(commands, "applyToAll").mockImplementation(async (tx, jobIds, ...rest) => {
    const outcomes = await apply(tx, jobIds, ...rest);
    applied.push(jobIds);
    // The transaction has read this job, and therefore conflicts.
    if (applied.length === 1) await world.ask("POST /_tandem/jobs/_replicator%2Fjob-00000/_pause");
    return outcomes;
  });
  const { headers } = await world.ask("POST /_tandem/jobs/_pause?all=true");
  expect(applied.map((jobIds) => jobIds.length).slice(0, 2)).toEqual([20, 10]);
  const { done, changed } = (await world.ask(`GET /_tandem/commands/${idIn(headers)}`)).json;
  expect([done, changed]).toEqual([30, 29]);
});

test("a transaction of a command takes no further jobs after 100 ms", async () => {
  await addJobs(200);
  const { clock } = node.runtime;
  const { commands } = node.replicator;
  const apply = commands.applyToAll.bind(commands);
  /** Number of turns of each transaction. */
  const turns = new Map<unknown, number>();
  let lateMs = 0;
  vi.spyOn(clock, "monotonicMs").mockImplementation(() => lateMs);
  vi.spyOn(commands, "applyToAll").mockImplementation((tx, ...rest) => {
    turns.set(tx, (turns.get(tx) ?? 0) + 1);
    if (turns.size === 3) lateMs += 100;
    return apply(tx, ...rest);
  });
  const { headers } = await world.ask("POST /_tandem/jobs/_pause?all=true");
  await node.replicator.bulk.finish(idIn(headers), NEVER);
  expect([...turns.values()].slice(0, 3)).toEqual([1, 2, 1]);
  expect(await pausedCount()).toBe(200);
});

test("a command that is cancelled before its response is not reported as completed", async () => {
  await addJobs(3);
  const { commands } = node.replicator;
  const apply = commands.applyToAll.bind(commands);
  vi.spyOn(commands, "applyToAll").mockImplementationOnce(async (tx, ...rest) => {
    const [{ id }] = (await world.ask("GET /_tandem/commands")).json.commands;
    expect((await world.ask(`DELETE /_tandem/commands/${id}`)).status).toBe(200);
    return apply(tx, ...rest);
  });
  const { status, json } = await world.ask("POST /_tandem/jobs/_pause?all=true");
  expect(status).toBe(202);
  const { state, done } = (await world.ask(`GET /_tandem/commands/${json.id}`)).json;
  expect([state, done]).toEqual(["cancelled", 0]);
});

test("a command counts the jobs to which it cannot be applied", async () => {
  await addJobs(2);
  await world.ask("POST /_tandem/jobs/_replicator%2Fjob-00000/_pause");
  const { json, headers } = await world.ask("POST /_tandem/jobs/_retry?all=true");
  expect(json).toMatchObject({ matched: 2 });
  expect((await world.ask(`GET /_tandem/commands/${idIn(headers)}`)).json.failed).toBe(1);
});

test.each([
  "GET /_tandem/commands/none",
  "DELETE /_tandem/commands/none",
  "POST /_tandem/commands/none/_undo",
])("%s gets status 404 because the command does not exist", async (request) => {
  const { status, json } = await world.ask(request);
  expect([status, json.error]).toEqual([404, "not_found"]);
  expect(json.reason).toMatch(/^There is no command none: /);
});

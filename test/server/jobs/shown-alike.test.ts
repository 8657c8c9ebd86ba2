/**
 * The API, the command line, the metrics and the events agree on the state of a job after any
 * history.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Command } from "commander";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { addJobsCommand } from "../../../src/cli/server/jobs.ts";
import { stateWord } from "../../../src/contract/index.ts";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { KeyValueStore, MemoryEngine } from "../../../src/kv/index.ts";
import { parseReplication } from "../../../src/replicator/index.ts";
import { ADMIN, type OpenApi } from "../../api/api.fixture.ts";
import { composeNode } from "../../support/compose-node.ts";
import {
  answeredMs,
  History,
  type HistoryJob,
  historyReplication,
  JOB_STEP,
  type Step,
} from "../../support/job-history.ts";
import { openWholeApi, type WholeApiNode } from "../whole-api.fixture.ts";

/** Number of runs. Set `SHOWN_ALIKE_RUNS=1000` for a longer test. */
const RUN_COUNT = Number(process.env.SHOWN_ALIKE_RUNS ?? 4);
const STEP_MS = 1_300;
const FROM_THE_BEGINNING = "0".repeat(24);
const STATES = ["pending", "running", "crashing", "completed", "failed"] as const;
/** The members of a row that do not change between two events of the job. */
const STABLE_MEMBERS = [
  "state",
  "failing",
  "failing_since",
  "paused",
  "stalled",
  "left_behind",
] as const;

// biome-ignore lint/suspicious/noExplicitAny: JSON of the server
type Row = any;

/** The API that `server` serves to the command line. */
let served: OpenApi;
const server = createServer(async ({ method, url }, response) => {
  const { status, text } = await served.ask(`${method} ${url}`);
  response.writeHead(status, { "content-type": "application/json" }).end(text);
});
beforeAll(async () => {
  await once(server.listen(0, "127.0.0.1"), "listening");
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
});

test("all views agree on a retried job, even after its node is lost", async () => {
  const world = await openWorld();
  for (const event of ["add", "accept", "crashed", "accept", "pause", "expire", "resume"]) {
    await world.happen({ event, job: 0, failure: "timeout" });
    await compare(world);
  }
  const [row] = (await world.api.ask("GET /_tandem/jobs")).json.jobs;
  expect(row).toMatchObject({ failing: true, last_failure: { class: "timeout", tries: 1 } });
  await world.kv.close();
});

test(`all views agree after any history of jobs (${RUN_COUNT} runs)`, async () => {
  const steps = fc.array(JOB_STEP, { minLength: 20, maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(steps, async (drawn) => {
      const world = await openWorld();
      const begin = ["add", "accept", "begin"].flatMap((event) =>
        [0, 1, 2].map((job): Step => ({ event, job, failure: "other" })),
      );
      for (const step of [...begin, ...drawn]) {
        await world.happen(step);
        await compare(world);
      }
      await world.kv.close();
    }),
    { numRuns: RUN_COUNT },
  );
});

type World = Awaited<ReturnType<typeof openWorld>>;

/**
 * Opens a world with two documents and a transient job. The clock advances only in steps of the
 * test.
 */
async function openWorld() {
  let nowMs = Date.UTC(2026, 0, 1);
  const system = createSystemRuntime();
  const clock = { ...system.clock, nowMs: () => nowMs, sleep: system.clock.sleep };
  const runtime = { ...system, clock: { ...clock, monotonicMs: () => nowMs } };
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  const node: WholeApiNode = { ...composeNode({ runtime, kv }), runtime, kv };
  const api = await openWholeApi({ node, authenticate: async () => ADMIN });
  await api.ask("PUT /_replicator");
  const { uuid } = await kv.read((tx) => node.databases.open(tx, "_replicator"));
  const jobOf = (job: number): HistoryJob => {
    const body = historyReplication(job);
    if (job < 2) {
      const add = () => api.ask(`PUT /_replicator/doc${job}`, { body });
      return { id: `${uuid}|doc${job}`, add };
    }
    const requester = { userName: "ann", isAdmin: true };
    const replication = parseReplication(body);
    const id = node.replicator.transientId(replication, requester);
    return { id, add: () => node.replicator.start(replication, requester) };
  };
  const history = new History(node, jobOf);
  /** Time at which each job was last proven to be caught up, by job id. */
  const proofs = new Map<string, number>();
  const prove = ({ event, job, failure }: Step): void => {
    const { id } = jobOf(job);
    if (event === "cancel") proofs.delete(id);
    if (event === "catch-up") proofs.set(id, answeredMs(failure));
    if (event === "completed") proofs.set(id, Math.max(nowMs, proofs.get(id) ?? 0));
  };
  return {
    kv,
    api,
    follower: new Follower(api),
    async checkProofs(rows: readonly Row[]): Promise<void> {
      const { jobs } = (await api.ask("GET /_tandem/jobs?behind=false")).json;
      expect(jobs).toEqual(rows.filter(({ lag_sec }) => lag_sec === 0));
      for (const row of jobs) {
        const number = Number(/\d$/.exec(row.doc_id ?? "2")?.[0]);
        const { side, time } = row.last_failure ?? {};
        const hidden = side === undefined || side === "target" ? 0 : Date.parse(time);
        expect(proofs.get(jobOf(number).id), row.name).toBeGreaterThan(hidden);
      }
    },
    async happen(step: Step): Promise<void> {
      nowMs += STEP_MS;
      await history.apply(step);
      prove(step);
      if (step.event !== "accept") return;
      await compareNow(api);
      // Starts a run of each accepted job, as a node does.
      for (const job of [0, 1, 2]) await history.apply({ ...step, event: "begin", job });
    },
  };
}

async function compare({ api, follower, checkProofs }: World): Promise<void> {
  const rows = await compareNow(api);
  await checkProofs(rows);
  await follower.catchUp();
  expect(follower.reported).toEqual(
    new Map(rows.map((row: Row) => [nameOf(row), stableMembersOf(row)])),
  );
}

/**
 * Compares what all views show at this moment. Omits clients that follow the event feed: they
 * cannot know that a job was accepted, because no event reports it.
 */
async function compareNow(api: OpenApi): Promise<readonly Row[]> {
  const { jobs: rows, total_rows: total } = (await api.ask("GET /_tandem/jobs")).json;
  expect(total).toBe(rows.length);
  await compareResources(api, rows);
  await compareFilters(api, rows);
  await compareMetrics(api, rows);
  await compareCommandLine(api, rows);
  expect(await replayed(api)).toEqual(byId(rows));
  return rows;
}

async function compareResources(api: OpenApi, rows: readonly Row[]): Promise<void> {
  for (const row of rows) {
    const path = encodeURIComponent(row.doc_id === null ? row.id : `_replicator/${row.doc_id}`);
    expect((await api.ask(`GET /_tandem/jobs/${path}`)).json).toEqual(row);
  }
  const { jobs } = (await api.ask("GET /_scheduler/jobs")).json;
  const active = rows.filter(({ state }) => state !== "completed" && state !== "failed");
  expect(jobs.map(nameOf).toSorted()).toEqual(active.map(nameOf).toSorted());
  for (const job of jobs) {
    expect(active.find((row) => nameOf(row) === nameOf(job))).toMatchObject(job);
  }
  const { docs } = (await api.ask("GET /_scheduler/docs")).json;
  const documents = rows.filter((row) => row.doc_id !== null);
  expect(docs.map(nameOf)).toEqual(documents.map(nameOf));
  for (const [index, { id, last_updated, source_proxy, target_proxy, ...doc }] of docs.entries()) {
    expect(documents[index]).toMatchObject(doc);
  }
  const tasks: readonly Row[] = (await api.ask("GET /_active_tasks")).json;
  const replications = tasks.filter(({ type }) => type === "replication");
  const running = rows.filter(({ state }) => state === "running");
  expect(replications.map((task) => task.replication_id).toSorted()).toEqual(
    running.map(({ id }) => id).toSorted(),
  );
}

async function compareFilters(api: OpenApi, rows: readonly Row[]): Promise<void> {
  const filters: Readonly<Record<string, (row: Row) => boolean>> = {
    "failing=true": (row) => row.failing,
    "paused=true": (row) => row.paused,
    "stalled=true": (row) => row.stalled,
    "left_behind=true": (row) => row.left_behind > 0,
    "unknown=true": (row) => lagWord(row) === "unknown",
    "unknown=false": (row) => lagWord(row) !== "unknown",
    ...Object.fromEntries(STATES.map((state) => [`state=${state}`, (row) => row.state === state])),
  };
  for (const [query, passes] of Object.entries(filters)) {
    const { jobs, total_rows: total } = (await api.ask(`GET /_tandem/jobs?${query}`)).json;
    expect(jobs, query).toEqual(rows.filter(passes));
    expect(total, query).toBe(jobs.length);
  }
}

async function compareMetrics(api: OpenApi, rows: readonly Row[]): Promise<void> {
  const { text } = await api.ask("GET /_node/_local/_prometheus");
  const samples = new Map(
    text.split("\n").map((line): [string, number] => {
      const space = line.lastIndexOf(" ");
      return [line.slice(0, space), Number(line.slice(space + 1))];
    }),
  );
  const count = (passes: (row: Row) => boolean): number => rows.filter(passes).length;
  for (const state of STATES) {
    const shown = samples.get(`tandem_jobs_state{state="${state}"}`);
    expect(shown, state).toBe(count((row) => row.state === state));
  }
  expect(samples.get("couchdb_couch_replicator_jobs_total")).toBe(rows.length);
  expect(samples.get("tandem_jobs_failing")).toBe(count((row) => row.failing));
  expect(samples.get("tandem_jobs_paused")).toBe(count((row) => row.paused));
  expect(samples.get("tandem_jobs_stalled")).toBe(count((row) => row.stalled));
  expect(samples.get("tandem_jobs_left_behind")).toBe(count((row) => row.left_behind > 0));
  expect(samples.get("tandem_jobs_unknown")).toBe(count((row) => lagWord(row) === "unknown"));
  expect(samples.get("tandem_jobs_behind")).toBe(count((row) => row.behind_since !== null));
  const causes = new Map<string, number>();
  for (const { last_failure: failure } of rows) {
    if (failure === null) continue;
    const name = `tandem_jobs_failing_by_cause{class="${failure.class}",host="${failure.host ?? "none"}"}`;
    causes.set(name, (causes.get(name) ?? 0) + 1);
  }
  const shown = [...samples].filter(([name]) => name.startsWith("tandem_jobs_failing_by_cause{"));
  expect(new Map(shown)).toEqual(causes);
}

/** Returns the lag as the command line shows it. Paused and ended jobs have no lag. */
function lagWord({ lag_sec, paused, state }: Row): string {
  if (lag_sec !== null) return `${lag_sec} s`;
  return paused || ["completed", "failed"].includes(state) ? "-" : "unknown";
}

async function compareCommandLine(api: OpenApi, rows: readonly Row[]): Promise<void> {
  const [, ...all] = (await tandem(api, "list")).trimEnd().split("\n");
  // Indented lines continue the preceding row.
  const lines = all.filter((line) => !line.startsWith(" "));
  // The names are not compared, because the command line shortens long names.
  expect(lines.map((line) => line.split(/ {2,}/).slice(1, 3))).toEqual(
    rows.map((row) => [stateWord(row), lagWord(row)]),
  );
  const failing = JSON.parse(await tandem(api, "list", "--failing", "--json"));
  expect(failing.jobs).toEqual(rows.filter((row) => row.failing));
  for (const row of rows) {
    const shown = await tandem(api, "show", nameOf(row));
    const facts = new Map(
      shown.split("\n").map((line) => line.split(/ {2,}/, 2) as [string, string]),
    );
    const word = stateWord(row);
    expect(facts.get("state")).toBe(word === row.state ? word : `${word} (${row.state})`);
    expect(facts.get("failing since")).toBe(row.failing_since ?? "-");
    expect(facts.get("tries since then")).toBe(String(row.last_failure?.tries ?? 0));
    expect(facts.get("failed documents")).toBe(String(row.left_behind));
    expect(facts.get("next try")).toBe(row.next_try ?? "-");
  }
}

/** Returns the output of a command. */
async function tandem(api: OpenApi, ...flags: readonly string[]): Promise<string> {
  served = api;
  const { port } = server.address() as AddressInfo;
  const written = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  try {
    const program = new Command();
    addJobsCommand(program);
    const asked = ["--server", `http://127.0.0.1:${port}`];
    await program.parseAsync(["jobs", ...flags, ...asked], { from: "user" });
    return written.mock.calls.map(([text]) => String(text)).join("");
  } finally {
    written.mockRestore();
  }
}

interface Message {
  readonly event: string;
  readonly id: string;
  readonly data: Row;
}

/** Returns the events after a position, to the end of the log. */
async function messagesSince(api: OpenApi, since: string): Promise<readonly Message[]> {
  const { text } = await api.ask(`GET /_tandem/events?since=${since}&timeout=0`);
  const blocks = text.split("\n\n").filter((block) => block.includes("event: "));
  return blocks.map((block) => {
    const fields = new Map(
      block.split("\n").map((line) => line.split(/: (.*)/s, 2) as [string, string]),
    );
    const [event, id, data] = ["event", "id", "data"].map((name) => String(fields.get(name)));
    return { event: String(event), id: String(id), data: JSON.parse(String(data)) };
  });
}

/** Returns the rows that a new client has after it has read all events from the first. */
async function replayed(api: OpenApi): Promise<ReadonlyMap<string, Row>> {
  const rows = new Map<string, Row>();
  for (const { event, data } of await messagesSince(api, FROM_THE_BEGINNING)) {
    if (event === "job" && data.job !== null) rows.set(nameOf(data.job), data.job);
  }
  return rows;
}

/** A client that has followed the feed from the beginning. It has the last event of each job. */
class Follower {
  readonly reported = new Map<string, Row>();
  readonly #api: OpenApi;
  /** Names of jobs, by the ids that events contain. */
  readonly #names = new Map<string, string>();
  #since = FROM_THE_BEGINNING;

  constructor(api: OpenApi) {
    this.#api = api;
  }

  async catchUp(): Promise<void> {
    for (const { event, id, data } of await messagesSince(this.#api, this.#since)) {
      this.#since = id;
      if (event !== "job") continue;
      const { job, changes, former_id: formerId } = data;
      if (formerId !== undefined) this.#forget(formerId);
      if (job !== null) {
        this.#names.set(data.id, nameOf(job));
        this.reported.set(nameOf(job), stableMembersOf(job));
      } else if (changes.includes("removed")) {
        this.#forget(data.id);
      }
    }
  }

  #forget(id: string): void {
    this.reported.delete(this.#names.get(id) ?? id);
  }
}

function byId(rows: readonly Row[]): ReadonlyMap<string, Row> {
  return new Map(rows.map((row) => [nameOf(row), row]));
}

function stableMembersOf(row: Row): Row {
  return Object.fromEntries(STABLE_MEMBERS.map((member) => [member, row[member]]));
}

/** Returns the id of the job's document, or the job's id if it has no document. */
function nameOf({ doc_id: document, id, database }: Row): string {
  return document === null ? id : `${database}/${document}`;
}

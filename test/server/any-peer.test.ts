/**
 * A hostile response fails at most the replication that receives it, with a reason. Nothing else is
 * affected.
 *
 * Each run copies from a hostile server, to a hostile server, or both, over real connections. A
 * seed determines the responses.
 * `FUZZ_COUNT=100000 FUZZ_SEED=7 npx vitest run test/server/any-peer.test.ts` performs more runs,
 * from another seed. A failure contains the number of its run, and `FUZZ_FIRST` sets the first run.
 */
import { expect, test } from "vitest";
import type { Clock, Runtime } from "../../src/base/index.ts";
import { forEachConcurrent } from "../../src/base/index.ts";
import { openUndiciFetch } from "../../src/host/index.ts";
import {
  parseReplication,
  type Replication,
  type ReplicationFailure,
} from "../../src/replicator/index.ts";
import { type OpenApi, openApi } from "../api/api.fixture.ts";
import { SeededRandom } from "../simulation/kernel/seeded-random.ts";
import { secretsIn } from "../support/find-secrets.ts";
import { openNode } from "../support/open-node.ts";
import { type HostilePeer, openHostilePeer } from "./hostile-peer.fixture.ts";

const COUNT = Number(process.env.FUZZ_COUNT ?? 100);
const SEED = process.env.FUZZ_SEED ?? "1";
const FIRST = Number(process.env.FUZZ_FIRST ?? 0);
/** Number of concurrent runs per world. */
const WORLD_RUNS = 100;
const RUNS_AT_ONCE = 12;
/**
 * Upper bound for the bytes of a body that are sent to a client before it aborts: the client's
 * limit plus the data in flight.
 */
const BODY_BYTES_MAX = 96 * 1024 * 1024;
const REASON_LENGTH_MAX = 4_000;

/** Secret sent to the peer with each request. Some of the peer's responses repeat the secret. */
const SECRET = "Kw7-header-of-the-peer";
const USER = { userName: null, isAdmin: true };
const FOREVER = new AbortController().signal;

/**
 * Returns a runtime that shortens all pauses: those between attempts and those that a server
 * requests.
 */
function hasty(runtime: Runtime): Runtime {
  const clock: Clock = {
    nowMs: () => runtime.clock.nowMs(),
    monotonicMs: () => runtime.clock.monotonicMs(),
    sleep: (durationMs, signal) => runtime.clock.sleep(Math.min(durationMs, PAUSE_MS_MAX), signal),
  };
  return { ...runtime, clock };
}

const PAUSE_MS_MAX = 40;

const DOCUMENTS: readonly object[] = [
  ...Array.from({ length: 8 }, (_, number) => ({
    _id: `doc-${number}`,
    number,
    text: "é\u0000\ud83d\ude00",
  })),
  JSON.parse('{"_id":"odd","__proto__":{"a":1},"constructor":{"b":[1e2,{}]}}'),
  {
    _id: "attached",
    kept: 1,
    _attachments: {
      a: { content_type: "text/plain", data: btoa("text ".repeat(400)) },
      "b/\u00e9": { content_type: "image/png", data: btoa("\u0000\u0001") },
    },
  },
  { _id: "_design/d", filters: { all: "function () { return true; }" } },
];

/** Writes conflicting documents, deleted documents, and later revisions. */
async function fill({ ask }: OpenApi): Promise<void> {
  await ask("PUT /films");
  await ask("POST /films/_bulk_docs", { body: { docs: DOCUMENTS } });
  const conflicting = [1, 2].map((number) => ({
    _id: "doc-1",
    _rev: `1-${String(number).repeat(32)}`,
    conflict: number,
  }));
  await ask("POST /films/_bulk_docs", { body: { new_edits: false, docs: conflicting } });
  const { json } = await ask("GET /films/doc-2");
  await ask("DELETE /films/doc-2", { headers: { "if-match": json._rev } });
}

interface World {
  readonly peer: HostilePeer;
  readonly node: Awaited<ReturnType<typeof openNode>>;
  readonly api: OpenApi;
  close(): Promise<void>;
}

async function openWorld(seed: string): Promise<World> {
  const peer = await openHostilePeer(seed);
  const undici = openUndiciFetch();
  const node = await openNode({
    fetch: undici.fetch,
    runtimeOver: hasty,
    config: {
      copyLimits: { documentIdBytesMax: Number.POSITIVE_INFINITY, missingDocumentPauseMs: 20 },
    },
  });
  const { kv, databases, attachments } = node;
  const api = await openApi({ parts: { kv, databases, attachments } });
  await fill(peer.api);
  await fill(api);
  node.start();
  return {
    peer,
    node,
    api,
    async close() {
      await node.stop();
      await undici.close();
      await peer.close();
    },
  };
}

function confided(url: string): object {
  return { url, headers: { "X-Secret": SECRET } };
}

/** The sides of a run that are remote. */
type Sides = "source" | "target" | "both";

async function run(world: World, number: number): Promise<void> {
  const { peer, api } = world;
  const random = new SeededRandom(`${SEED}/${number}/job`);
  const sides = random.pick<Sides>(["source", "source", "target", "target", "both"]);
  const copy = `copy-${number}`;
  await (sides === "source" ? api : peer.api).ask(`PUT /${copy}`);
  const replication = parseReplication({
    source: sides === "target" ? "films" : confided(peer.url(number, "films")),
    target: sides === "source" ? copy : confided(peer.url(number, copy)),
    retries_per_request: random.pick([0, 1, 2]),
    connection_timeout: 1_000,
    worker_batch_size: random.pick([1, 4, 100]),
    worker_processes: random.pick([1, 4]),
    checkpoint_interval: 50,
    use_bulk_get: random.chance(0.7),
    failure_policy: random.pick(["skip", "skip", "crash"]),
    ...random.pick([{}, {}, {}, { filter: "d/all" }, { doc_ids: ["doc-1", "attached"] }]),
  });
  const what = `Run ${number} from the seed ${SEED}, ${sides}`;
  if (sides !== "target" && random.chance(0.2)) {
    await runOn(world, number, { ...replication, continuous: true }, what);
  } else await runToEnd(world, replication, what);
  if (sides === "source") await expectSent(api, copy, peer.sentTo(number), what);
  if (sides === "target") await expectSame(api, peer.api, copy, what);
}

async function runToEnd({ node }: World, replication: Replication, what: string): Promise<void> {
  const outcome = await node.replicator.ended(
    await node.replicator.start(replication, USER),
    FOREVER,
  );
  if (outcome.kind === "failed") expectWords(outcome.failure, what);
  else expect(outcome.kind, what).toBe("completed");
}

/**
 * Starts a continuous job, and cancels the job once it has crashed or has polled for changes three
 * times.
 */
async function runOn(
  { peer, node }: World,
  number: number,
  replication: Replication,
  what: string,
): Promise<void> {
  const id = await node.replicator.start(replication, USER);
  const crashed = node.event("replication.crashed", ({ jobId }) => jobId === id);
  await Promise.race([crashed, peer.polledBy(number, 3)]);
  await node.replicator.cancel(id, USER);
  for (const { name, fields } of node.events) {
    if (name === "replication.crashed" && fields.jobId === id) {
      expectWords({ error: String(fields.error), reason: String(fields.reason) }, what);
    }
  }
}

/** Expects a failure whose text is readable, short, and without secrets sent to the peer. */
function expectWords({ error, reason }: ReplicationFailure, what: string): void {
  expect(secretsIn(`${error}: ${reason}`, [SECRET]), what).toEqual([]);
  expect(`${error}: ${reason}`, what).not.toMatch(
    /(Type|Range|Syntax|Reference|Assertion)Error|STORE_|KV_/,
  );
  expect(error.length + reason.length, what).toBeLessThan(REASON_LENGTH_MAX);
}

/** Expects that every member of every document on the target was in a response of the source. */
async function expectSent(
  { ask }: OpenApi,
  copy: string,
  sent: Buffer,
  what: string,
): Promise<void> {
  for (const text of await leaves(ask, copy)) {
    for (const [name, value] of Object.entries(JSON.parse(text))) {
      if (name.startsWith("_") || text.includes("\\u")) continue;
      expect(sent.includes(`${JSON.stringify(value)}`), `${what}: ${name} of ${text}`).toBe(true);
    }
  }
}

/** Expects that every leaf on the target is also a leaf of the source. */
async function expectSame(
  { ask: askSource }: OpenApi,
  { ask }: OpenApi,
  copy: string,
  what: string,
): Promise<void> {
  const there = new Set(await leaves(askSource, "films"));
  for (const text of await leaves(ask, copy)) expect([...there], what).toContain(text);
}

/** Returns all leaves of all documents, as strings. */
async function leaves(ask: OpenApi["ask"], database: string): Promise<string[]> {
  const { json: changes } = await ask(`GET /${database}/_changes?style=all_docs`);
  const docs = changes.results.flatMap((row: { id: string; changes: { rev: string }[] }) =>
    row.changes.map(({ rev }) => ({ id: row.id, rev })),
  );
  const { json: found } = await ask(`POST /${database}/_bulk_get?attachments=true`, {
    body: { docs },
  });
  return found.results.map((row: { docs: { ok: object }[] }) => JSON.stringify(row.docs[0]?.ok));
}

/** Expects that the node's API and a job between local databases still work. */
async function expectLife({ node, api }: World, name: string): Promise<void> {
  const replication = parseReplication({ source: "films", target: name, create_target: true });
  const outcome = await node.replicator.ended(
    await node.replicator.start(replication, USER),
    FOREVER,
  );
  expect(outcome.kind).toBe("completed");
  expect((await leaves(api.ask, name)).toSorted()).toEqual(
    (await leaves(api.ask, "films")).toSorted(),
  );
  expect((await api.ask("GET /_up")).status).toBe(200);
}

/** Events of failures that affect more than one job. */
const BAD_EVENTS: ReadonlySet<string> = new Set(["replication.abandoned", "service.failed"]);

const WORLDS = Array.from({ length: Math.ceil(COUNT / WORLD_RUNS) }, (_, index) => {
  const first = FIRST + index * WORLD_RUNS;
  return { first, count: Math.min(WORLD_RUNS, FIRST + COUNT - first) };
});

test.each(WORLDS)(
  `a hostile response fails only the job that receives it ($count runs of seed ${SEED} from run $first)`,
  async ({ first, count }) => {
    const world = await openWorld(SEED);
    const numbers = Array.from({ length: count }, (_, index) => first + index);
    await forEachConcurrent(numbers, RUNS_AT_ONCE, async (number) => {
      await run(world, number);
      if (number % 10 === 0) await expectLife(world, `life-${number}`);
    });
    expect(world.node.events.filter(({ name }) => BAD_EVENTS.has(name))).toEqual([]);
    expect(secretsIn(JSON.stringify(world.node.events), [SECRET])).toEqual([]);
    expect(world.peer.longestBytes).toBeLessThan(BODY_BYTES_MAX);
    await world.close();
  },
);

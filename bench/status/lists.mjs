/**
 * What lists of jobs cost among many jobs, and what the index behind them costs each change of a job.
 *
 *   npm run build && node bench/status/lists.mjs [JOBS …]
 *
 * For each number of jobs (100, 10,000, 100,000), on LMDB in a temporary folder: three jobs fail, twenty run and show that they live,
 * and each list is asked for ROUNDS (200) times; p50 and p99 in milliseconds. Then so many jobs are added, accepted and finished one
 * after the other, with the index and without; microseconds for each job, medians of rounds in turn.
 */
import { performance } from "node:perf_hooks";
import { Jobs } from "../../dist/jobs/index.js";
import {
  parseReplication,
  REPLICATION_JOB_TYPE,
  REPLICATOR_CONFIG_DEFAULT,
} from "../../dist/replicator/index.js";
import { failingAfter, NO_PLACE } from "../../dist/replicator/jobs/failing.js";
import { jobOutcome, newJobData } from "../../dist/replicator/jobs/job-data.js";
import {
  decodeJob,
  encodeProgress,
  encodeRequest,
} from "../../dist/replicator/jobs/job-data-record.js";
import { SUBSPACES } from "../../dist/server/layout.js";
import { joinNodeParts } from "../../dist/server/node-parts.js";
import { median, openStore, runtime, withDirectory } from "../kv/bench-store.mjs";

const SIZES = process.argv.slice(2).map(Number);
const ROUNDS = Number(process.env.ROUNDS ?? 200);
const CHANGED_JOBS = 300;
const DATABASE_UUID = "0".repeat(32);
const PAGE_ROWS = 200;
const FAILING = 3;
const RUNNING = 20;
const NEVER_SEC = 2 ** 35;

const ids = {
  digests: runtime.digests,
  serverUuid: "0".repeat(32),
  hostName: "h",
  port: 1,
  serverUrl: "",
};

function dataOf(number) {
  const source = `https://host${number % 50}.example/db${number}`;
  const replication = parseReplication({ source, target: `t${number % 1000}`, continuous: true });
  const id = `d${String(number).padStart(7, "0")}`;
  const document = { database: "_replicator", databaseUuid: DATABASE_UUID, id };
  const asked = { replication, refusal: undefined, userName: `user${number % 20}` };
  return newJobData({ ...asked, document, replicationId: `${number}`.padStart(32, "a") }, 1);
}

function add(tx, jobs, number, scheduledAtSec) {
  const data = dataOf(number);
  const name = { type: REPLICATION_JOB_TYPE, id: `${DATABASE_UUID}|${data.document.id}` };
  const options = { request: encodeRequest(data), group: "_replicator", scheduledAtSec };
  return jobs.add(tx, name, encodeProgress(data), options).then(() => name);
}

async function fill(kv, jobs, count) {
  for (let from = 0; from < count; from += PAGE_ROWS) {
    await kv.transact(async (tx) => {
      for (let number = from; number < Math.min(count, from + PAGE_ROWS); number++) {
        const name = await add(tx, jobs, number, number < RUNNING ? 1 : NEVER_SEC);
        if (number < count - FAILING) continue;
        const cause = { ...NO_PLACE, class: "unreachable" };
        const failure = { error: "http_request_failed", reason: "refused" };
        const failing = failingAfter(undefined, failure, cause, number);
        const data = { ...dataOf(number), ...jobOutcome("crashing", failure), failing };
        await jobs.resubmit(tx, name, NEVER_SEC, encodeProgress(data));
      }
    });
  }
  const wanted = { dueBySec: 1, countMax: RUNNING };
  const accepted = await kv.transact((tx) => jobs.accept(tx, REPLICATION_JOB_TYPE, wanted));
  return accepted.held;
}

/** The question behind each resource, and behind each filter of `/_tandem/jobs`. */
const LISTS = {
  "_scheduler/jobs": { filter: {}, order: "shown-id", limit: 100 },
  "_scheduler/docs limit=100": { filter: { databaseUuid: DATABASE_UUID }, limit: 100 },
  "_scheduler/docs states=crashing": {
    filter: { databaseUuid: DATABASE_UUID, states: ["crashing"] },
    limit: 10,
  },
  "_scheduler/docs descending": {
    filter: { databaseUuid: DATABASE_UUID },
    descending: true,
    limit: 10,
  },
  _active_tasks: { filter: { states: ["running"] }, limit: Number.POSITIVE_INFINITY },
  "_tandem/jobs": { filter: {}, limit: 100 },
  "failing=true": { filter: { failing: true }, limit: 100 },
  "sort=since": { filter: {}, order: "since", limit: 100 },
  "sort=tries": { filter: {}, order: "tries", limit: 100 },
  "failing=false": { filter: { failing: false }, limit: 100 },
  "error=unreachable": { filter: { error: "unreachable" }, limit: 100 },
  "reason=refused": { filter: { reason: "refused" }, limit: 100 },
  "paused=true": { filter: { paused: true }, limit: 100 },
  "left_behind=true": { filter: { left_behind: true }, limit: 100 },
  "state=pending": { filter: { states: ["pending"] }, limit: 100 },
  "owner=user7": { filter: { owner: "user7" }, limit: 100 },
  "source=host7.example": { filter: { source: "host7.example" }, limit: 100 },
  "source and owner, none match": {
    filter: { source: "host7.example", owner: "user6" },
    limit: 100,
  },
};

async function measureLists(kv, { jobs, replicator }, held) {
  const stopping = new AbortController();
  const living = (async () => {
    while (!stopping.signal.aborted) {
      for (const job of held) {
        await kv.transact(async (tx) => {
          const found = await jobs.get(tx, job);
          await jobs.update(
            tx,
            job,
            encodeProgress({ ...decodeJob(found), lastUpdatedMs: Date.now() }),
          );
        });
      }
    }
  })();
  for (const [name, request] of Object.entries(LISTS)) {
    const times = [];
    for (let round = 0; round < ROUNDS; round++) {
      const startMs = performance.now();
      await replicator.lists.page(request);
      times.push(performance.now() - startMs);
    }
    times.sort((one, other) => one - other);
    const at = (part) =>
      times[Math.min(times.length - 1, Math.floor(times.length * part))].toFixed(1);
    process.stdout.write(
      `  ${name.padEnd(34)} p50 ${at(0.5).padStart(6)}  p99 ${at(0.99).padStart(6)}\n`,
    );
  }
  stopping.abort();
  await living;
}

const WRITES = ["set", "clear", "add", "setVersionstampedKey", "setVersionstampedValue"];

/** Keys that the changes of one job write, and that they read one by one. */
async function countKeys(kv, jobs, number) {
  const keys = { written: 0, read: 0 };
  const counted = (work) =>
    kv.transact((tx) => {
      for (const method of [...WRITES, "get"]) {
        const call = tx[method].bind(tx);
        tx[method] = (...values) => {
          keys[method === "get" ? "read" : "written"]++;
          return call(...values);
        };
      }
      return work(tx);
    });
  await changeJob(counted, jobs, number);
  return keys;
}

async function changeJob(transact, jobs, number) {
  await transact((tx) => add(tx, jobs, number, 1));
  const wanted = { dueBySec: 1, countMax: 1 };
  const accepted = await transact((tx) => jobs.accept(tx, REPLICATION_JOB_TYPE, wanted));
  const [job] = accepted.held;
  const data = encodeProgress({ ...dataOf(number), state: "completed", result: {} });
  await transact((tx) => jobs.finish(tx, job, data));
}

/** Microseconds for each job that is added, accepted and finished. */
async function measureChanges(kv, jobs, from) {
  const startMs = performance.now();
  for (let number = from; number < from + CHANGED_JOBS; number++) {
    await changeJob((work) => kv.transact(work), jobs, number);
  }
  return ((performance.now() - startMs) * 1000) / CHANGED_JOBS;
}

for (const count of SIZES.length > 0 ? SIZES : [100, 10_000, 100_000]) {
  await withDirectory(async (directory) => {
    const kv = await openStore(directory);
    const node = joinNodeParts({ runtime, kv, ids, config: REPLICATOR_CONFIG_DEFAULT });
    await node.replicator.prepare();
    const held = await fill(kv, node.jobs, count);
    process.stdout.write(`${count} jobs, ${held.length} run\n`);
    await measureLists(kv, node, held);
    const bare = new Jobs(runtime, SUBSPACES.jobs);
    const costs = { indexed: [], bare: [] };
    for (let round = 0; round < 7; round++) {
      const from = 10_000_000 + round * 2 * CHANGED_JOBS;
      costs.indexed.push(await measureChanges(kv, node.jobs, from));
      costs.bare.push(await measureChanges(kv, bare, from + CHANGED_JOBS));
    }
    const [indexed, without] = [median(costs.indexed), median(costs.bare)];
    const keys = await countKeys(kv, node.jobs, 20_000_000);
    const fewer = await countKeys(kv, bare, 20_000_001);
    const more = ((indexed / without - 1) * 100).toFixed(0);
    process.stdout.write(
      `  add, accept, finish: ${indexed.toFixed(0)} µs a job, ${without.toFixed(0)} without the index (${more} % more)\n` +
        `  keys: ${keys.written} written and ${keys.read} read, ${fewer.written} and ${fewer.read} without\n`,
    );
    await kv.close();
  });
}

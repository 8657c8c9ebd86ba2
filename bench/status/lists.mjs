/**
 * Cost of job lists with many jobs, and cost of their index for each change of a job.
 *
 *   npm run build && node bench/status/lists.mjs [JOBS …]
 *
 * For each number of jobs (100, 10,000, 100,000), on LMDB in a temporary folder: three jobs fail,
 * twenty run and send heartbeats, and each list is read ROUNDS (200) times. Meanwhile, some changes
 * are not folded, that is, not yet merged into the rows and counters of the index. Prints p50 and
 * p99 in milliseconds. Then 500 jobs are added, accepted and finished, sequentially and 32
 * concurrently. This is repeated CHANGE_ROUNDS (7) times, alternately with and without the index.
 * Prints the median cost of each step, and the cost per job of folding these changes.
 * `resources.mjs` measures the resources of the API.
 */
import { readFileSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { Jobs } from "../../dist/jobs/index.js";
import { REPLICATION_JOB_TYPE, REPLICATOR_CONFIG_DEFAULT } from "../../dist/replicator/index.js";
import { decodeJob, encodeProgress } from "../../dist/replicator/jobs/job-data-record.js";
import { SUBSPACES } from "../../dist/server/layout.js";
import { joinNodeParts } from "../../dist/server/node-parts.js";
import { median, openStore, runtime, withDirectory } from "../kv/bench-store.mjs";
import {
  acceptDue,
  add,
  DATABASE_UUID,
  dataOf,
  FAR_SEC,
  fill,
  functions,
  ids,
} from "./sample-jobs.mjs";

const SIZES = process.argv.slice(2).map(Number);
const ROUNDS = Number(process.env.ROUNDS ?? 200);
const CHANGED_JOBS = 500;
/** Number of unfolded changes when the lists are read. A node rarely has more. */
const TAIL_JOBS = 1000;
const CHANGE_ROUNDS = Number(process.env.CHANGE_ROUNDS ?? 7);

/** The query of each resource, and of each filter of `/_tandem/jobs`. */
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

/**
 * Counts the keys that the steps of one job write, and the keys that they read one by one (not in
 * ranges).
 */
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
  const data = encodeProgress(completed(number));
  await transact((tx) => jobs.finish(tx, job, data));
}

/** @returns {any} the data of a job that has completed */
function completed(number) {
  return { ...dataOf(number), state: "completed", result: {} };
}

/** The first `fold` merges the changes of all jobs into the index; the others find none left. */
const STEPS = ["add", "accept", "finish", "fold"];

/** Measures each step of a job's life: wall time and CPU time in µs, and KiB written to files. */
async function measureChanges({ kv, jobs, fold }, from, callerCount) {
  const numbers = Array.from({ length: CHANGED_JOBS }, (_, index) => scattered(from + index));
  const held = [];
  const wanted = { dueBySec: 1, countMax: 1 };
  return [
    await measured(numbers, callerCount, (number) => kv.transact((tx) => add(tx, jobs, number, 1))),
    await measured(numbers, callerCount, async () => {
      const accepted = await kv.transact((tx) => jobs.accept(tx, REPLICATION_JOB_TYPE, wanted));
      held.push(accepted.held[0]);
    }),
    await measured(numbers, callerCount, async () => {
      const job = held.pop();
      const number = Number(job.id.slice(DATABASE_UUID.length + 2));
      const data = encodeProgress(completed(number));
      await kv.transact((tx) => jobs.finish(tx, job, data));
    }),
    await measured(numbers, 1, () => fold?.()),
  ];
}

/**
 * Returns scattered numbers, because names of real jobs are not adjacent. Adjacent ones would share
 * pages of the store.
 */
function scattered(number) {
  return 1_000_000 + ((number * 48_271) % 8_999_993);
}

async function measured(numbers, callerCount, work) {
  const waiting = [...numbers];
  const processor = process.cpuUsage();
  const writtenBytes = bytesWritten();
  const startMs = performance.now();
  const caller = async () => {
    for (let number = waiting.pop(); number !== undefined; number = waiting.pop()) {
      await work(number);
    }
  };
  await Promise.all(Array.from({ length: callerCount }, caller));
  const wallUs = (performance.now() - startMs) * 1000;
  const { user, system } = process.cpuUsage(processor);
  const writtenKib = (bytesWritten() - writtenBytes) / 1024;
  return [wallUs, user + system, writtenKib].map((value) => value / numbers.length);
}

/** Returns the bytes that the process has written, as counted by Linux; elsewhere NaN. */
function bytesWritten() {
  try {
    return Number(/wchar: (\d+)/.exec(readFileSync("/proc/self/io", "latin1"))[1]);
  } catch {
    return Number.NaN;
  }
}

/** Alternates between measurements with and without the index. */
async function compareChanges(indexed, bare, callerCount, from) {
  const rounds = { indexed: [], bare: [] };
  for (let round = 0; round < CHANGE_ROUNDS; round++) {
    const first = from + round * 2 * CHANGED_JOBS;
    rounds.indexed.push(await measureChanges(indexed, first, callerCount));
    rounds.bare.push(await measureChanges(bare, first + CHANGED_JOBS, callerCount));
  }
  process.stdout.write(`  ${callerCount} concurrently: with the index, without it (difference)\n`);
  /** @type {any[][]} */
  const parts = STEPS.map((name, step) => [name, (round, figure) => round[step][figure]]);
  const all = ["all", (round, figure) => round.reduce((total, step) => total + step[figure], 0)];
  for (const [name, part] of [...parts, all]) {
    const figures = ["µs", "µs of CPU time", "KiB written"].map((unit, figure) => {
      const of = (kind) => median(rounds[kind].map((round) => part(round, figure)));
      const more = ((of("indexed") / of("bare") - 1) * 100).toFixed(0);
      return `${of("indexed").toFixed(0)} ${of("bare").toFixed(0)} ${unit} (${more} %)`;
    });
    process.stdout.write(`    ${name.padEnd(7)} ${figures.join("   ")}\n`);
  }
}

for (const count of SIZES.length > 0 ? SIZES : [100, 10_000, 100_000]) {
  await withDirectory(async (directory) => {
    const kv = await openStore(directory);
    const node = joinNodeParts({
      runtime,
      kv,
      ids,
      functions,
      config: REPLICATOR_CONFIG_DEFAULT,
      nodeName: "bench",
    });
    await node.replicator.prepare();
    await fill(kv, node.jobs, count);
    const held = await acceptDue(kv, node.jobs);
    process.stdout.write(`${count} jobs, ${held.length} run\n`);
    const fold = () => node.index.foldAll(kv);
    await fold();
    for (let number = 0; number < TAIL_JOBS; number++) {
      await kv.transact((tx) => add(tx, node.jobs, scattered(2_000_000 + number), FAR_SEC));
    }
    await measureLists(kv, node, held);
    await fold();
    const bare = new Jobs(runtime, SUBSPACES.jobs);
    const indexed = { kv, jobs: node.jobs, fold };
    await compareChanges(indexed, { kv, jobs: bare }, 1, 0);
    await compareChanges(indexed, { kv, jobs: bare }, 32, 1_000_000);
    const keys = await countKeys(kv, node.jobs, 20_000_000);
    const fewer = await countKeys(kv, bare, 20_000_001);
    process.stdout.write(
      `  keys per job: with the index ${keys.written} written and ${keys.read} read, without it ${fewer.written} and ${fewer.read}\n`,
    );
    await kv.close();
  });
}

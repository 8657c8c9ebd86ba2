/**
 * The compared queues, with a common interface:
 *
 *   prepare()              once, before any process works
 *   fill(count)            adds jobs as fast as possible
 *   pendingCount()         number of waiting jobs
 *   add(data)              adds one job in its own transaction
 *   work(onJob, signal)    runs jobs until aborted, JOBS_AT_ONCE concurrently: for each job, calls
 *                          `onJob(data)` and finishes the job
 *   close()
 */
import { once } from "node:events";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import PgBoss from "pg-boss";
import { createSystemRuntime, LmdbLeaseRenewer, openLmdbEngine } from "../../dist/host/index.js";
import { Jobs, JobWorker } from "../../dist/jobs/index.js";
import { KeyValueStore, Subspace } from "../../dist/kv/index.js";

const NAME = "bench";
/** Number of concurrent jobs per process, spread over the optimal number of lanes of each queue. */
const JOBS_AT_ONCE = 64;
const LANES = { tandem: 2, boss: 4 };
const FILL_ROWS = 500;

export const QUEUES = { tandem: openTandem, graphile: openGraphile, boss: openBoss };

async function openTandem(directory) {
  const runtime = createSystemRuntime();
  const kv = new KeyValueStore({ runtime, engine: await openLmdbEngine({ runtime, directory }) });
  const subspace = Subspace.fromTuple(["jobs"]);
  const jobs = new Jobs(runtime, subspace);
  let nextId = 0;
  const newName = () => ({ type: NAME, id: `${process.pid}-${nextId++}` });
  return {
    prepare: () => kv.transact((tx) => jobs.setTypeTimeout(tx, NAME, 60)),
    async fill(count) {
      for (let filled = 0; filled < count; filled += FILL_ROWS) {
        await kv.transact(async (tx) => {
          for (let row = 0; row < Math.min(FILL_ROWS, count - filled); row++)
            await jobs.add(tx, newName(), { n: row });
        });
      }
    },
    pendingCount: () => kv.read(async (tx) => (await jobs.counts.read(tx, NAME)).pending),
    add(data) {
      const name = newName();
      return kv.transact((tx) => jobs.add(tx, name, data));
    },
    async work(onJob, signal) {
      const worker = new JobWorker({
        runtime,
        kv,
        jobs,
        renewer: new LmdbLeaseRenewer(resolve(directory), subspace),
        node: "bench",
        processId: String(process.pid),
        types: [NAME],
        leaseMs: 5000,
      });
      await worker.run(signal, async ({ id }) => {
        const batchSize = JOBS_AT_ONCE / LANES.tandem;
        const wanted = { dueBySec: 0, countMax: batchSize, worker: id };
        const idle = new IdleLanes(signal);
        /**
         * Whether one of the idle lanes watches for new jobs. The others sleep until it has found
         * some.
         */
        let isWatched = false;
        /** Finishes completed jobs and accepts new ones, in one transaction. */
        const lane = async () => {
          let ran = [];
          let isWatching = false;
          while (!signal.aborted) {
            const finished = ran;
            const exchanged = kv.transact(async (tx) => {
              await Promise.all(finished.map((held) => jobs.finish(tx, held)));
              return jobs.accept(tx, NAME, wanted);
            });
            ran = [];
            const acceptance = /** @type {any} */ (
              await exchanged.catch((error) => {
                // The worker's lease expired on an overloaded machine: its jobs are queued again.
                if (error.code !== "JOBS_HALTED") throw error;
              })
            );
            if (acceptance === undefined) continue;
            if (acceptance.kind === "none-due") {
              isWatching ||= !isWatched;
              if (isWatching) {
                isWatched = true;
                await acceptance.enqueued.fired(signal).catch(() => {});
              } else {
                acceptance.enqueued.cancel();
                await idle.wait();
              }
              continue;
            }
            if (isWatching) isWatched = false;
            if (isWatching || acceptance.jobs.length === batchSize) idle.wake();
            isWatching = false;
            await Promise.all(acceptance.jobs.map(({ data }) => onJob(data)));
            ran = acceptance.held;
          }
        };
        await Promise.all(Array.from({ length: LANES.tandem }, lane));
      });
    },
    close: () => kv.close(),
  };
}

class IdleLanes {
  #waiting = [];
  #signal;

  constructor(signal) {
    this.#signal = signal;
    signal.addEventListener("abort", () => this.wake(), { once: true });
  }

  wake() {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** Resolves when `wake` is called or the signal aborts. */
  wait() {
    if (this.#signal.aborted) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

async function openGraphile(url) {
  const pool = new pg.Pool({ connectionString: url, max: 32 });
  // Connections that break when the server stops do not matter.
  pool.on("error", () => {});
  const utils = await makeWorkerUtils({ pgPool: pool });
  return {
    prepare: () => utils.migrate(),
    fill: (count) =>
      pool.query(
        "select graphile_worker.add_job($1, json_build_object('n', n)) from generate_series(1, $2) n",
        [NAME, count],
      ),
    async pendingCount() {
      // Excludes jobs of stopped processes: those jobs are locked for hours, or due again in
      // minutes.
      const waiting = "locked_at is null and run_at <= now()";
      const { rows } = await pool.query(
        `select count(*) from graphile_worker.jobs where ${waiting}`,
      );
      return Number(rows[0].count);
    },
    add: (data) => utils.addJob(NAME, data),
    async work(onJob, signal) {
      const runner = await run({
        pgPool: pool,
        concurrency: JOBS_AT_ONCE,
        noHandleSignals: true,
        pollInterval: 2000,
        taskList: { [NAME]: (data) => onJob(data) },
        logger: await silentLogger(),
      });
      // The signal might have aborted during the start.
      if (!signal.aborted) await once(signal, "abort");
      await runner.stop();
    },
    async close() {
      await utils.release();
      await pool.end();
    },
  };
}

async function silentLogger() {
  const { Logger } = await import("graphile-worker");
  return new Logger(() => () => {});
}

async function openBoss(url) {
  const boss = new PgBoss({ connectionString: url, max: 32, supervise: false, schedule: false });
  boss.on("error", () => {});
  await boss.start();
  return {
    prepare: () => boss.createQueue(NAME),
    async fill(count) {
      for (let filled = 0; filled < count; filled += FILL_ROWS) {
        const rows = Array.from({ length: Math.min(FILL_ROWS, count - filled) }, (_, n) => ({
          name: NAME,
          data: { n },
        }));
        await boss.insert(rows);
      }
    },
    pendingCount: () => boss.getQueueSize(NAME),
    add: (data) => boss.send(NAME, data),
    async work(onJob, signal) {
      // pg-boss's own loop (`work`) polls at most twice a second; this one polls again immediately
      // while there are jobs.
      const lane = async () => {
        while (!signal.aborted) {
          const fetched = await boss.fetch(NAME, { batchSize: JOBS_AT_ONCE / LANES.boss });
          if (fetched.length === 0) {
            await sleep(500, undefined, { signal }).catch(() => {});
            continue;
          }
          await Promise.all(fetched.map(({ data }) => onJob(data)));
          await boss.complete(
            NAME,
            fetched.map(({ id }) => id),
          );
        }
      };
      await Promise.all(Array.from({ length: LANES.boss }, lane));
    },
    close: () => boss.stop({ graceful: true, wait: true }),
  };
}

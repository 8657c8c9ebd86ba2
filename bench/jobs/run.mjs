/**
 * Jobs per second, and the time until a waiting process gets a job that another process adds:
 * Tandem on LMDB compared with graphile-worker and pg-boss on PostgreSQL, in turn on the same disk,
 * all with synchronous commits. README.md explains how to run it.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startPostgres } from "./postgres.mjs";
import { QUEUES } from "./queues.mjs";

const PROGRAM = fileURLToPath(new URL("./process.mjs", import.meta.url));
const ROUNDS = Number(process.env.ROUNDS ?? 3);
const ADD_COUNT = Number(process.env.ADD_COUNT ?? 4000);
const WORK_COUNT = Number(process.env.WORK_COUNT ?? 8000);
/**
 * Number of jobs that run before the measurement, so that the code is compiled, as in a process
 * that has run for days.
 */
const WARM_COUNT = Number(process.env.WARM_COUNT ?? WORK_COUNT / 2);
/**
 * Duration of the warm-up for wake-ups. It is separate, because wake-ups run different code than a
 * full queue does. The number of wake-ups in this time depends on the queue.
 */
const WAKE_WARM_SEC = Number(process.env.WAKE_WARM_SEC ?? 40);
/**
 * Duration of the measurement of wake-ups: a queue that wakes immediately gets about 3,000
 * wake-ups. With only 300 wake-ups, the 99th percentile was noisy.
 */
const WAKE_SEC = Number(process.env.WAKE_SEC ?? 40);
/** Maximum of the random time between wake-ups. The warm-up has no pauses. */
const WAKE_PAUSE_MS_MAX = 20;
/** Number of jobs of the process that is killed. The process runs all of them concurrently. */
const RESCUED_COUNT = 64;
/**
 * Documented times until the jobs of a killed process run again. graphile-worker unlocks jobs after
 * four hours; jobs of pg-boss expire after 15 minutes.
 */
const RESCUE_SEC_DOCUMENTED = { graphile: 4 * 3600, boss: 15 * 60 };
/** Number of jobs added concurrently, over all processes. */
const ADD_LANES = 32;

const nowMs = () => Number(process.hrtime.bigint()) / 1e6;
const print = (line) => process.stdout.write(`${line}\n`);
const median = (values) => quantile(values, 0.5);
const quantile = (values, ratio) =>
  values.toSorted((left, right) => left - right)[
    Math.min(values.length - 1, Math.floor(values.length * ratio))
  ];

async function openProcesses(count, name, location) {
  const processes = Array.from({ length: count }, () => fork(PROGRAM, [name, location]));
  await Promise.all(processes.map((one) => once(one, "message")));
  return processes;
}

async function stopAll(processes) {
  for (const one of processes) one.send({ stop: true });
  await Promise.all(processes.map((one) => once(one, "exit")));
}

async function addPerSecond(name, location, processCount) {
  const processes = await openProcesses(processCount, name, location);
  const add = async (count) => {
    const message = { add: count / processCount, lanes: ADD_LANES / processCount };
    const answers = processes.map((one) => once(one, "message"));
    for (const one of processes) one.send(message);
    const durations = (await Promise.all(answers)).map(([{ added }]) => added);
    return count / (Math.max(...durations) / 1000);
  };
  await add(ADD_COUNT / 2);
  const perSecond = await add(ADD_COUNT);
  await stopAll(processes);
  return perSecond;
}

/** Measures jobs accepted, run and finished per second. Jobs left by `addPerSecond` run first. */
async function workPerSecond(name, location, processCount, queue) {
  await queue.fill(WARM_COUNT + WORK_COUNT);
  const processes = await openProcesses(processCount, name, location);
  let worked = 0;
  let startedMs = Number.NaN;
  let startedAt = Number.NaN;
  const done = new Promise((resolve) => {
    for (const one of processes) {
      one.on("message", (/** @type {any} */ message) => {
        worked += message.worked ?? 0;
        if (Number.isNaN(startedMs) && worked >= WARM_COUNT) {
          startedMs = nowMs();
          startedAt = worked;
        }
        if (worked >= WARM_COUNT + WORK_COUNT) resolve();
      });
    }
  });
  for (const one of processes) one.send({ work: true });
  await done;
  const perSecond = (worked - startedAt) / ((nowMs() - startedMs) / 1000);
  await stopAll(processes);
  return perSecond;
}

/**
 * Measures the times from the call that adds a job to the start of the job in another, waiting
 * process.
 */
async function wakeUps(name, location, queue) {
  await queue.fill(WARM_COUNT);
  const [waiting] = await openProcesses(1, name, location);
  const warm = workedOff(waiting, WARM_COUNT);
  waiting.send({ work: true });
  await warm;
  await sleep(1500);
  const wakeUp = async (pauseMsMax) => {
    const started = latencyOf(waiting);
    await queue.add({ addedMs: nowMs() });
    const latencyMs = await started;
    if (pauseMsMax > 0) await sleep(Math.random() * pauseMsMax);
    return latencyMs;
  };
  const wakeUpsIn = async (seconds, pauseMsMax) => {
    const latencies = [];
    for (const startedMs = nowMs(); nowMs() - startedMs < seconds * 1000; ) {
      latencies.push(await wakeUp(pauseMsMax));
    }
    return latencies;
  };
  await wakeUpsIn(WAKE_WARM_SEC, 0);
  const latencies = await wakeUpsIn(WAKE_SEC, WAKE_PAUSE_MS_MAX);
  await stopAll([waiting]);
  return latencies;
}

function workedOff(one, count) {
  let worked = 0;
  return new Promise((resolve) => {
    one.on("message", (message) => {
      worked += message.worked ?? 0;
      if (worked >= count) resolve();
    });
  });
}

/** Resolves with the latency of the next job whose data contain the time of its addition. */
async function latencyOf(waiting) {
  for (;;) {
    const [{ latencyMs }] = await once(waiting, "message");
    if (latencyMs !== undefined) return latencyMs;
  }
}

/** Resolves when no jobs are waiting, or when no job has been run for two seconds. */
async function workOff(name, location, queue) {
  const [one] = await openProcesses(1, name, location);
  let lastMs = nowMs();
  one.on("message", () => {
    lastMs = nowMs();
  });
  one.send({ work: true });
  while (nowMs() - lastMs < 2000 && (await queue.pendingCount()) > 0) await sleep(100);
  await stopAll([one]);
}

/** Measures the time from the death of a process until another one starts the last of its jobs. */
async function rescueSec(name, location, queue) {
  await queue.fill(RESCUED_COUNT);
  const [victim, other] = await openProcesses(2, name, location);
  const held = (one) =>
    new Promise((resolve) => {
      let count = 0;
      one.on("message", (message) => {
        count += message.held ?? 0;
        if (count === RESCUED_COUNT) resolve();
      });
    });
  const heldByVictim = held(victim);
  victim.send({ hold: true });
  await heldByVictim;
  const heldByOther = held(other);
  other.send({ hold: true });
  const killedMs = nowMs();
  victim.kill("SIGKILL");
  await heldByOther;
  const seconds = (nowMs() - killedMs) / 1000;
  other.kill("SIGKILL");
  await once(other, "exit");
  return seconds;
}

async function measure(name, location) {
  const queue = await QUEUES[name](location);
  await queue.prepare();
  const found = {};
  const note = (row, value) => {
    found[row] = value;
    process.stderr.write(`${name}: ${row}: ${value.toFixed(1)}\n`);
  };
  for (const processCount of [1, 4]) {
    const processes = processCount === 1 ? "1 process" : `${processCount} processes`;
    note(`add/s, ${processes}`, await addPerSecond(name, location, processCount));
    await workOff(name, location, queue);
    note(
      `accept, run, finish/s, ${processes}`,
      await workPerSecond(name, location, processCount, queue),
    );
    await workOff(name, location, queue);
  }
  const latencies = await wakeUps(name, location, queue);
  await workOff(name, location, queue);
  note("wake-up p50, ms", quantile(latencies, 0.5));
  note("wake-up p99, ms", quantile(latencies, 0.99));
  // Queues that rescue jobs only after minutes or hours are not measured: prints the documented
  // time.
  const documented = RESCUE_SEC_DOCUMENTED[name];
  note("rescue, s", documented ?? (await rescueSec(name, location, queue)));
  await queue.close();
  return found;
}

const root = mkdtempSync(join(tmpdir(), "tandem-bench-"));
// PostgreSQL might run as another user.
chmodSync(root, 0o755);
const results = { tandem: [], graphile: [], boss: [] };
try {
  for (let round = 0; round < ROUNDS; round++) {
    for (const name of Object.keys(results)) {
      const directory = join(root, `${name}-${round}`);
      mkdirSync(directory);
      if (name === "tandem") {
        results[name].push(await measure(name, directory));
        continue;
      }
      const postgres = await startPostgres(directory);
      try {
        results[name].push(await measure(name, postgres.url));
      } finally {
        await postgres.stop();
      }
    }
  }
} finally {
  rmSync(root, { recursive: true, force: true });
}

print("| | Tandem | graphile-worker | ratio | pg-boss | ratio |");
print("| --- | --- | --- | --- | --- | --- |");
for (const row of Object.keys(results.tandem[0])) {
  const [ours, graphile, boss] = Object.values(results).map((rounds) =>
    median(rounds.map((found) => found[row])),
  );
  const isLatency = /^(wake-up|rescue)/.test(row);
  const ratio = (theirs) => (isLatency ? theirs / ours : ours / theirs).toFixed(2);
  const shown = (value) => (isLatency ? value.toFixed(1) : String(Math.round(value)));
  print(
    `| ${row} | ${shown(ours)} | ${shown(graphile)} | ${ratio(graphile)} | ${shown(boss)} | ${ratio(boss)} |`,
  );
}

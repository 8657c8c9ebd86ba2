/**
 * Duration of commands for many jobs, and the latency of other clients meanwhile.
 *
 *   npm run build && node bench/large/commands.mjs [JOBS]
 *
 * A node on LMDB, without replications of its own, has 100,000 jobs with documents. Each command
 * applies to all of them; another client writes a document every 5 ms. Prints for each command its
 * duration, its jobs per second, their ratio to the target rate (100,000 jobs in 30 s), and the
 * median, 99th percentile and longest wait of the other client.
 *
 * Measured 2026-11-28 with 100,000 jobs, two cores: pause 35.9 s, undo 29.8 s, retry 24.6 s, cancel
 * 43.8 s; 99th percentile of the other client 95, 110, 70 and 81 ms.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ask, endProcess, openProcess } from "../load/node-process.mjs";
import { quantile } from "../nodes/measures.mjs";
import { CONFIGURATION, prepareStore } from "../status/prepared-store.mjs";

const JOBS = Number(process.argv[2] ?? 100_000);
const JOBS_PER_SECOND_MIN = 100_000 / 30;
const WRITE_PAUSE_MS = 5;

/** Writes documents until `isOver`. Returns the latency of each in milliseconds. */
async function writeUntil(url, isOver) {
  const waits = [];
  while (!isOver()) {
    const beganMs = performance.now();
    await ask(url, "POST", "/other", { a: 1 });
    waits.push(performance.now() - beganMs);
    await sleep(WRITE_PAUSE_MS);
  }
  return waits;
}

async function measure(url, name, path) {
  let isOver = false;
  const writing = writeUntil(url, () => isOver);
  const beganMs = performance.now();
  const { body } = await ask(url, "POST", path, {});
  const answeredMs = performance.now() - beganMs;
  let { matched } = body;
  for (let state = body.id === undefined ? "completed" : "running"; state === "running"; ) {
    await sleep(200);
    const { body: command } = await ask(url, "GET", `/_tandem/commands/${body.id}`);
    ({ state, matched } = command);
  }
  const seconds = (performance.now() - beganMs) / 1_000;
  isOver = true;
  const waits = await writing;
  const [median, most] = [0.5, 0.99].map((part) => quantile(waits, part).toFixed(1));
  const rate = matched / seconds;
  console.log(
    `${name}: ${seconds.toFixed(1)} s, ${rate.toFixed(0)} jobs/s (x ${(rate / JOBS_PER_SECOND_MIN).toFixed(2)}), answered after ${answeredMs.toFixed(0)} ms; other client: median ${median} ms, p99 ${most} ms, longest ${Math.max(...waits).toFixed(0)} ms`,
  );
  return body.id;
}

const directory = mkdtempSync(join(tmpdir(), "tandem-bench-"));
const config = join(directory, "local.ini");
writeFileSync(config, CONFIGURATION);
let node;
try {
  await prepareStore(join(directory, "data"), JOBS);
  node = await openProcess(directory, {
    type: "api_frontend",
    flags: ["--config", config],
  });
  const { url } = node;
  await ask(url, "PUT", "/other");
  const paused = await measure(url, "pause", "/_tandem/jobs/_pause?all=true");
  if (paused !== undefined) await measure(url, "undo", `/_tandem/commands/${paused}/_undo`);
  await measure(url, "retry", "/_tandem/jobs/_retry?all=true");
  await measure(url, "cancel", "/_tandem/jobs/_cancel?all=true");
} finally {
  if (node !== undefined) await endProcess(node);
  rmSync(directory, { recursive: true });
}

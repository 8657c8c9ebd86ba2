/**
 * Shares of `_replicator` databases in a node's slots, on the real program: two processes,
 * continuous jobs that always have changes, 20 slots.
 *
 *   npm run build && node bench/nodes/fair-shares.mjs [SECONDS]
 *
 * First the jobs of a database with 2,000 jobs occupy all slots, and a single job is added to
 * another database. Prints the number of cycles until that job runs. Then two databases with 200
 * jobs each and the shares 100 and 300 run for SECONDS (300). Prints the ratio of the run times of
 * their jobs, compared with the expected 3.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../../dist/program/main.js", import.meta.url));
const SHARES_SEC = Number(process.argv[2] ?? 300);
const MANY = 2000;
const SOME = 200;
const SLOTS = 20;
const CYCLE_SEC = 5;
const SHARES = { small: 100, large: 300 };
const SAMPLE_MS = 500;

const folder = mkdtempSync(join(tmpdir(), "tandem-bench-"));
const config = join(folder, "tandem.ini");
writeFileSync(
  config,
  `[replicator]
max_jobs = ${SLOTS}
interval_sec = ${CYCLE_SEC}
min_run_time_sec = ${4 * CYCLE_SEC}
[replicator.shares]
small/_replicator = ${SHARES.small}
large/_replicator = ${SHARES.large}
`,
);
const node = await openNode();
try {
  await call("PUT", "/source");
  await call("PUT", "/source/one", {});
  await addJobs("many", MANY);
  await until(async () => (await runningCount("many")) === SLOTS);
  // Waits until jobs take turns.
  await pause(6 * CYCLE_SEC * 1000);
  const addedMs = performance.now();
  await addJobs("lonely", 1);
  await until(async () => (await runningCount("lonely")) === 1);
  const waitedSec = (performance.now() - addedMs) / 1000;
  process.stdout.write(
    `one job next to ${MANY}: ran after ${waitedSec.toFixed(1)} s, ${(waitedSec / CYCLE_SEC).toFixed(2)} cycles of ${CYCLE_SEC} s\n`,
  );
  for (const name of ["many", "lonely"]) await call("DELETE", `/${name}%2F_replicator`);

  await addJobs("small", SOME);
  await addJobs("large", SOME);
  await until(async () => (await runningCount("small")) + (await runningCount("large")) >= SLOTS);
  const ran = { small: 0, large: 0 };
  const endMs = performance.now() + SHARES_SEC * 1000;
  while (performance.now() < endMs) {
    for (const name of Object.keys(ran)) ran[name] += (await runningCount(name)) * SAMPLE_MS;
    await pause(SAMPLE_MS);
  }
  const ratio = ran.large / ran.small;
  const asked = SHARES.large / SHARES.small;
  process.stdout.write(
    `shares ${SHARES.small} : ${SHARES.large} over ${SHARES_SEC} s: run times 1 : ${ratio.toFixed(2)}, ${(ratio / asked).toFixed(2)} of the configured ratio\n`,
  );
} finally {
  node.child.kill("SIGTERM");
  await once(node.child, "exit");
  rmSync(folder, { recursive: true });
}

async function addJobs(name, count) {
  const database = `/${name}%2F_replicator`;
  await call("PUT", database);
  const docs = Array.from({ length: count }, (_, number) => ({
    _id: `job-${number}`,
    source: "source",
    target: `${name}-${number}`,
    create_target: true,
    continuous: true,
  }));
  await call("POST", `${database}/_bulk_docs`, { docs });
}

async function runningCount(name) {
  const path = `/_tandem/jobs?state=running&database=${name}/_replicator&limit=0`;
  return (await call("GET", path)).total_rows;
}

async function openNode() {
  const flags = ["serve", "--port", "0", "--data-dir", join(folder, "data"), "--config", config];
  const child = spawn(process.execPath, [MAIN, ...flags], {
    env: { ...process.env, TANDEM_LOG_LEVEL: "error" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const [, url] = /^listening on (.*)$/.exec(line) ?? [];
    if (url !== undefined) return { url, child };
  }
  throw new Error("The node did not start");
}

async function call(method, path, body) {
  const response = await fetch(node.url + path, {
    method,
    headers: { "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer = /** @type {any} */ (await response.json());
  if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
  return answer;
}

function pause(durationMs) {
  return new Promise((resolve) => setTimeout(resolve, durationMs));
}

async function until(holds) {
  while (!(await holds())) await pause(100);
}

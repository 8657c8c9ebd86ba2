/**
 * Cost of many busy continuous jobs: the time until all of them run, and the memory of the process
 * that runs them.
 *
 *   npm run build && node bench/nodes/continuous-jobs.mjs [JOBS] [BUSY_SECONDS]
 *
 * To compare with CouchDB's replicator, set COUCHDB_URL=http://user:password@127.0.0.1:5984.
 *
 * Each job pulls a database of another Tandem process, which gets a document every few seconds.
 * Waits until all documents have arrived. Prints the seconds until the last job runs and the
 * maximum resident memory of the only replication process. With COUCHDB_URL, measures CouchDB in
 * the same way (memory as in `_system`) and prints the ratios; otherwise prints the ratios
 * to 15 s and 400 MiB, half of CouchDB 3.5's values.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../../dist/program/main.js", import.meta.url));
const JOB_COUNT = Number(process.argv[2] ?? 500);
const BUSY_SEC = Number(process.argv[3] ?? 30);
const WRITES_AT_ONCE = 8;
const START_SEC_AIM = 15;
const MEMORY_MIB_AIM = 400;
const MIB = 1024 * 1024;

const folder = mkdtempSync(join(tmpdir(), "tandem-bench-"));
const names = Array.from({ length: JOB_COUNT }, (_, number) => `user-${number}`);
const sources = await openNode("sources", []);
const nodes = [sources];
try {
  for (const name of names) await call(sources.url, "PUT", `/${name}`);
  process.stdout.write(`${JOB_COUNT} continuous jobs\n`);
  const node = await openNode("node", ["--replication-processes", "1"]);
  nodes.push(node);
  const tandem = await measure("Tandem", node.url, () => residentBytes(node.url));
  const peer = process.env.COUCHDB_URL;
  if (peer === undefined) {
    report("of the aim", tandem, { startSec: START_SEC_AIM, memoryMib: MEMORY_MIB_AIM });
  } else {
    report("of CouchDB", tandem, await measure("CouchDB", peer, () => couchdbBytes(peer)));
  }
} finally {
  for (const { child } of nodes) {
    child.kill("SIGTERM");
    await once(child, "exit");
  }
  rmSync(folder, { recursive: true });
}

async function measure(label, server, memoryBytes) {
  const database = `bench-${Date.now()}`;
  await call(server, "PUT", `/${database}%2F_replicator`);
  const docs = names.map((name) => ({
    _id: name,
    source: `${sources.url}/${name}`,
    target: new URL(`${database}-${name}`, slashed(server)).href,
    create_target: true,
    continuous: true,
  }));
  const startedMs = performance.now();
  await call(server, "POST", `/${database}%2F_replicator/_bulk_docs`, { docs });
  await until(async () => (await runningCount(server, `${database}/_replicator`)) === JOB_COUNT);
  const startSec = (performance.now() - startedMs) / 1000;

  let memoryMib = 0;
  let round = 0;
  const endMs = performance.now() + BUSY_SEC * 1000;
  while (performance.now() < endMs) {
    await writeEverywhere(`${database}-${round++}`);
    memoryMib = Math.max(memoryMib, (await memoryBytes()) / MIB);
  }
  const expected = (await call(sources.url, "GET", `/${names[0]}`)).doc_count;
  for (const name of names) {
    const path = `/${database}-${name}`;
    await until(async () => (await call(server, "GET", path)).doc_count === expected);
  }
  const figures = { startSec, memoryMib };
  process.stdout.write(
    `${label}: all run after ${startSec.toFixed(1)} s; ${memoryMib.toFixed(0)} MiB at most; ${round} documents in each arrived\n`,
  );
  await call(server, "DELETE", `/${database}%2F_replicator`);
  for (const name of names) await call(server, "DELETE", `/${database}-${name}`);
  return figures;
}

function report(peer, tandem, other) {
  const start = tandem.startSec / other.startSec;
  const memory = tandem.memoryMib / other.memoryMib;
  process.stdout.write(
    `start: ${start.toFixed(2)} ${peer}; memory: ${memory.toFixed(2)} ${peer}\n`,
  );
}

/** Writes a document to each source. */
async function writeEverywhere(id) {
  const left = [...names];
  const lane = async () => {
    for (let name = left.pop(); name !== undefined; name = left.pop()) {
      await call(sources.url, "PUT", `/${name}/${id}`, { text: "x".repeat(500) });
    }
  };
  await Promise.all(Array.from({ length: WRITES_AT_ONCE }, lane));
}

async function runningCount(server, database) {
  const { docs } = await call(
    server,
    "GET",
    `/_scheduler/docs/${encodeURIComponent(database)}?states=running`,
  );
  return docs.length;
}

/** Returns the resident memory of the process that runs the jobs. */
async function residentBytes(server) {
  const { workers } = await call(server, "GET", "/_tandem/workers");
  const status = readFileSync(`/proc/${workers[0].pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)[1]) * 1024;
}

/** Returns the memory in use by CouchDB's Erlang virtual machine. */
async function couchdbBytes(server) {
  const { memory } = await call(server, "GET", "/_node/_local/_system");
  return Object.entries(memory)
    .filter(([, bytes]) => typeof bytes === "number")
    .reduce((sum, [name, bytes]) => (name === "atom_used" ? sum : sum + bytes), 0);
}

async function openNode(name, flags) {
  const data = join(folder, name);
  const child = spawn(
    process.execPath,
    [MAIN, "serve", "--port", "0", "--data-dir", data, ...flags],
    { env: { ...process.env, TANDEM_LOG_LEVEL: "error" }, stdio: ["ignore", "pipe", "inherit"] },
  );
  const url = await new Promise((resolve) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      const match = /^listening on (.*)$/.exec(line);
      if (match !== null) resolve(match[1]);
    });
  });
  return { url, child };
}

function slashed(url) {
  return url.endsWith("/") ? url : `${url}/`;
}

async function call(server, method, path, body) {
  const url = new URL(path, slashed(server));
  const { username, password } = url;
  url.username = "";
  url.password = "";
  const credentials = Buffer.from(`${username}:${password}`).toString("base64");
  const response = await fetch(url, {
    method,
    headers: {
      "content-type": "application/json",
      ...(username === "" ? {} : { authorization: `Basic ${credentials}` }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer = /** @type {any} */ (await response.json());
  if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
  return answer;
}

async function until(holds) {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 100));
}

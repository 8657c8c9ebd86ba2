/**
 * Cost of each HTTP resource that shows jobs, for large numbers of jobs, twenty of which the node
 * runs.
 *
 *   npm run build && node bench/status/resources.mjs [JOBS …]
 *
 * For each number of jobs (100, 10,000, 100,000), on LMDB in a temporary folder: three fail, twenty
 * copy from one database of the node to another, a hundred are behind. Each resource is requested
 * ROUNDS (200) times; p50 and p99 in milliseconds, the mean CPU time of the process, and KiB per
 * response. The client has its own thread; the server and the running jobs share the main thread.
 */
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { boundGarbage } from "../../dist/host/index.js";
import { openServer, readConfig } from "../../dist/server/index.js";
import { print, withDirectory } from "../kv/bench-store.mjs";
import { CONFIGURATION, prepareStore } from "./prepared-store.mjs";

const SIZES = process.argv.slice(2).map(Number);
const ROUNDS = Number(process.env.ROUNDS ?? 200);
const RUNNING = 20;
const SHOWN = "copy0";

function resources(lastEventId) {
  // The position before the events of the last transaction, which added 200 jobs.
  const since = `${lastEventId.slice(0, -4)}0000`;
  return [
    "/_scheduler/jobs",
    "/_scheduler/jobs?limit=100&descending=true",
    "/_scheduler/docs?limit=100",
    "/_scheduler/docs?limit=10&descending=true",
    "/_scheduler/docs?states=crashing&limit=10",
    "/_active_tasks",
    "/_tandem/jobs",
    "/_tandem/jobs?failing=true",
    "/_tandem/jobs?failing=false",
    "/_tandem/jobs?state=pending",
    "/_tandem/jobs?left_behind=true",
    "/_tandem/jobs?paused=true",
    "/_tandem/jobs?stalled=true",
    "/_tandem/jobs?behind_sec=60",
    "/_tandem/jobs?sort=lag&descending=true",
    "/_tandem/jobs?sort=since",
    "/_tandem/jobs?sort=tries",
    "/_tandem/jobs?error=unreachable",
    "/_tandem/jobs?reason=refused",
    "/_tandem/jobs?database=_replicator&state=running",
    "/_tandem/jobs?owner=user7",
    "/_tandem/jobs?source=host7.example",
    "/_tandem/jobs?target=t7",
    "/_tandem/jobs?source=host7.example&owner=user6",
    `/_tandem/jobs/_replicator%2F${SHOWN}`,
    `/_tandem/jobs/_replicator%2F${SHOWN}/runs`,
    "/_tandem/failing",
    "/_tandem/endpoints",
    "/_tandem/groups",
    "/_tandem/nodes",
    `/_tandem/events?since=${since}&timeout=0`,
    "/_node/_local/_prometheus",
    "/_node/_local/_active_tasks",
  ];
}

/** Starts twenty jobs that copy one database. */
async function startJobs(ask) {
  await ask("PUT", "/films");
  for (let number = 0; number < RUNNING; number++) {
    const copy = {
      source: "films",
      target: `copy${number}`,
      create_target: true,
      continuous: true,
    };
    await ask("PUT", `/_replicator/copy${number}`, copy);
  }
  for (;;) {
    const running = JSON.parse(await ask("GET", "/_active_tasks"));
    if (running.length >= RUNNING) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function measure(client, path) {
  const begin = process.cpuUsage();
  client.postMessage(path);
  const [{ times, bytes }] = await once(client, "message");
  const { user, system } = process.cpuUsage(begin);
  const processorMs = ((user + system) / 1000 / ROUNDS).toFixed(1).padStart(6);
  const size = (bytes / 1024).toFixed(0).padStart(4);
  const name = path.slice(0, 50).padEnd(50);
  print(`  ${name} ${percentiles(times)}  processor ${processorMs}  ${size} KiB`);
}

function percentiles(times) {
  const sorted = times.toSorted((one, other) => one - other);
  const at = (part) => (sorted[Math.floor(ROUNDS * part)] ?? sorted.at(-1)).toFixed(1).padStart(6);
  return `p50 ${at(0.5)} p99 ${at(0.99)}`;
}

// The server does the same at startup.
boundGarbage();
for (const count of SIZES.length > 0 ? SIZES : [100, 10_000, 100_000]) {
  await withDirectory(async (directory) => {
    const dataDirectory = join(directory, "data");
    const lastEventId = await prepareStore(dataDirectory, count);
    const configFile = join(directory, "tandem.ini");
    writeFileSync(configFile, CONFIGURATION);
    const config = readConfig({ port: 0, store: "lmdb", dataDirectory, configFile }, {});
    const server = await openServer(config, { event() {} });
    const ask = async (method, path, body) => {
      const headers = { "content-type": "application/json" };
      const text = body === undefined ? undefined : JSON.stringify(body);
      const answer = await fetch(server.url + path, { method, headers, body: text });
      const shown = await answer.text();
      if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${shown}`);
      return shown;
    };
    await startJobs(ask);
    print(`${count} jobs wait, ${RUNNING} run`);
    const workerData = { url: server.url, roundCount: ROUNDS };
    const client = new Worker(new URL("./resources-client.mjs", import.meta.url), { workerData });
    for (const path of resources(lastEventId)) await measure(client, path);
    await client.terminate();
    await server.stop();
  });
}

/**
 * New replications: how many documents `_replicator` stores, and the cost of a job's first run.
 *
 *   npm run build && node bench/large/new-jobs.mjs [DOCUMENTS] [JOBS]
 *
 * 1. Four clients store 100,000 documents of continuous replications in batches of 1,000, on a node
 *    that runs none. Prints the documents per second, and their ratio to the target rate, 5,000.
 * 2. A node stores 3,000 continuous replications between its own databases, each with one
 *    document. Prints the duration until each target has its document, and the node's CPU time
 *    until then per job, with the ratios to the targets, 15 s and 5 ms. The CPU time does not
 *    include that of the other client's writes, which is measured before.
 *
 * Another client writes a document every 5 ms.
 *
 * Measured 2026-11-30 on two cores: 2,778 to 3,514 documents per second; 3,000 first runs in 9.3 to
 * 12.9 s, 4.8 to 6.7 ms of CPU time each. 99th percentile of the other client 66 to 217 ms. At most
 * 274 MiB of memory. The documents per second miss their target, the CPU time in slower runs.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ask, endProcess, openProcess } from "../load/node-process.mjs";
import { describeOther, during } from "./other-client.mjs";

const DOCUMENTS = Number(process.argv[2] ?? 100_000);
const JOBS = Number(process.argv[3] ?? 3_000);
const DOCUMENTS_PER_SECOND_MIN = 5_000;
const FIRST_RUNS_MS_MAX = 15_000;
const CPU_MS_MAX = 5;
/** Unit of Linux's CPU times. */
const MS_PER_TICK = 10;
const BATCH = 1_000;
const CLIENTS = 4;
/** Duration of the measurement of the other client alone. */
const IDLE_MS = 5_000;
/** Maximum number of databases that one request can query. */
const INFOS_MAX = 100;
const POLL_MS = 200;

/** Stores a replication document per number below `count`. */
async function store(url, count, documentOf) {
  let next = 0;
  const client = async () => {
    while (next < count) {
      const from = next;
      next = Math.min(next + BATCH, count);
      const docs = Array.from({ length: next - from }, (_, at) => documentOf(from + at));
      const { status, body } = await ask(url, "POST", "/_replicator/_bulk_docs", { docs });
      if (status !== 201 || body.some(({ ok }) => ok !== true)) {
        throw new Error(`_bulk_docs: ${status} ${JSON.stringify(body).slice(0, 200)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
}

/** CPU time that the process has used, in all its threads. Linux only. */
function cpuMsOf({ child }) {
  const [user, system] = readFileSync(`/proc/${child.pid}/stat`, "utf8")
    .split(") ")[1]
    .split(" ")
    .slice(11, 13);
  return (Number(user) + Number(system)) * MS_PER_TICK;
}

async function inFolder(type, work) {
  const directory = mkdtempSync(join(tmpdir(), "tandem-bench-"));
  let node;
  try {
    node = await openProcess(directory, { type });
    await ask(node.url, "PUT", "/other");
    await ask(node.url, "PUT", "/_replicator");
    await work(node);
  } finally {
    if (node !== undefined) await endProcess(node);
    rmSync(directory, { recursive: true });
  }
}

async function storeDocuments(node) {
  const measured = await during(node, () =>
    store(node.url, DOCUMENTS, (number) => ({
      _id: `job-${number}`,
      source: `https://source.invalid/db-${number}`,
      target: `https://target.invalid/db-${number}`,
      continuous: true,
    })),
  );
  const rate = DOCUMENTS / measured.seconds;
  console.log(
    `${DOCUMENTS} replication documents: ${measured.seconds.toFixed(1)} s, ${rate.toFixed(0)}/s (x ${(rate / DOCUMENTS_PER_SECOND_MIN).toFixed(2)}); ${describeOther(measured)}`,
  );
}

async function firstRuns(node) {
  const { url } = node;
  for (let number = 0; number < JOBS; number += 1) {
    await ask(url, "PUT", `/s-${number}`);
    await ask(url, "PUT", `/t-${number}`);
    await ask(url, "PUT", `/s-${number}/doc`, { number });
  }
  const idle = await withCpu(node, () => sleep(IDLE_MS));
  const measured = await withCpu(node, async () => {
    await store(url, JOBS, (number) => ({
      _id: `job-${number}`,
      source: `s-${number}`,
      target: `t-${number}`,
      continuous: true,
    }));
    for (let first = 0; first < JOBS; first += INFOS_MAX) {
      const count = Math.min(INFOS_MAX, JOBS - first);
      const keys = Array.from({ length: count }, (_, index) => `t-${first + index}`);
      const areThere = async () => {
        const { body } = await ask(url, "POST", "/_dbs_info", { keys });
        return body.every(({ info }) => info.doc_count === 1);
      };
      while (!(await areThere())) await sleep(POLL_MS);
    }
  });
  const cpuMs = (measured.cpuMs - (idle.cpuMs * measured.waits.length) / idle.waits.length) / JOBS;
  const ms = measured.seconds * 1_000;
  console.log(
    `${JOBS} first runs: ${measured.seconds.toFixed(1)} s (x ${(FIRST_RUNS_MS_MAX / ms).toFixed(2)}), ${cpuMs.toFixed(1)} ms of CPU each (x ${(CPU_MS_MAX / cpuMs).toFixed(2)}); ${describeOther(measured)}`,
  );
}

/** Like `during`, but also returns the node's CPU time. */
async function withCpu(node, work) {
  const beforeMs = cpuMsOf(node);
  const measured = await during(node, work);
  return { ...measured, cpuMs: cpuMsOf(node) - beforeMs };
}

await inFolder("api_frontend", storeDocuments);
await inFolder("api_frontend,replication", firstRuns);

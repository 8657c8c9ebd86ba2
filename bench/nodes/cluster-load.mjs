/**
 * Load of many nodes with many jobs on a FoundationDB cluster. A rule copies each database of the
 * store into another database. One node has the API, and all nodes run jobs.
 *
 *   npm run build && FOUNDATIONDB_BIN=… \
 *     node bench/nodes/cluster-load.mjs [NODES] [JOBS] [BUSY_SECONDS] [WRITES_PER_SECOND]
 *
 * `FOUNDATIONDB_BIN` is the folder of `fdbserver` and `fdbcli`; the npm package `foundationdb` must
 * be installed and must find its library. FoundationDB runs as one process, on the `ssd` engine.
 * Four phases are measured: (1) databases are created; (2) their jobs copy one document each and
 * park; (3) nothing happens; (4) documents are written to random databases. Prints FoundationDB's
 * own counts of transactions, conflicts, reads and writes, per second and per operation; and the
 * CPU time of FoundationDB and of the nodes. The exit code is 1 if a document is missing.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { FoundationDbCluster } from "../load/foundationdb-cluster.mjs";
import { ask, drawsOf, endProcess, openProcess } from "../load/node-process.mjs";
import { Arrivals, inParallel } from "./arrivals.mjs";
import { onceParked, print, processorSec, quantilesText, seconds } from "./measures.mjs";

const [NODES = 20, JOBS = 10_000, BUSY_SEC = 60, WRITES_PER_SEC = 20] = process.argv
  .slice(2)
  .map(Number);
const QUIET_SEC = 60;
/**
 * Raises a storage server's limit on watches (default: about 56,000). Clients of version 7.1 keep
 * cancelled watches, and these count too.
 */
const WATCH_FLAGS = ["--knob_max_storage_server_watch_bytes=1000000000"];
/** Pause before FoundationDB's counters are read, because their updates are delayed by seconds. */
const COUNTED_MS = 6_000;

const directory = mkdtempSync(join(tmpdir(), "tandem-bench-"));
const names = Array.from({ length: JOBS }, (_, number) => `q-${number}`);
const nodes = [];
let missing = 0;
let cluster;
try {
  cluster = await FoundationDbCluster.open(directory, {
    processCount: 1,
    redundancy: "single",
    flags: WATCH_FLAGS,
  });
  const flags = ["--store", "foundationdb", "--cluster-file", cluster.file];
  nodes.push(await openProcess(directory, { flags }));
  for (let number = 1; number < NODES; number++) {
    nodes.push(await openProcess(directory, { flags, type: "replication" }));
  }
  const [{ url }] = nodes;
  await measured("databases made", JOBS, () =>
    inParallel(names, async (name) => {
      await must(url, "PUT", `/${name}`);
      await must(url, "PUT", `/${name}/first`, {});
    }),
  );
  await measured("jobs accepted, run and parked", JOBS, async () => {
    const rule = { source: "local", target: "copy-of-{db}", databases: ["q-*"] };
    await must(url, "PUT", "/_tandem/rules/all", rule);
    await onceParked(nodes[0], JOBS);
  });
  await measured(`idle seconds, ${NODES} nodes`, QUIET_SEC, () => pause(QUIET_SEC * 1000));
  const times = [];
  await measured("documents that arrived", BUSY_SEC * WRITES_PER_SEC, async () => {
    times.push(...(await write(url)));
  });
  print(`${WRITES_PER_SEC} writes a second: ${quantilesText(times)}; ${missing} missing`);
} finally {
  await Promise.all(nodes.map((node) => endProcess(node, "SIGKILL")));
  await cluster?.close();
  rmSync(directory, { recursive: true, force: true });
}
process.exit(missing === 0 ? 0 : 1);

/** Writes at a constant rate. Returns the time that each document took to reach its target. */
async function write(url) {
  const draw = drawsOf(1);
  const arrivals = await Arrivals.open(url);
  const waiting = [];
  const startMs = performance.now();
  for (let count = 0; count < BUSY_SEC * WRITES_PER_SEC; count++) {
    await pause(startMs + (count / WRITES_PER_SEC) * 1000 - performance.now());
    waiting.push(copied(url, arrivals, names[Math.floor(draw() * JOBS)], `doc-${count}`));
  }
  const late = Symbol("late");
  const times = await Promise.all(
    waiting.map((one) => Promise.race([one, pause(60_000, late, { ref: false })])),
  );
  missing = times.filter((time) => time === late).length;
  await arrivals.close();
  return times.filter((time) => time !== late);
}

async function copied(url, arrivals, name, id) {
  const arrival = arrivals.of(`copy-of-${name}`, id);
  await must(url, "PUT", `/${name}/${id}`, {});
  const writtenMs = performance.now();
  return (await arrival) - writtenMs;
}

/** Does the work, and prints its cost for FoundationDB. `count`: number of operations. */
async function measured(what, count, work) {
  const before = counted();
  const startMs = performance.now();
  await work();
  const tookMs = performance.now() - startMs;
  await pause(COUNTED_MS);
  const after = counted();
  print(`${count} ${what}: ${seconds(tookMs)}, ${rate(count, tookMs)} a second`);
  for (const [name, value] of Object.entries(after)) {
    const difference = value - before[name];
    print(
      `  ${name}: ${rate(difference, tookMs)} a second, ${(difference / count).toFixed(2)} each`,
    );
  }
}

function rate(count, ms) {
  return ((count * 1000) / ms).toFixed(1);
}

function counted() {
  const { transactions, operations, bytes, keys } = cluster.status().cluster.workload;
  return {
    "transactions committed": transactions.committed.counter,
    conflicts: transactions.conflicted.counter,
    "read versions": transactions.started.counter,
    reads: operations.reads.counter,
    "keys read": keys.read.counter,
    writes: operations.writes.counter,
    "bytes written": bytes.written.counter,
    "CPU seconds of FoundationDB": cluster.processorSec(),
    "CPU seconds of nodes": nodes.reduce((sum, node) => sum + processorSec(node), 0),
  };
}

async function must(url, method, path, body) {
  const { status, body: answer } = await ask(url, method, path, body);
  if (status >= 300) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(answer)}`);
}

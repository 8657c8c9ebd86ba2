/**
 * Data loss, duplicates and lasting problems after faults of a FoundationDB cluster or of its
 * nodes. The cluster has five processes with `double` redundancy on the `ssd` engine. An API node
 * and two replicating nodes serve writers and run continuous jobs.
 *
 *   npm run build &&
 *     FOUNDATIONDB_BIN=… node bench/nodes/cluster-faults.mjs [JOBS] [ROUNDS] [SEED] [NAME]
 *
 * `FOUNDATIONDB_BIN` is the folder of `fdbserver` and `fdbcli`. The npm package `foundationdb` must
 * be installed and must find its library. Each round has all faults of the table below, or those
 * whose names begin with NAME, in a seeded order. During a fault, writers write to the databases of
 * eight jobs, and one document is added to each of a hundred other databases. Within `HEAL_MS_MAX`
 * after the fault, every document must be on its target, and every acknowledged write must exist.
 * No checkpoint is allowed to move back, which happens if a node writes after it has lost a job. At
 * the end every job gets a document, and all databases are compared. Prints the effect of each
 * fault; the exit code is 1 if a check failed. Partitions need root and `iptables`, and are skipped
 * otherwise.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { FoundationDbCluster } from "../load/foundationdb-cluster.mjs";
import { Checkpoints, Ledger, missingOf, patiently } from "../load/ledger.mjs";
import { ask, drawsOf } from "../load/node-process.mjs";
import { Supervised } from "../load/supervised.mjs";
import { inParallel } from "./arrivals.mjs";
import { print, seconds } from "./measures.mjs";

const JOBS = Number(process.argv[2] ?? 1000);
const ROUNDS = Number(process.argv[3] ?? 1);
const SEED = Number(process.argv[4] ?? 1);
const NAME = process.argv[5] ?? "";
/** Number of jobs whose databases are written continuously. */
const BUSY = 8;
/** Number of other jobs that get a document during each fault. */
const TOUCHED = 100;
const FAULT_MS = 6_000;
const HEAL_MS_MAX = 240_000;
const API = 0;
const INI = "[replicator]\nmin_backoff_penalty_sec = 1\nmax_backoff_penalty_sec = 5\n";

const draw = drawsOf(SEED);
const directory = mkdtempSync(join(tmpdir(), "tandem-bench-"));
const names = Array.from({ length: JOBS }, (_, number) => `q-${number}`);
const busy = names.slice(0, BUSY);
const faults = [];
const checkpoints = new Checkpoints();
const canPartition = spawnSync("iptables", ["--list"]).status === 0;

const FAULTS = {
  "kill of a FoundationDB process": async () => {
    const index = drawnProcess();
    await cluster.kill(index);
    await pause(FAULT_MS);
    cluster.start(index);
  },
  "kill of all FoundationDB processes": async () => {
    for (let index = 0; index < cluster.count; index++) await cluster.kill(index);
    await pause(FAULT_MS);
    for (let index = 0; index < cluster.count; index++) cluster.start(index);
  },
  "pause of a FoundationDB process": async () => {
    const index = drawnProcess();
    cluster.signal(index, "SIGSTOP");
    await pause(2 * FAULT_MS);
    cluster.signal(index, "SIGCONT");
  },
  "other coordinators": async () => {
    const first = drawnProcess();
    const { addresses } = cluster;
    const chosen = [0, 1, 2].map((step) => addresses[(first + step) % addresses.length]);
    cluster.command(`coordinators ${chosen.join(" ")}`);
  },
  "kill of the API node": async () => nodes.signal(API, "SIGKILL"),
  "kill of a replication node": async () => nodes.signal(drawnNode(), "SIGKILL"),
  "kill of a replication node and a FoundationDB process": async () => {
    const index = drawnProcess();
    nodes.signal(drawnNode(), "SIGKILL");
    await cluster.kill(index);
    await pause(FAULT_MS);
    cluster.start(index);
  },
  "partition of a FoundationDB process": async () => {
    const port = String(cluster.port(drawnProcess()));
    const rules = ["--dport", "--sport"].map((side) => [
      ...["INPUT", "--in-interface", "lo", "--protocol", "tcp", side, port, "--jump", "DROP"],
    ]);
    try {
      for (const rule of rules) spawnSync("iptables", ["--append", ...rule]);
      await pause(2 * FAULT_MS);
    } finally {
      for (const rule of rules) spawnSync("iptables", ["--delete", ...rule]);
    }
  },
};

let cluster;
let nodes;
let ledger;
let markCount = 0;
const startMs = performance.now();
try {
  const machines = { processCount: 5, redundancy: "double", coordinatorCount: 3 };
  cluster = await FoundationDbCluster.open(directory, machines);
  const { cluster: described } = cluster.status();
  const { redundancy_mode: redundancy, storage_engine: engine } = described.configuration;
  const { version } = Object.values(described.processes)[0];
  print(`FoundationDB ${version}, ${cluster.count} processes, ${redundancy}, ${engine}`);
  writeFileSync(join(directory, "tandem.ini"), INI);
  const flags = ["--config", join(directory, "tandem.ini"), "--store", "foundationdb"];
  flags.push("--cluster-file", cluster.file);
  const types = ["api_frontend", "replication", "replication"];
  nodes = await Supervised.open(
    directory,
    types.map((type) => ({ flags, type })),
  );
  const url = nodes.url(API);
  await setUp(url);
  print(`${JOBS} jobs have copied a document after ${seconds(performance.now() - startMs)}`);
  ledger = new Ledger(url, busy);
  ledger.start();
  const chosen = Object.keys(FAULTS).filter((name) => name.startsWith(NAME));
  for (let round = 1; round <= ROUNDS; round++) {
    for (const name of shuffled(chosen)) {
      if (!name.startsWith("partition") || canPartition) await strike(url, round, name);
    }
  }
  await ledger.stop();
  await compareAll(url);
  report();
} finally {
  await ledger?.stop();
  await nodes?.hold();
  await cluster?.close();
  rmSync(directory, { recursive: true, force: true });
}
process.exit(faults.length === 0 ? 0 : 1);

async function setUp(url) {
  await inParallel(names, async (name) => {
    await once(url, "PUT", `/${name}`);
    await once(url, "PUT", `/${name}/first?new_edits=false`, { _rev: "1-a" });
    const job = { source: name, target: `${name}-copy`, create_target: true, continuous: true };
    await once(url, "PUT", `/_replicator/${name}`, job);
  });
  await inParallel(names, (name) => arrived(url, name, "first", Number.POSITIVE_INFINITY));
}

async function strike(url, round, name) {
  const when = `${name}, round ${round}`;
  const beganMs = performance.now();
  const { refused, unanswered } = ledger.counts;
  const { endCount } = nodes;
  const isOver = { value: false };
  const writing = touchOthers(url, isOver);
  await FAULTS[name]().finally(() => {
    isOver.value = true;
  });
  const endedMs = performance.now();
  const answering = cluster.onceAnswering().then(() => performance.now() - endedMs);
  const touched = await writing;
  // Written after the fault: the arrival of such a document shows that its job runs again.
  const marks = busy.map((database) => [database, `mark-${++markCount}`]);
  await inParallel(marks, ([database, id]) => mark(url, database, id));
  const answeredMs = performance.now();
  const [busyMs, othersMs] = await Promise.all(
    [marks, touched].map((written) => onceCopied(url, written, endedMs, when)),
  );
  await patiently(() => ledger.lookUp(when));
  for (const database of busy) {
    const setBack = await checkpoints.check(url, database);
    if (setBack !== undefined) wrong(when, setBack);
  }
  await cluster.onceHealthy();
  const { counts } = ledger;
  print(
    `${name}: lasted ${seconds(endedMs - beganMs)}; afterwards fdbcli responds within ${seconds(await answering)}, ` +
      `writes are acknowledged within ${seconds(answeredMs - endedMs)}, ` +
      `busy jobs have caught up within ${seconds(busyMs)}, and ${touched.length} other jobs, with one new document each, within ${seconds(othersMs)}; ` +
      `${counts.refused - refused} responses 503, ${counts.unanswered - unanswered} requests without a response, ` +
      `${nodes.endCount - endCount} node exits, ${faults.length + ledger.faults.length} failed checks so far`,
  );
}

/** Returns the time from the end of the fault until all documents are on their targets. */
async function onceCopied(url, written, endedMs, when) {
  await inParallel(written, async ([database, id]) => {
    if (await arrived(url, database, id, endedMs + HEAL_MS_MAX)) return;
    wrong(when, `${database}-copy lacks ${id}`);
  });
  return performance.now() - endedMs;
}

/** Writes documents to databases of parked jobs. Returns those that were acknowledged. */
async function touchOthers(url, isOver) {
  const touched = [];
  for (let count = 0; count < TOUCHED; count++) {
    if (isOver.value) break;
    const database = names[BUSY + Math.floor(draw() * (JOBS - BUSY))];
    const id = `mark-${++markCount}`;
    await mark(url, database, id);
    touched.push([database, id]);
    await pause(FAULT_MS / TOUCHED);
  }
  return touched;
}

function mark(url, database, id) {
  return once(url, "PUT", `/${database}/${id}?new_edits=false`, { _rev: "1-a" });
}

/** Sends the request until it succeeds once. */
async function once(url, method, path, body) {
  const untilMs = performance.now() + HEAL_MS_MAX;
  let last;
  for (;;) {
    try {
      last = await ask(url, method, path, body);
      // 409 or 412: an earlier attempt succeeded, but its response was lost.
      if (last.status < 300 || last.status === 409 || last.status === 412) return;
    } catch (error) {
      last = error;
    }
    if (performance.now() > untilMs) throw new Error(`${method} ${path}: ${JSON.stringify(last)}`);
    await pause(100);
  }
}

/** Waits until the document has reached the target. Returns false if that takes too long. */
async function arrived(url, database, id, untilMs) {
  for (;;) {
    const { status } = await ask(url, "GET", `/${database}-copy/${id}`).catch(() => ({}));
    if (status === 200) return true;
    if (performance.now() > untilMs) return false;
    await pause(200);
  }
}

async function compareAll(url) {
  const id = `mark-${++markCount}`;
  const beganMs = performance.now();
  await inParallel(names, (name) => mark(url, name, id));
  const untilMs = performance.now() + HEAL_MS_MAX;
  await inParallel(names, async (name) => {
    const lack = await missingOf({
      url,
      database: name,
      copyUrl: url,
      copy: `${name}-copy`,
      untilMs,
    });
    if (lack !== undefined) wrong("at the end", `${name}-copy has ${lack} documents`);
  });
  print(
    `all ${JOBS} jobs got a document, and their databases are equal after ${seconds(performance.now() - beganMs)}`,
  );
  await ledger.lookUp("at the end");
}

function wrong(when, what) {
  faults.push(`${when}: ${what}`);
}

function report() {
  faults.push(...ledger.faults);
  const { refused, unanswered, checked } = ledger.counts;
  print(
    `seed ${SEED}: ${nodes.endCount} node exits in ${seconds(performance.now() - startMs)}; ${ledger.writeCount} writes to ` +
      `${ledger.documentCount} documents, ${checked} look-ups, ${unanswered} requests without a response, ${refused} responses 503\n` +
      `${faults.length} failed checks`,
  );
  for (const fault of faults.slice(0, 30)) print(`  ${fault}`);
}

function drawnProcess() {
  return Math.floor(draw() * cluster.count);
}

function drawnNode() {
  return 1 + Math.floor(draw() * (nodes.count - 1));
}

function shuffled(list) {
  const rest = [...list];
  return list.map(() => rest.splice(Math.floor(draw() * rest.length), 1)[0]);
}

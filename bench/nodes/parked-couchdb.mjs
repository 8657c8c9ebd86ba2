/**
 * Cost of idle continuous jobs between databases of a CouchDB, and latency of a change: with a
 * Tandem process, and with CouchDB's own replicator.
 *
 *   npm run build &&
 *     COUCHDB_URL=http://admin:password@127.0.0.1:5984 COUCHDB_PID=… \
 *     node bench/nodes/parked-couchdb.mjs [JOBS] [QUIET_SECONDS] [BUSY_SECONDS] [WRITES_PER_SECOND]
 *
 * CouchDB has JOBS (400) databases of one document. First a Tandem process copies each database
 * into another one. After Tandem has stopped, CouchDB's replicator makes the same copies, defined
 * by documents of a `_replicator` database. If JOBS exceeds CouchDB's `max_jobs` (default: 500),
 * its jobs take turns, and their first round can last longer than FIRST_LIMIT_SEC.
 *
 * Once all first documents have arrived, and the jobs of Tandem are parked, CPU time, memory and
 * sockets are measured for QUIET_SECONDS without changes. Then documents are written to random
 * databases. Documents that have not arrived LIMIT_SEC after the last write are counted.
 * COUCHDB_PID must be a process of this machine; without it, the CPU time, memory and sockets of
 * CouchDB are not measured. Afterwards all databases except `_global_changes` are deleted; their
 * names begin with PREFIX.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { ask, drawsOf, endProcess, openProcess, usage } from "../load/node-process.mjs";
import { Arrivals, inParallel } from "./arrivals.mjs";
import {
  onceParked,
  print,
  processorSec,
  quantilesText,
  seconds,
  socketCount,
  timed,
} from "./measures.mjs";

const [JOBS = 400, QUIET_SEC = 30, BUSY_SEC = 30, WRITES_PER_SEC = 20] = process.argv
  .slice(2)
  .map(Number);
const COUCHDB = process.env.COUCHDB_URL?.replace(/\/$/, "");
if (COUCHDB === undefined) throw new Error("COUCHDB_URL names no server");
const PREFIX = process.env.PREFIX ?? "tandem-bench";
/** Time limit for documents to arrive after the last one was written. */
const LIMIT_SEC = 120;
/** Time limit until every database has received its first document. */
const FIRST_LIMIT_SEC = 1200;

const couchdb = process.env.COUCHDB_PID && { child: { pid: Number(process.env.COUCHDB_PID) } };
const numbers = Array.from({ length: JOBS }, (_, number) => number);
const sourceOf = (number) => `${PREFIX}-source-${number}`;
const replicator = encodeURIComponent(`${PREFIX}/_replicator`);
const ROWS = {
  tandem: { targetOf: (number) => `${PREFIX}-tandem-${number}`, measure: measureTandem },
  couchdb: { targetOf: (number) => `${PREFIX}-couchdb-${number}`, measure: measureCouchdb },
};

/** Resolves with the body of the response, and rejects with it for an error status. */
async function askCouchdb(method, path, body) {
  const answer = await ask(COUCHDB, method, path, body);
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`);
  return answer.body;
}

await deleteAll();
try {
  // CouchDB provides `_db_updates` only if this database exists.
  await ask(COUCHDB, "PUT", "/_global_changes");
  await inParallel(numbers, async (number) => {
    await askCouchdb("PUT", `/${sourceOf(number)}?q=1`);
    await askCouchdb("PUT", `/${sourceOf(number)}/first`, {});
  });
  for (const { targetOf, measure } of Object.values(ROWS)) {
    await inParallel(numbers, (number) => askCouchdb("PUT", `/${targetOf(number)}?q=1`));
    await measure(targetOf);
  }
} finally {
  await deleteAll();
}

async function measureTandem(targetOf) {
  const directory = mkdtempSync(join(tmpdir(), "tandem-bench-"));
  const node = await openProcess(directory);
  try {
    await inParallel(numbers, (number) =>
      ask(node.url, "PUT", `/_replicator/job-${number}`, jobOf(number, targetOf)),
    );
    const parkedMs = await timed(() => onceParked(node, JOBS));
    print(`Tandem: ${JOBS} jobs parked after ${seconds(parkedMs)}`);
    await measureBoth(node, targetOf);
  } finally {
    await endProcess(node, "SIGKILL");
    rmSync(directory, { recursive: true, force: true });
  }
}

async function measureCouchdb(targetOf) {
  const configured = await ask(COUCHDB, "GET", "/_node/_local/_config/replicator/max_jobs");
  const slots = configured.status === 200 ? configured.body : "as by default";
  await askCouchdb("PUT", `/${replicator}`);
  const docs = numbers.map((number) => ({ _id: `job-${number}`, ...jobOf(number, targetOf) }));
  const firstMs = await timed(async () => {
    await askCouchdb("POST", `/${replicator}/_bulk_docs`, { docs });
    await onceFirst(targetOf);
  });
  print(
    `CouchDB's replicator, max_jobs ${slots}: first documents of ${JOBS} jobs after ${seconds(firstMs)}`,
  );
  await measureBoth(undefined, targetOf);
  await askCouchdb("DELETE", `/${replicator}`);
}

function jobOf(number, targetOf) {
  const source = `${COUCHDB}/${sourceOf(number)}`;
  return { source, target: `${COUCHDB}/${targetOf(number)}`, continuous: true };
}

async function onceFirst(targetOf) {
  const untilMs = performance.now() + FIRST_LIMIT_SEC * 1000;
  await inParallel(numbers, async (number) => {
    for (;;) {
      const { status } = await ask(COUCHDB, "GET", `/${targetOf(number)}/first`);
      if (status === 200) return;
      if (performance.now() > untilMs) throw new Error("Not all first documents have arrived");
      await pause(500);
    }
  });
}

/** Measures Tandem and CouchDB. `node` is the Tandem process; undefined if CouchDB replicates. */
async function measureBoth(node, targetOf) {
  const processes = { Tandem: node, CouchDB: couchdb };
  const measured = Object.entries(processes).filter(([, each]) => each !== undefined);
  const before = measured.map(([, each]) => processorSec(each));
  await pause(QUIET_SEC * 1000);
  for (const [index, [name, each]] of measured.entries()) {
    const share = ((processorSec(each) - before[index]) / QUIET_SEC) * 100;
    const { memoryMib, handles } = usage(each);
    print(
      `  quiet: ${name} ${memoryMib} MiB anonymous, ${socketCount(each)} sockets, ${handles} handles, ${share.toFixed(1)} % of a core`,
    );
  }
  const arrivals = await Arrivals.open(COUCHDB);
  const from = measured.map(([, each]) => processorSec(each));
  const times = await writeRandomly(targetOf, arrivals);
  const arrived = times.filter((ms) => ms !== undefined);
  print(
    `  ${WRITES_PER_SEC} writes a second: ${quantilesText(arrived)}; ${times.length - arrived.length} of ${times.length} missing after ${LIMIT_SEC} s`,
  );
  for (const [index, [name, each]] of measured.entries()) {
    const ms = ((processorSec(each) - from[index]) * 1000) / times.length;
    print(`  per document: ${ms.toFixed(1)} ms of CPU time of ${name}`);
  }
  await arrivals.close();
}

/**
 * Writes documents to random databases. Returns the time that each took to arrive; `undefined` for
 * missing ones.
 */
async function writeRandomly(targetOf, arrivals) {
  const draw = drawsOf(1);
  const arriving = [];
  const run = performance.now().toFixed(0);
  for (let number = 0; number < BUSY_SEC * WRITES_PER_SEC; number++) {
    const at = Math.floor(draw() * JOBS);
    const id = `doc-${run}-${number}`;
    const arrival = arrivals.of(targetOf(at), id);
    const writing = askCouchdb("PUT", `/${sourceOf(at)}/${id}`, {}).then(() => performance.now());
    arriving.push({ arrival, writing });
    await pause(1000 / WRITES_PER_SEC);
  }
  const over = pause(LIMIT_SEC * 1000, undefined, { ref: false });
  return Promise.all(
    arriving.map(async ({ arrival, writing }) => {
      const writtenMs = await writing;
      const arrivedMs = await Promise.race([arrival, over]);
      return arrivedMs === undefined ? undefined : arrivedMs - writtenMs;
    }),
  );
}

async function deleteAll() {
  const names = await askCouchdb("GET", "/_all_dbs");
  const ours = names.filter((name) => name.startsWith(PREFIX));
  await inParallel(ours, (name) => ask(COUCHDB, "DELETE", `/${encodeURIComponent(name)}`));
}

/**
 * Cost of thousands of idle continuous jobs, and latency of a change.
 *
 *   npm run build && node bench/nodes/parked-jobs.mjs \
 *     [JOBS] [QUIET_SECONDS] [BUSY_SECONDS] [WRITES_PER_SECOND] [FORBIDDEN]
 *
 * Each job pulls a database of one Tandem process into one of another; a third process, with fewer
 * slots than jobs, replicates. When all are parked, memory, sockets and CPU time of the third
 * process are measured while nothing changes. Then documents are written to random databases. The
 * p50 and p99 of the time until a document is on the target (observed by the target's update feed,
 * see `arrivals.mjs`), and the CPU time of all processes per document are measured. At the end one
 * document is written to every database at the same time. The exit code is 1 if a document is
 * missing on the target. IDLE_MS: pause before memory is measured, in which the connections of the
 * first runs are closed. FORBIDDEN: resources that the source's server forbids, such as
 * `_db_updates,_dbs_info`.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import {
  ask,
  drawsOf,
  endProcess,
  openForbidding,
  openProcess,
  usage,
} from "../load/node-process.mjs";
import { Arrivals, inParallel } from "./arrivals.mjs";
import {
  onceParked,
  print,
  processorSec,
  quantilesText,
  seconds,
  socketCount,
} from "./measures.mjs";

const [JOBS = 1000, QUIET_SEC = 60, BUSY_SEC = 60, WRITES_PER_SEC = 100] = process.argv
  .slice(2, 6)
  .map(Number);
const FORBIDDEN = process.argv[6];
const TICKS_PER_SEC = 100;
const IDLE_MS = Number(process.env.IDLE_MS ?? 100_000);

const names = Array.from({ length: JOBS }, (_, number) => `user-${number}`);
const directories = Array.from({ length: 3 }, () => mkdtempSync(join(tmpdir(), "tandem-bench-")));
const nodes = [];
let proxy;
try {
  for (const directory of directories) nodes.push(await openProcess(directory));
  const [source, target, node] = nodes;
  proxy = FORBIDDEN === undefined ? undefined : await openForbidding(source.url, FORBIDDEN);
  const sourceUrl = proxy?.url ?? source.url;
  await inParallel(names, (name) => ask(source.url, "PUT", `/${name}`));
  const startMs = performance.now();
  await inParallel(names, (name) => {
    const job = { source: `${sourceUrl}/${name}`, target: `${target.url}/${name}` };
    const body = { ...job, create_target: true, continuous: true };
    return ask(node.url, "PUT", `/_replicator/${name}`, body);
  });
  await onceParked(node, JOBS);
  print(`${JOBS} jobs parked after ${seconds(performance.now() - startMs)}`);

  // Waits until the connections of the first runs are closed (`connection_close_interval`).
  await pause(IDLE_MS);
  const before = processorSec(node);
  await pause(QUIET_SEC * 1000);
  const spentSec = processorSec(node) - before;
  const { memoryMib, rssMib, handles } = usage(node);
  print(
    `quiet: ${memoryMib} MiB anonymous, ${rssMib} MiB RSS, ${socketCount(node)} sockets, ${handles} handles, ` +
      `${((spentSec / QUIET_SEC) * 100).toFixed(1)} % of a core over ${QUIET_SEC} s`,
  );

  const arrivals = await Arrivals.open(target.url);
  const busyFrom = nodes.map(processorSec);
  const written = await writeRandomly(source, arrivals);
  const times = written.map(({ arrivalMs }) => arrivalMs);
  print(`${written.length} documents, ${WRITES_PER_SEC} a second: ${quantilesText(times)}`);
  printCost("a document", busyFrom, written.length);

  const stormMs = performance.now();
  const stormFrom = nodes.map(processorSec);
  const stormed = names.map((name) => arrivals.of(name, "storm"));
  await inParallel(names, (name) => ask(source.url, "PUT", `/${name}/storm`, {}));
  await Promise.all(stormed);
  print(
    `storm: a document in each of ${JOBS} databases after ${seconds(performance.now() - stormMs)}`,
  );
  printCost("a document of the storm", stormFrom, JOBS);
  await arrivals.close();

  let missing = 0;
  for (const { name, id } of written) {
    const { status } = await ask(target.url, "GET", `/${name}/${id}`);
    if (status !== 200) missing++;
  }
  print(`${missing} of ${written.length + JOBS} documents are missing`);
  process.exitCode = missing === 0 ? 0 : 1;
} finally {
  const all = proxy === undefined ? nodes : [...nodes, proxy];
  await Promise.all(all.map((node) => endProcess(node, "SIGKILL")));
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
}

/** Writes documents to random databases at a constant rate, and measures when each arrives. */
async function writeRandomly(source, arrivals) {
  const draw = drawsOf(1);
  const written = [];
  const arriving = [];
  const beginMs = performance.now();
  const total = BUSY_SEC * WRITES_PER_SEC;
  for (let number = 0; number < total; ) {
    const due = Math.min(total, ((performance.now() - beginMs) / 1000) * WRITES_PER_SEC);
    for (; number < due; number++) {
      const name = names[Math.floor(draw() * JOBS)];
      const row = { name, id: `doc-${number}`, arrivalMs: 0 };
      written.push(row);
      arriving.push(
        (async () => {
          const arrival = arrivals.of(name, row.id);
          await ask(source.url, "PUT", `/${name}/${row.id}`, {});
          const writtenMs = performance.now();
          row.arrivalMs = (await arrival) - writtenMs;
        })(),
      );
    }
    await pause(1000 / TICKS_PER_SEC);
  }
  await Promise.all(arriving);
  return written;
}

/**
 * Prints the CPU time per item, for the source, the target and the replicating process. `from`:
 * their CPU times before the items. `count`: number of items.
 */
function printCost(what, from, count) {
  const spent = nodes.map((node, index) =>
    (((processorSec(node) - from[index]) * 1000) / count).toFixed(1),
  );
  print(`${what}: CPU ms: source ${spent[0]}, target ${spent[1]}, replicator ${spent[2]}`);
}

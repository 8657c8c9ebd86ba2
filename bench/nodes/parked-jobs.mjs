/**
 * What do thousands of quiet continuous jobs cost, and how soon does a change arrive?
 *
 *   npm run build && node bench/nodes/parked-jobs.mjs [JOBS] [QUIET_SECONDS] [BUSY_SECONDS] [WRITES_A_SECOND]
 *
 * Each job pulls a database of one Tandem process into one of another; a third process, without a slot for each, replicates. When all
 * are parked: memory, sockets and processor time of that process while nothing changes; then documents are written to random
 * databases: p50 and p99 of the time until each is on the target, which tells by its feed of updates where to look (`arrivals.mjs`);
 * and the processor time of all processes for each document. In the end one document is written to every database at once, the storm.
 * Everything written is looked for on the target. Exit code 1 when something is missing. IDLE_MS: how long connections of first runs are
 * waited for before memory is measured.
 */
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { ask, drawsOf, endProcess, openProcess, usage } from "../load/node-process.mjs";
import { Arrivals, inParallel } from "./arrivals.mjs";

const [JOBS = 1000, QUIET_SEC = 60, BUSY_SEC = 60, WRITES_PER_SEC = 100] = process.argv
  .slice(2)
  .map(Number);
const TICKS_PER_SEC = 100;
const IDLE_MS = Number(process.env.IDLE_MS ?? 100_000);

const names = Array.from({ length: JOBS }, (_, number) => `user-${number}`);
const directories = Array.from({ length: 3 }, () => mkdtempSync(join(tmpdir(), "tandem-bench-")));
const nodes = [];
try {
  for (const directory of directories) nodes.push(await openProcess(directory));
  const [source, target, node] = nodes;
  await inParallel(names, (name) => ask(source.url, "PUT", `/${name}`));
  const startMs = performance.now();
  await inParallel(names, (name) => {
    const job = { source: `${source.url}/${name}`, target: `${target.url}/${name}` };
    const body = { ...job, create_target: true, continuous: true };
    return ask(node.url, "PUT", `/_replicator/${name}`, body);
  });
  await onceParked(node, JOBS);
  print(`${JOBS} jobs parked after ${seconds(performance.now() - startMs)}`);

  // Until the connections of the first runs are closed (`connection_close_interval`).
  await pause(IDLE_MS);
  const before = processorSec(node);
  await pause(QUIET_SEC * 1000);
  const spentSec = processorSec(node) - before;
  const { memoryMib, rssMib, handles } = usage(node);
  print(
    `quiet: ${memoryMib} MiB of its own, ${rssMib} MiB RSS, ${sockets(node)} sockets, ${handles} handles, ` +
      `${((spentSec / QUIET_SEC) * 100).toFixed(1)} % of a core over ${QUIET_SEC} s`,
  );

  const arrivals = await Arrivals.open(target.url);
  const busyFrom = nodes.map(processorSec);
  const written = await writeRandomly(source, arrivals);
  const times = written.map(({ arrivalMs }) => arrivalMs).sort((one, other) => one - other);
  const at = (part) => times[Math.min(times.length - 1, Math.floor(times.length * part))];
  print(
    `${written.length} documents, ${WRITES_PER_SEC} a second: p50 ${at(0.5)?.toFixed(0)} ms, p99 ${at(0.99)?.toFixed(0)} ms, ` +
      `longest ${times.at(-1)?.toFixed(0)} ms`,
  );
  printCost("a document", busyFrom, written.length);

  const stormMs = performance.now();
  const stormFrom = nodes.map(processorSec);
  await inParallel(names, (name) => ask(source.url, "PUT", `/${name}/storm`, {}));
  await Promise.all(names.map((name) => arrivals.of(name, "storm")));
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
  await Promise.all(nodes.map((node) => endProcess(node, "SIGKILL")));
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
}

/** Documents in random databases at a steady rate; each with the time until it was there. */
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
          await ask(source.url, "PUT", `/${name}/${row.id}`, {});
          const writtenMs = performance.now();
          row.arrivalMs = (await arrivals.of(name, row.id)) - writtenMs;
        })(),
      );
    }
    await pause(1000 / TICKS_PER_SEC);
  }
  await Promise.all(arriving);
  return written;
}

async function onceParked(node, count) {
  for (;;) {
    const { body } = await ask(node.url, "GET", "/_tandem/jobs?parked=true&limit=1");
    if (body.total_rows >= count) return;
    await pause(200);
  }
}

function sockets({ child }) {
  const folder = `/proc/${child.pid}/fd`;
  return readdirSync(folder).filter((number) => {
    try {
      return readlinkSync(join(folder, number)).startsWith("socket:");
    } catch {
      // It was closed meanwhile.
      return false;
    }
  }).length;
}

/** Processor time of the process so far; Linux counts in hundredths. */
function processorSec({ child }) {
  const fields = readFileSync(`/proc/${child.pid}/stat`, "utf8")
    .replace(/^.*\) /, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** Processor time since then for each of `count`, of the source, the target and the process that replicates. */
function printCost(what, from, count) {
  const spent = nodes.map((node, index) =>
    (((processorSec(node) - from[index]) * 1000) / count).toFixed(1),
  );
  print(
    `${what}: ${spent[0]} ms of processor time at the source, ${spent[1]} at the target, ${spent[2]} between them`,
  );
}

function seconds(ms) {
  return `${(ms / 1000).toFixed(1)} s`;
}

function print(line) {
  process.stdout.write(`${line}\n`);
}

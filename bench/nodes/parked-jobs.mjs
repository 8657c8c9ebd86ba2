/**
 * What do thousands of quiet continuous jobs cost, and how soon does a change arrive?
 *
 *   npm run build && node bench/nodes/parked-jobs.mjs [JOBS] [QUIET_SECONDS] [BUSY_SECONDS] [WRITES_A_SECOND]
 *
 * Each job pulls a database of one Tandem process into one of another; a third process, without a slot for each, replicates. When all
 * are parked: memory, sockets and processor time of that process while nothing changes; then documents are written to random
 * databases, and each is asked for on the target until it is there: p50 and p99 of the time that took. In the end one document is
 * written to every database at once, the storm. Everything written is looked for on the target. Exit code 1 when something is missing.
 */
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { ask, drawsOf, endProcess, openProcess, usage } from "../load/node-process.mjs";

const [JOBS = 1000, QUIET_SEC = 60, BUSY_SEC = 60, WRITES_PER_SEC = 100] = process.argv
  .slice(2)
  .map(Number);
const AT_ONCE = 16;
/** How often a target is asked for a document that has not arrived. */
const LOOK_MS = 25;
const TICKS_PER_SEC = 100;
const IDLE_MS = 100_000;

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

  const written = await writeRandomly(source, target);
  const arrivals = written.map(({ arrivalMs }) => arrivalMs).sort((one, other) => one - other);
  const at = (part) => arrivals[Math.min(arrivals.length - 1, Math.floor(arrivals.length * part))];
  print(
    `${written.length} documents, ${WRITES_PER_SEC} a second: p50 ${at(0.5)?.toFixed(0)} ms, p99 ${at(0.99)?.toFixed(0)} ms, ` +
      `longest ${arrivals.at(-1)?.toFixed(0)} ms`,
  );

  const stormMs = performance.now();
  await inParallel(names, (name) => ask(source.url, "PUT", `/${name}/storm`, {}));
  await inParallel(names, (name) => onceThere(target, name, "storm"));
  print(
    `storm: a document in each of ${JOBS} databases after ${seconds(performance.now() - stormMs)}`,
  );

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
async function writeRandomly(source, target) {
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
          await onceThere(target, name, row.id);
          row.arrivalMs = performance.now() - writtenMs;
        })(),
      );
    }
    await pause(1000 / TICKS_PER_SEC);
  }
  await Promise.all(arriving);
  return written;
}

async function onceThere(target, name, id) {
  for (;;) {
    const { status } = await ask(target.url, "GET", `/${name}/${id}`);
    if (status === 200) return;
    await pause(LOOK_MS);
  }
}

async function onceParked(node, count) {
  for (;;) {
    const { body } = await ask(node.url, "GET", "/_tandem/jobs?parked=true&limit=1");
    if (body.total_rows >= count) return;
    await pause(200);
  }
}

async function inParallel(items, work) {
  let next = 0;
  const lane = async () => {
    while (next < items.length) await work(items[next++]);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
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

function seconds(ms) {
  return `${(ms / 1000).toFixed(1)} s`;
}

function print(line) {
  process.stdout.write(`${line}\n`);
}

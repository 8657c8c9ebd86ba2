/**
 * Cost of a slot: memory, sockets and files of a process per busy job.
 *
 *   npm run build && node bench/nodes/slots.mjs [SECONDS] [JOBS…]
 *
 * Each continuous job copies a database of one Tandem process to a database of a second process. A
 * third process, new for each number of jobs, runs the jobs. Documents of a kilobyte are written to
 * random sources as fast as possible. Prints for 0 jobs and for each number of JOBS (default: 10,
 * 100 and 500): the maxima of resident memory, anonymous memory and V8's heap; the live heap after
 * a collection; the sockets and all handles; and the additional cost per job. Linux only.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { ask, drawsOf, endProcess, measure, openProcess, usage } from "../load/node-process.mjs";
import { socketCount } from "./measures.mjs";

const [BUSY_SEC = 20, ...given] = process.argv.slice(2).map(Number);
const COUNTS = given.length === 0 ? [10, 100, 500] : given;
const LANES = 8;
const SAMPLE_MS = 500;
const MIB = 1024 * 1024;
const TEXT = "x".repeat(1000);

const folders = [];
const nodes = [];
try {
  const source = await open();
  const target = await open();
  const most = Math.max(...COUNTS);
  await inLanes(most, (number) => ask(source.url, "PUT", `/user-${number}`));
  const idle = await figuresOf(source, target, 0);
  for (const count of COUNTS) await figuresOf(source, target, count, idle);
} finally {
  await Promise.all(nodes.map((node) => endProcess(node, "SIGKILL")));
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}

async function open(options = {}) {
  const folder = mkdtempSync(join(tmpdir(), "tandem-bench-"));
  folders.push(folder);
  const config = join(folder, "tandem.ini");
  // Jobs never park, so that briefly idle ones keep their slots.
  writeFileSync(config, "[replicator]\npark_after_sec = 0\n");
  const node = await openProcess(folder, { ...options, flags: ["--config", config] });
  nodes.push(node);
  return node;
}

async function figuresOf(source, target, count, idle) {
  const node = await open({ isMetered: true });
  await inLanes(count, (number) => {
    const [from, to] = [source, target].map(({ url }) => `${url}/user-${number}`);
    const body = { source: from, target: `${to}-of-${count}`, create_target: true };
    return ask(node.url, "PUT", `/_replicator/job-${number}`, { ...body, continuous: true });
  });
  await onceRunning(node, count);
  const busy = new AbortController();
  const writing = write(source, count, busy.signal);
  const figures = { rssMib: 0, ownMib: 0, heapMib: 0, sockets: 0, handles: 0 };
  const endMs = performance.now() + BUSY_SEC * 1000;
  while (performance.now() < endMs) {
    await pause(SAMPLE_MS);
    const { memoryMib, rssMib, handles } = usage(node);
    const { heapBytes } = await measure(node);
    const sample = { rssMib, ownMib: memoryMib, heapMib: heapBytes / MIB };
    Object.assign(sample, { sockets: socketCount(node), handles });
    for (const name of Object.keys(figures)) {
      figures[name] = Math.max(figures[name], sample[name]);
    }
  }
  // Measured while the jobs run: the memory that each job keeps in its slot, without garbage.
  const { liveHeapBytes, liveBufferBytes } = await measure(node, true);
  figures.liveMib = (liveHeapBytes + liveBufferBytes) / MIB;
  busy.abort();
  const written = await writing;
  await endProcess(node);
  print(count, written, figures, idle);
  return figures;
}

function print(count, written, figures, idle) {
  const shown = Object.entries(figures).map(([name, value]) => {
    const each = idle && ((value - idle[name]) / count).toFixed(3);
    return `${name} ${value.toFixed(1)}${each === undefined ? "" : ` (${each} a job)`}`;
  });
  const rate = Math.round(written / BUSY_SEC);
  process.stdout.write(`${count} jobs, ${rate} documents a second: ${shown.join(", ")}\n`);
}

/** Writes documents to random sources until aborted. Returns the number of documents. */
async function write({ url }, count, signal) {
  if (count === 0) return 0;
  const draw = drawsOf(count);
  let written = 0;
  const lane = async () => {
    while (!signal.aborted) {
      const name = `user-${Math.floor(draw() * count)}`;
      await ask(url, "POST", `/${name}`, { text: TEXT });
      written++;
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return written;
}

async function onceRunning({ url }, count) {
  for (;;) {
    const { body } = await ask(url, "GET", "/_tandem/jobs?state=running&limit=1");
    if (body.total_rows >= count) return;
    await pause(200);
  }
}

async function inLanes(count, work) {
  let next = 0;
  const lane = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

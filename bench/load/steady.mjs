/**
 * Growth of memory and handles under a long, steady load. Writers write to one node, and continuous
 * jobs copy to a second one.
 *
 *   npm run build && node bench/load/steady.mjs [MINUTES] [CHANGES_PER_SEC]
 *
 * The rate is fixed, as far as the machine can keep up, because buffers and garbage grow with it.
 * Before each of forty samples the writers pause, so that no request is pending. Then garbage is
 * collected, and each process reports its live memory: objects and buffers of V8's main thread, and
 * allocations of malloc (only with a C compiler); the system reports the anonymous memory of the
 * process, with all of its threads. Leaks never shrink, so they raise the lowest samples, while
 * single samples are higher because of pending work. Live memory is flat if the lowest sample of
 * the last quarter is at most 5 % above the lowest of the quarter before.
 *
 * Under load the anonymous memory depends on current garbage and on caches of V8 and malloc, so it
 * is judged at rest: after a long pause at the end of each quarter, when V8 has returned memory,
 * idle connections are closed, and malloc was told to return free memory. It is flat if the last
 * pause has at most 5 % more than the one before. Handles must not increase. The exit code is 1 if
 * a value is not flat.
 *
 * Also shown are the anonymous memory without V8's and malloc's (`rest`), the same just before the
 * writers paused (`loaded`), V8's heap before the collection and its reserved memory, and malloc's
 * free memory. Linux only.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { ask, endProcess, measure, openProcess, usage } from "./node-process.mjs";

const MINUTES = Number(process.argv[2] ?? 2);
const CHANGES_PER_SEC = Number(process.argv[3] ?? 500);
const WRITERS = 4;
const DATABASE_COUNT = 4;
const BATCH_COUNT = 50;
/**
 * Number of batches after which a writer updates its first documents again, so that the databases
 * do not grow indefinitely.
 */
const ROUND_BATCHES = 40;
const QUARTER_SAMPLES = 10;
const SAMPLE_COUNT = 4 * QUARTER_SAMPLES;
/** Pause in which copies arrive and feeds become idle. */
const REST_MS = 3_000;
/** Long pause. Idle connections are closed after 90 s. */
const LONG_REST_MS = 100_000;
const GROWTH_MAX = 0.05;
const MIB = 2 ** 20;
const SHOWN = [
  "live",
  "malloc",
  "anonymous",
  "handles",
  "rest",
  "loaded",
  "heap",
  "heapTotal",
  "mallocFree",
];

const directories = [1, 2].map(() => mkdtempSync(join(tmpdir(), "tandem-bench-")));
const nodes = [];
const samples = [[], []];
const environment = mallocMeter();
let writtenCount = 0;
let isOver = false;
/** Set while the writers pause: resolves when they may continue. */
let rest;
try {
  for (const directory of directories) {
    nodes.push(await openProcess(directory, { isMetered: true, environment }));
  }
  const [{ url }, other] = nodes;
  for (let number = 0; number < DATABASE_COUNT; number++) {
    await ask(url, "PUT", `/db-${number}`);
    const target = `${other.url}/db-${number}`;
    const job = { source: `db-${number}`, target, create_target: true, continuous: true };
    await ask(url, "PUT", `/_replicator/copy-${number}`, job);
  }
  const writers = Array.from({ length: WRITERS }, (_, writer) => write(url, writer));
  printRow(["second", "node", "changes", ...SHOWN]);
  for (let number = 1; number <= SAMPLE_COUNT; number++) {
    await pause((MINUTES * 60_000) / SAMPLE_COUNT - REST_MS);
    await sampleAll(number, number % QUARTER_SAMPLES === 0);
  }
  isOver = true;
  await Promise.all(writers);
  const areFlat = nodes.flatMap((_, index) => [
    isAliveFlat(index, "live"),
    isAliveFlat(index, "malloc"),
    isRestFlat(index, "anonymous", GROWTH_MAX),
    isRestFlat(index, "handles", 0),
  ]);
  process.exitCode = areFlat.every(Boolean) ? 0 : 1;
} finally {
  isOver = true;
  await Promise.all(nodes.map((node) => endProcess(node, "SIGKILL")));
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
}
process.exit();

async function write(url, writer) {
  const revisions = new Map();
  const periodMs = (1000 * BATCH_COUNT * WRITERS) / CHANGES_PER_SEC;
  let dueMs = performance.now();
  for (let batch = 0; !isOver; batch++) {
    if (rest !== undefined) {
      await rest;
      dueMs = performance.now();
    }
    const docs = Array.from({ length: BATCH_COUNT }, (_, number) => {
      const _id = `w${writer}-${(batch % ROUND_BATCHES) * BATCH_COUNT + number}`;
      const _rev = revisions.get(_id);
      return { _id, batch, ...(_rev === undefined ? {} : { _rev }) };
    });
    const database = `db-${writer % DATABASE_COUNT}`;
    const { body } = await ask(url, "POST", `/${database}/_bulk_docs`, { docs });
    for (const { id, rev } of body) if (rev !== undefined) revisions.set(id, rev);
    writtenCount += docs.length;
    // A late writer does not catch up, because that would increase the rate.
    dueMs = Math.max(dueMs + periodMs, performance.now());
    await pause(dueMs - performance.now());
  }
}

async function sampleAll(number, isLong) {
  const loaded = nodes.map((node) => usage(node).memoryMib);
  let resume = () => {};
  rest = new Promise((resolve) => {
    resume = () => resolve(undefined);
  });
  await pause(isLong ? LONG_REST_MS : REST_MS);
  const second = (number * MINUTES * 60) / SAMPLE_COUNT;
  for (const [index, node] of nodes.entries()) {
    const sample = { second, loaded: loaded[index], ...(await sampleOf(node, isLong)) };
    samples[index].push(sample);
    printRow([second.toFixed(0), index + 1, writtenCount, ...SHOWN.map((key) => sample[key])]);
  }
  rest = undefined;
  resume();
}

/** Measures a node. Memory is in MiB. */
async function sampleOf(node, isTrimmed) {
  const before = await measure(node, true);
  // Waits for finalizers, which release additional memory of the collected objects.
  await pause(500);
  const after = await measure(node, true);
  if (isTrimmed) await trim(node);
  const [malloc, mallocFree] = mallocMib(node);
  const { memoryMib: anonymous, handles } = usage(node);
  const heapTotal = after.heapTotalBytes / MIB;
  return {
    live: (after.liveHeapBytes + after.liveBufferBytes) / MIB,
    malloc,
    mallocFree,
    anonymous,
    rest: anonymous - heapTotal - malloc - mallocFree,
    handles,
    heap: before.heapBytes / MIB,
    heapTotal,
  };
}

/**
 * Returns the environment variables that make a process report malloc's allocations, or `undefined`
 * if there is no C compiler.
 */
function mallocMeter() {
  const library = join(directories[0], "malloc-meter.so");
  const source = fileURLToPath(new URL("malloc-meter.c", import.meta.url));
  try {
    execFileSync("cc", ["-O1", "-shared", "-fPIC", "-pthread", "-o", library, source]);
  } catch {
    return undefined;
  }
  return { LD_PRELOAD: library, MALLOC_METER: join(directories[0], "malloc") };
}

/** Makes malloc return free memory. */
async function trim({ child }) {
  if (environment === undefined) return;
  const asked = `${environment.MALLOC_METER}.${child.pid}.trim`;
  writeFileSync(asked, "");
  while (existsSync(asked)) await pause(100);
}

/** Returns allocated memory, and free memory that is kept; zeros without a C compiler. */
function mallocMib({ child }) {
  if (environment === undefined) return [0, 0];
  const text = readFileSync(`${environment.MALLOC_METER}.${child.pid}`, "utf8");
  return text
    .trim()
    .split(/ +/)
    .map((bytes) => Number(bytes) / MIB);
}

function printRow(values) {
  const texts = values.map((value) => (typeof value === "number" ? Math.round(value) : value));
  process.stdout.write(`${texts.map((value) => String(value).padStart(10)).join("")}\n`);
}

/**
 * Whether live memory stayed flat, judged by the lowest samples of the last two quarters of the
 * run. Ignores the samples after a quarter's long pause.
 */
function isAliveFlat(index, key) {
  const lowest = (quarter) => {
    const end = (quarter + 1) * QUARTER_SAMPLES - 1;
    const some = samples[index].slice(end - QUARTER_SAMPLES + 1, end);
    return Math.min(...some.map((one) => one[key]));
  };
  return verdict(index, key, [0, 1, 2, 3].map(lowest), GROWTH_MAX);
}

/** Judges growth by the samples after the long pauses. */
function isRestFlat(index, key, growthMax) {
  const rests = samples[index].filter((_, at) => (at + 1) % QUARTER_SAMPLES === 0);
  return verdict(
    index,
    key,
    rests.map((one) => one[key]),
    growthMax,
  );
}

/** Prints the values of the run's four quarters. Returns whether the last one is flat. */
function verdict(index, key, values, growthMax) {
  const [, , before, last] = values;
  const isGood = last <= before * (1 + growthMax);
  const shown = values.map((value) => value.toFixed(1)).join(", ");
  process.stdout.write(`node ${index + 1}: ${key} ${shown}: ${isGood ? "flat" : "not flat"}\n`);
  return isGood;
}

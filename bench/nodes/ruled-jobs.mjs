/**
 * Cost of a hundred thousand parked jobs of one rule: for a node to start, to wake one job, and to
 * list all. Also the time until their databases are watched again after the watching node is
 * killed.
 *
 *   npm run build && node bench/nodes/ruled-jobs.mjs [JOBS] [FEW_JOBS]
 *
 * A rule copies the databases of a node into others of the same node, so only this program sends
 * HTTP requests. For comparison, the program first measures FEW_JOBS. Then two nodes share the
 * store, and the one that holds the watcher of the databases is identified (`watchingNode`).
 * Documents are written to random databases through the other node, and the watching node is
 * killed. Prints the delay of the first documents, and how many are missing; the exit code is 1 if
 * any is missing.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { ask, drawsOf, endProcess, openProcess, usage } from "../load/node-process.mjs";
import { Arrivals, inParallel } from "./arrivals.mjs";
import { onceParked, print, quantilesText, seconds, timed } from "./measures.mjs";

const [JOBS = 100_000, FEW_JOBS = 100] = process.argv.slice(2).map(Number);
/** Number of wake-ups, measured one after the other. */
const WAKES = 100;
/** Number of requests of each kind. */
const REQUESTS = 100;
/** Number of documents written around the kill. */
const KILL_WRITES = 200;
/** Pause between two of these writes. */
const KILL_PAUSE_MS = 50;
/** Time allowed for a second node to join. */
const JOINED_MS = 15_000;
/**
 * Number of jobs that a node holds without using slots while all jobs of the rule are parked: the
 * watcher, and the follower of the rule.
 */
const SLOTLESS_JOBS = 2;
/** Number of attempts to find a node that holds both slotless jobs. */
const HOLDS_ATTEMPTS_MAX = 60;
/** Pause between two of these attempts. */
const HOLDS_PAUSE_MS = 500;
const REQUESTED = [
  "/_tandem/jobs?limit=100",
  "/_tandem/jobs?rule=all&failing=true",
  "/_tandem/rules/all",
  "/_scheduler/jobs?limit=100",
];

let missing = 0;
for (const count of [FEW_JOBS, JOBS]) missing += await measureJobs(count);
process.exitCode = missing === 0 ? 0 : 1;

/** Runs all measurements with this many jobs. Returns the number of missing documents. */
async function measureJobs(count) {
  print(`${count} jobs`);
  const directory = mkdtempSync(join(tmpdir(), "tandem-bench-"));
  const nodes = [];
  try {
    nodes.push(await openProcess(directory));
    await openJobs(nodes[0], count);
    await endProcess(nodes[0]);
    const startMs = await timed(async () => {
      nodes[0] = await openProcess(directory);
    });
    const ms = await timed(() => copyDocument(nodes[0], count, "started"));
    print(`  starts in ${seconds(startMs)}, and has copied a change ${seconds(ms)} later`);
    const { memoryMib, rssMib } = usage(nodes[0]);
    print(`  ${memoryMib} MiB anonymous, ${rssMib} MiB RSS`);
    await measureWakes(nodes[0], count);
    for (const path of REQUESTED) await measureRequest(nodes[0], path);
    nodes.push(await openProcess(directory));
    await pause(JOINED_MS);
    const watching = await watchingNode(nodes);
    const other = nodes.find((node) => node !== watching);
    print(
      `  the ${watching === nodes[0] ? "first" : "second"} node holds the watcher, and is killed`,
    );
    const written = await kill(watching, other, count);
    const left = await missingOf(other, written);
    print(`  ${left} of ${written.length} documents are missing`);
    return left;
  } finally {
    await Promise.all(nodes.map((node) => endProcess(node, "SIGKILL")));
    rmSync(directory, { recursive: true, force: true });
  }
}

function nameOf(number) {
  return `user-${number}`;
}

function copyOf(name) {
  return `copy-of-${name}`;
}

/**
 * Creates `count` databases with one document each, and the rule that copies them. Resolves when
 * all jobs are parked.
 */
async function openJobs(node, count) {
  const numbers = Array.from({ length: count }, (_, number) => number);
  const madeMs = await timed(() =>
    inParallel(numbers, async (number) => {
      await ask(node.url, "PUT", `/${nameOf(number)}`);
      await ask(node.url, "PUT", `/${nameOf(number)}/first`, {});
    }),
  );
  const rule = { source: "local", target: copyOf("{db}"), databases: ["user-*"] };
  const parkedMs = await timed(async () => {
    const { status, body } = await ask(node.url, "PUT", "/_tandem/rules/all", rule);
    if (status !== 201) throw new Error(JSON.stringify(body));
    await onceParked(node, count);
  });
  print(
    `  databases created in ${seconds(madeMs)}, jobs parked ${seconds(parkedMs)} after the rule`,
  );
}

async function copyDocument(node, count, id, name = nameOf(Math.floor(count / 2))) {
  const arrivals = await Arrivals.open(node.url);
  const arrival = arrivals.of(copyOf(name), id);
  await ask(node.url, "PUT", `/${name}/${id}`, {});
  await arrival;
  await arrivals.close();
}

async function measureWakes(node, count) {
  const draw = drawsOf(1);
  const arrivals = await Arrivals.open(node.url);
  const times = [];
  for (let number = 0; number < WAKES; number++) {
    const name = nameOf(Math.floor(draw() * count));
    const arrival = arrivals.of(copyOf(name), `wake-${number}`);
    await ask(node.url, "PUT", `/${name}/wake-${number}`, {});
    const writtenMs = performance.now();
    times.push((await arrival) - writtenMs);
  }
  await arrivals.close();
  print(`  a change arrives: ${quantilesText(times)}`);
}

async function measureRequest(node, path) {
  const times = [];
  for (let number = 0; number < REQUESTS; number++) {
    times.push(await timed(() => ask(node.url, "GET", path)));
  }
  print(`  GET ${path}: ${quantilesText(times)}`);
}

/**
 * Returns the node that runs the watcher and the rule's follower. If they run on two nodes, the
 * second node is drained, so that the first gets both. Throws if no node gets both.
 */
async function watchingNode(nodes) {
  const found = await soleHolder(nodes, 1);
  if (found !== undefined) return found;
  const drained = nodes[1];
  await orderNode(nodes[0], drained, "_drain");
  try {
    const holder = await soleHolder(nodes, HOLDS_ATTEMPTS_MAX);
    if (holder !== undefined) return holder;
  } finally {
    await orderNode(nodes[0], drained, "_undrain");
  }
  throw new Error("No node holds the watcher");
}

/**
 * Returns the node that holds both slotless jobs (`SLOTLESS_JOBS`) while no other node holds any
 * job; `undefined` if no such node was found in this many attempts.
 */
async function soleHolder(nodes, attemptsMax) {
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    if (attempt > 0) await pause(HOLDS_PAUSE_MS);
    const listed = await listedNodes(nodes[0]);
    const holding = listed.filter(({ jobs }) => jobs > 0);
    if (holding.length !== 1 || holding[0].jobs !== SLOTLESS_JOBS) continue;
    return nodes.find(({ child }) => String(child.pid) === holding[0].pid);
  }
  return undefined;
}

async function listedNodes({ url }) {
  const { body } = await ask(url, "GET", "/_tandem/nodes");
  return body.nodes.filter(({ state }) => state !== "dead");
}

async function orderNode(node, ordered, order) {
  const row = (await listedNodes(node)).find(({ pid }) => pid === String(ordered.child.pid));
  const { status } = await ask(node.url, "POST", `/_tandem/nodes/${row.id}/${order}`);
  if (status !== 200) throw new Error(`${order}: ${status}`);
}

/** Writes through `other`, and kills `node` in between. Returns the written documents. */
async function kill(node, other, count) {
  const draw = drawsOf(2);
  const arrivals = await Arrivals.open(other.url);
  const written = [];
  const waiting = [];
  for (let number = 0; number < KILL_WRITES; number++) {
    const isKilled = number >= KILL_WRITES / 4;
    if (number === KILL_WRITES / 4) await endProcess(node, "SIGKILL");
    const name = nameOf(Math.floor(draw() * count));
    const id = `kill-${number}`;
    const arrival = arrivals.of(copyOf(name), id);
    await ask(other.url, "PUT", `/${name}/${id}`, {});
    const row = { name: copyOf(name), id, isKilled, ms: 0, writtenMs: performance.now() };
    written.push(row);
    waiting.push(
      arrival.then((seenMs) => {
        row.ms = seenMs - row.writtenMs;
      }),
    );
    await pause(KILL_PAUSE_MS);
  }
  await Promise.all(waiting);
  await arrivals.close();
  const times = (wanted) =>
    written.filter(({ isKilled }) => isKilled === wanted).map(({ ms }) => ms);
  print(`  with two nodes a change arrives: ${quantilesText(times(false))}`);
  print(`  after the watching one was killed: ${quantilesText(times(true))}`);
  return written;
}

async function missingOf(node, written) {
  let count = 0;
  for (const { name, id } of written) {
    const { status } = await ask(node.url, "GET", `/${name}/${id}`);
    if (status !== 200) count++;
  }
  return count;
}

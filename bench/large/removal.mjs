/**
 * Latency of other clients while a large database is deleted.
 *
 *   npm run build && node bench/large/removal.mjs [DOCUMENTS] [BYTES]
 *
 * One node on LMDB has a database of 200,000 documents of 450 bytes with random ids and an index on
 * them. Another client writes a document to another database every 5 ms: first on the idle node,
 * then while the database is deleted, until it is gone. Afterwards, a new process serves the same
 * writes for the same time without a removal, because V8 may keep garbage of requests for minutes.
 * Prints the median, 99th percentile and longest wait, the growth of the node's anonymous memory
 * with and without the removal, and the duration of the removal.
 *
 * Measured 2026-11-28 with 1,000,000 documents and an index, two busy cores: DELETE answered after
 * 11 ms, removal 113 s. A write of another client took 2.8 ms before (99th percentile 7.6) and 3.9
 * ms during the removal (23.2).
 */
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ask, endProcess, openProcess } from "../load/node-process.mjs";
import { quantile } from "../nodes/measures.mjs";

const [DOCUMENTS = 200_000, BYTES = 450] = process.argv.slice(2, 4).map(Number);
const BATCH = 1_000;
const PAUSE_MS = 5;
const QUIET_MS = 30_000;

const text = "x".repeat(Math.max(0, BYTES - 80));

async function fill(url) {
  await ask(url, "PUT", "/large");
  await ask(url, "POST", "/large/_index", { index: { fields: ["n"] }, name: "n" });
  for (let done = 0; done < DOCUMENTS; done += BATCH) {
    const docs = Array.from({ length: Math.min(BATCH, DOCUMENTS - done) }, (_, at) => ({
      _id: randomBytes(16).toString("hex"),
      n: done + at,
      text,
    }));
    await ask(url, "POST", "/large/_bulk_docs", { docs });
  }
}

function anonymousMiB(pid) {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^RssAnon:\s+(\d+)/m.exec(status)?.[1]) / 1_024;
}

/**
 * Writes documents until `isOver`. Returns the latency of each in milliseconds, and the maximum
 * anonymous memory.
 */
async function writeUntil({ url, child }, isOver) {
  const waits = [];
  let mostMiB = 0;
  while (!isOver()) {
    const beganMs = performance.now();
    await ask(url, "POST", "/other", { text });
    waits.push(performance.now() - beganMs);
    mostMiB = Math.max(mostMiB, anonymousMiB(child.pid));
    await sleep(PAUSE_MS);
  }
  return { waits, mostMiB };
}

function report(name, { waits, mostMiB }) {
  const [median, most] = [0.5, 0.99].map((part) => quantile(waits, part).toFixed(1));
  const longest = Math.max(...waits).toFixed(1);
  console.log(
    `${name}: ${waits.length} writes, median ${median} ms, p99 ${most} ms, longest ${longest} ms, anonymous memory at most ${mostMiB.toFixed(0)} MiB`,
  );
}

async function removals(url) {
  const { body } = await ask(url, "GET", "/_active_tasks");
  return body.filter(({ type }) => type === "removal");
}

/** Opens the store in a new process, with a fresh heap, and warms it up. */
async function openWarm(directory) {
  const node = await openProcess(directory);
  await ask(node.url, "PUT", "/other");
  const quiet = await writeUntil(node, after(QUIET_MS));
  return { node, quiet };
}

function after(ms) {
  const endMs = performance.now() + ms;
  return () => performance.now() > endMs;
}

const directory = mkdtempSync(join(tmpdir(), "tandem-bench-"));
let node = await openProcess(directory);
try {
  const filledMs = performance.now();
  await fill(node.url);
  console.log(`${DOCUMENTS} documents in ${((performance.now() - filledMs) / 1_000).toFixed(1)} s`);
  await endProcess(node);
  const removing = await openWarm(directory);
  node = removing.node;
  report("before", removing.quiet);
  let isRemoved = false;
  const beganMs = performance.now();
  const writing = writeUntil(node, () => isRemoved);
  await ask(node.url, "DELETE", "/large");
  console.log(`DELETE answered after ${(performance.now() - beganMs).toFixed(1)} ms`);
  while ((await removals(node.url)).length > 0) await sleep(500);
  isRemoved = true;
  const during = await writing;
  const removedMs = performance.now() - beganMs;
  report("during", during);
  await endProcess(node);
  const control = await openWarm(directory);
  node = control.node;
  const without = await writeUntil(node, after(removedMs));
  report("without a removal", without);
  const growthMiB = during.mostMiB - removing.quiet.mostMiB;
  const controlMiB = without.mostMiB - control.quiet.mostMiB;
  console.log(
    `removed in ${(removedMs / 1_000).toFixed(1)} s, anonymous memory grew by ${growthMiB.toFixed(0)} MiB, without a removal by ${controlMiB.toFixed(0)} MiB`,
  );
} finally {
  await endProcess(node);
  rmSync(directory, { recursive: true });
}

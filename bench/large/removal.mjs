/**
 * Latency of other clients while a large database is deleted.
 *
 *   npm run build && node bench/large/removal.mjs [DOCUMENTS]
 *
 * One node on LMDB has a database of 200,000 documents of 450 bytes with random ids and an index on
 * them. Another client writes a document to another database every 5 ms: first on the idle node,
 * then while the database is deleted, until it is gone. Then, as a baseline, a new process serves
 * the same writes for the same time without a removal. It is new because V8 can keep garbage of
 * requests for minutes. Prints the median, 99th percentile and longest wait, the growth of the
 * node's anonymous memory with and without the removal, and the duration of the removal.
 *
 * Measured 2026-11-28 with 1,000,000 documents and an index, two busy cores: DELETE answered after
 * 11 ms, removal 113 s. A write of another client took 2.8 ms before the removal (p99 7.6 ms) and
 * 3.9 ms during the removal (p99 23.2 ms).
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ask, endProcess, openProcess } from "../load/node-process.mjs";
import { load } from "./load.mjs";
import { describeOther, writeUntil } from "./other-client.mjs";

const DOCUMENTS = Number(process.argv[2] ?? 200_000);
const QUIET_MS = 30_000;

async function fill(node) {
  await ask(node.url, "PUT", "/large");
  await ask(node.url, "POST", "/large/_index", { index: { fields: ["n"] }, name: "n" });
  await load(node, "large", DOCUMENTS);
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
  await fill(node);
  console.log(`${DOCUMENTS} documents in ${((performance.now() - filledMs) / 1_000).toFixed(1)} s`);
  await endProcess(node);
  const removing = await openWarm(directory);
  node = removing.node;
  console.log(`before: ${describeOther(removing.quiet)}`);
  let isRemoved = false;
  const beganMs = performance.now();
  const writing = writeUntil(node, () => isRemoved);
  await ask(node.url, "DELETE", "/large");
  console.log(`DELETE answered after ${(performance.now() - beganMs).toFixed(1)} ms`);
  while ((await removals(node.url)).length > 0) await sleep(500);
  isRemoved = true;
  const during = await writing;
  const removedMs = performance.now() - beganMs;
  console.log(`during: ${describeOther(during)}`);
  await endProcess(node);
  const control = await openWarm(directory);
  node = control.node;
  const without = await writeUntil(node, after(removedMs));
  console.log(`without a removal: ${describeOther(without)}`);
  const growthMiB = during.mostMiB - removing.quiet.mostMiB;
  const controlMiB = without.mostMiB - control.quiet.mostMiB;
  console.log(
    `removed in ${(removedMs / 1_000).toFixed(1)} s, anonymous memory grew by ${growthMiB.toFixed(0)} MiB, without a removal by ${controlMiB.toFixed(0)} MiB`,
  );
} finally {
  await endProcess(node);
  rmSync(directory, { recursive: true });
}

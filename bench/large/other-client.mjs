/** Another client of a node, whose writes are timed while a large operation runs. Linux only. */
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { ask } from "../load/node-process.mjs";
import { quantile } from "../nodes/measures.mjs";

const WRITE_PAUSE_MS = 5;
/** Number of writes between readings of the node's memory. A reading takes some 0.1 ms. */
const WRITES_PER_READING = 20;
const TEXT = "x".repeat(370);

/** Anonymous memory of the process in MiB; excludes mapped files, which are page cache. */
function anonymousMiB({ child }) {
  const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
  return Number(/^RssAnon:\s+(\d+)/m.exec(status)?.[1]) / 1_024;
}

/**
 * Writes a document to the database `other` every 5 ms until `isOver`. Returns the latency of each
 * write in milliseconds, and the maximum anonymous memory of the node.
 */
export async function writeUntil(node, isOver) {
  const waits = [];
  let mostMiB = 0;
  while (!isOver()) {
    if (waits.length % WRITES_PER_READING === 0) mostMiB = Math.max(mostMiB, anonymousMiB(node));
    const beganMs = performance.now();
    await ask(node.url, "POST", "/other", { text: TEXT });
    waits.push(performance.now() - beganMs);
    await sleep(WRITE_PAUSE_MS);
  }
  return { waits, mostMiB };
}

/** Performs `work` next to the other client. Returns the duration of the work as `seconds`. */
export async function during(node, work) {
  let isOver = false;
  const writing = writeUntil(node, () => isOver);
  const beganMs = performance.now();
  try {
    const result = await work();
    const seconds = (performance.now() - beganMs) / 1_000;
    isOver = true;
    return { seconds, result, ...(await writing) };
  } finally {
    isOver = true;
    await writing;
  }
}

/** Performs `work` next to the other client, and prints its duration. */
export async function printDuring(node, name, work) {
  const measured = await during(node, work);
  console.log(`${name}: ${measured.seconds.toFixed(1)} s; ${describeOther(measured)}`);
}

/** The figures of the other client as a line of text. */
export function describeOther({ waits, mostMiB }) {
  const [median, p99] = [0.5, 0.99].map((part) => quantile(waits, part).toFixed(1));
  const longest = Math.max(...waits).toFixed(0);
  return `other client: median ${median} ms, p99 ${p99} ms, longest ${longest} ms; anonymous memory at most ${mostMiB.toFixed(0)} MiB`;
}

/**
 * Do memory and handles stay flat while much changes for long? Writers on one node, continuous jobs to a second one.
 *
 *   npm run build && node bench/load/steady.mjs [MINUTES] [WRITERS]
 *
 * Prints a table of memory, sockets and handles of each process, and for each the slope of its memory and handles over the second half
 * of the time: flat is what grows by less than 5 % of its mean in that half. Exit code 1 when something was not flat.
 */
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { ask, endProcess, openProcess, usage } from "./node-process.mjs";

const MINUTES = Number(process.argv[2] ?? 2);
const WRITERS = Number(process.argv[3] ?? 4);
const DATABASE_COUNT = 4;
const BATCH_COUNT = 50;
/** Documents are written again and again, so that the databases do not grow without end. */
const ROUND_BATCHES = 40;
const SAMPLE_COUNT = 40;
const GROWTH_MAX = 0.05;

const directories = [1, 2].map(() => mkdtempSync(join(tmpdir(), "tandem-bench-")));
const nodes = [];
const samples = [[], []];
let writtenCount = 0;
let isOver = false;
try {
  for (const directory of directories) nodes.push(await openProcess(directory));
  const [{ url }, other] = nodes;
  for (let number = 0; number < DATABASE_COUNT; number++) {
    await ask(url, "PUT", `/db-${number}`);
    const target = `${other.url}/db-${number}`;
    const job = { source: `db-${number}`, target, create_target: true, continuous: true };
    await ask(url, "PUT", `/_replicator/copy-${number}`, job);
  }
  const writers = Array.from({ length: WRITERS }, (_, writer) => write(url, writer));
  process.stdout.write("second  node  memory MiB  RSS MiB  sockets  handles\n");
  for (let number = 1; number <= SAMPLE_COUNT; number++) {
    await pause((MINUTES * 60_000) / SAMPLE_COUNT);
    for (const [index, node] of nodes.entries()) sample(index, node, number);
  }
  isOver = true;
  await Promise.all(writers);
  process.stdout.write(`${Math.round(writtenCount / (MINUTES * 60))} changes a second\n`);
  const areFlat = nodes.map((_, index) =>
    ["memoryMib", "handles"].map((key) => isFlat(index, key)),
  );
  process.exitCode = areFlat.flat().every(Boolean) ? 0 : 1;
} finally {
  isOver = true;
  await Promise.all(nodes.map((node) => endProcess(node, "SIGKILL")));
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
}

async function write(url, writer) {
  const revisions = new Map();
  for (let batch = 0; !isOver; batch++) {
    const docs = Array.from({ length: BATCH_COUNT }, (_, number) => {
      const _id = `w${writer}-${(batch % ROUND_BATCHES) * BATCH_COUNT + number}`;
      const _rev = revisions.get(_id);
      return { _id, batch, ...(_rev === undefined ? {} : { _rev }) };
    });
    const database = `db-${writer % DATABASE_COUNT}`;
    const { body } = await ask(url, "POST", `/${database}/_bulk_docs`, { docs });
    for (const { id, rev } of body) if (rev !== undefined) revisions.set(id, rev);
    writtenCount += docs.length;
  }
}

function sample(index, node, number) {
  const { memoryMib, rssMib, handles } = usage(node);
  const sockets = readdirSync(`/proc/${node.child.pid}/fd`).filter((handle) => {
    try {
      return readlinkSync(`/proc/${node.child.pid}/fd/${handle}`).startsWith("socket:");
    } catch {
      // It was closed meanwhile.
      return false;
    }
  }).length;
  const second = (number * MINUTES * 60) / SAMPLE_COUNT;
  samples[index].push({ second, memoryMib, handles });
  const columns = [second.toFixed(0), index + 1, memoryMib, rssMib, sockets, handles];
  const widths = [6, 4, 10, 7, 7, 7];
  process.stdout.write(
    `${columns.map((value, at) => String(value).padStart(widths[at])).join("  ")}\n`,
  );
}

/** By the line of least squares through the second half. */
function isFlat(index, key) {
  const half = samples[index].slice(SAMPLE_COUNT / 2);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const seconds = half.map(({ second }) => second);
  const values = half.map((one) => one[key]);
  const [meanSecond, meanValue] = [mean(seconds), mean(values)];
  const deviation = (list, center) => list.map((value) => value - center);
  const [dx, dy] = [deviation(seconds, meanSecond), deviation(values, meanValue)];
  const slope =
    dx.reduce((sum, x, at) => sum + x * dy[at], 0) / dx.reduce((sum, x) => sum + x * x, 0);
  const growth = (slope * (seconds.at(-1) - seconds[0])) / meanValue;
  const verdict = growth < GROWTH_MAX ? "flat" : "not flat";
  process.stdout.write(
    `node ${index + 1}: ${key} ${meanValue.toFixed(0)} on average, ${(slope * 60).toFixed(2)} a minute: ${verdict}\n`,
  );
  return growth < GROWTH_MAX;
}

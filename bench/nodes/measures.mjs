/** Measurements of processes for the benchmarks in this folder, and their output. Linux only. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { ask } from "../load/node-process.mjs";

export function socketCount({ child }) {
  const folder = `/proc/${child.pid}/fd`;
  return readdirSync(folder).filter((number) => {
    try {
      return readlinkSync(join(folder, number)).startsWith("socket:");
    } catch {
      // The file was closed in the meantime.
      return false;
    }
  }).length;
}

/**
 * Returns the CPU time of the process so far, in seconds. Linux counts in hundredths of a second.
 */
export function processorSec({ child }) {
  const fields = readFileSync(`/proc/${child.pid}/stat`, "utf8")
    .replace(/^.*\) /, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** Does the work. Returns its duration in milliseconds. */
export async function timed(work) {
  const beginMs = performance.now();
  await work();
  return performance.now() - beginMs;
}

/**
 * Returns the quantile `part` of the values, such as 0.5 for the median; `undefined` for an empty
 * list.
 */
export function quantile(values, part) {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
}

/** Formats quantiles, such as "p50 3 ms, p99 9 ms, longest 12 ms". */
export function quantilesText(values) {
  const [p50, p99, longest] = [0.5, 0.99, 1].map((part) => quantile(values, part)?.toFixed(1));
  return `p50 ${p50} ms, p99 ${p99} ms, longest ${longest} ms`;
}

export function seconds(ms) {
  return `${(ms / 1000).toFixed(1)} s`;
}

export function print(line) {
  process.stdout.write(`${line}\n`);
}

/**
 * Resolves when the node has this many parked jobs. `filter`: additional parameters of the list,
 * such as "&rule=a".
 */
export async function onceParked(node, count, filter = "") {
  for (;;) {
    const { body } = await ask(node.url, "GET", `/_tandem/jobs?parked=true&limit=1${filter}`);
    if (body.total_rows >= count) return;
    await pause(200);
  }
}

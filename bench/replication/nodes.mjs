/**
 * Nodes of the built program as processes, and their resource usage. Linux only: it reads /proc.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../../dist/program/main.js", import.meta.url));
/** Clock ticks per second, the unit of times in /proc on every Linux that Node.js supports. */
const TICKS_PER_SECOND = 100;
const SAMPLE_MS = 100;
/** Matches V8's trace: "… Scavenge 20.1 (25.2) -> 18.0 (26.0) MB, …", used before and after. */
const COLLECTION = /(?:Scavenge|Mark-Compact)[^\d]*([\d.]+) \([\d.]+\) -> ([\d.]+) /;
export const MEBIBYTE = 1024 * 1024;

/**
 * Starts nodes with these names, runs `body` with them, and ends them. With `isTraced`, each node
 * has `garbageMib`, the memory that V8 has collected in it so far, without buffers.
 */
export async function withNodes(names, body, { isTraced = false } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "tandem-bench-"));
  const nodes = [];
  try {
    for (const name of names) nodes.push(await openNode(join(folder, name), isTraced));
    await body(...nodes);
  } finally {
    for (const { child } of nodes) {
      child.kill("SIGTERM");
      await once(child, "exit");
    }
    rmSync(folder, { recursive: true });
  }
}

async function openNode(directory, isTraced) {
  const flags = isTraced ? ["--trace-gc"] : [];
  const program = [...flags, MAIN, "serve", "--port", "0", "--data-dir", directory];
  const child = spawn(process.execPath, program, {
    env: { ...process.env, TANDEM_LOG_LEVEL: "warn" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const [, url] = /^listening on (.*)$/.exec(line) ?? [];
    if (url === undefined) continue;
    const garbageMib = countGarbage(child.stdout);
    return { url, child, pid: child.pid, garbageMib };
  }
  throw new Error("The node did not start");
}

/** Sums the collected memory from V8's trace. Returns a function that returns the sum. */
function countGarbage(output) {
  let sumMib = 0;
  createInterface({ input: output }).on("line", (line) => {
    const [, before, after] = COLLECTION.exec(line) ?? [];
    if (before !== undefined) sumMib += Number(before) - Number(after);
  });
  return () => sumMib;
}

/** Sends JSON text and returns parsed JSON. The URL can contain credentials. */
export async function call({ url }, method, path, body) {
  const { username, password, origin } = new URL(url);
  const response = await fetch(origin + path, {
    method,
    headers: {
      "content-type": "application/json",
      ...(username && { authorization: `Basic ${btoa(`${username}:${password}`)}` }),
    },
    ...(body && { body }),
  });
  const answer = /** @type {any} */ (await response.json());
  if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
  return answer;
}

/** Anonymous memory of a process in bytes. Excludes mapped files, which are page cache. */
export function memoryBytes(pid) {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^RssAnon:\s+(\d+) kB/m.exec(status)[1]) * 1024;
}

export function cpuSeconds(pid) {
  // The name of the process, in parentheses, can contain spaces.
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

/**
 * Runs `body`. Returns the elapsed seconds, and the CPU seconds and maximum memory of these
 * processes together.
 */
export async function measureUse(pids, body) {
  const total = (figure) => pids.reduce((sum, pid) => sum + figure(pid), 0);
  const cpuBefore = total(cpuSeconds);
  let peakBytes = total(memoryBytes);
  const sampling = setInterval(() => {
    peakBytes = Math.max(peakBytes, total(memoryBytes));
  }, SAMPLE_MS);
  const startedAtMs = performance.now();
  try {
    await body();
  } finally {
    clearInterval(sampling);
  }
  const seconds = (performance.now() - startedAtMs) / 1000;
  return { seconds, cpuSeconds: total(cpuSeconds) - cpuBefore, peakBytes };
}

export function median(values) {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)];
}

/** Processes of the built program for the benchmarks in this folder, and requests to them. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const MAIN = "/work/wd/dist/cli/main.js";
const PROXY = fileURLToPath(new URL("../nodes/forbidding-proxy.mjs", import.meta.url));
const METER = fileURLToPath(new URL("meter.mjs", import.meta.url));
/** Servers close connections that were idle for 5 s. */
const agent = new Agent({ keepAlive: true, timeout: 3000 });

/**
 * Starts a process that serves the store in `directory`. Resolves when the process listens, or
 * immediately for a node without an API. A metered node can be queried by `measure`. The process
 * gets the environment variables of this process and those in `environment`.
 */
export async function openProcess(
  directory,
  {
    port = 0,
    type = "api_frontend,replication",
    flags: others = [],
    isMetered = false,
    environment = {},
  } = {},
) {
  const flags = ["--port", String(port), "--data-dir", join(directory, "data"), ...others];
  const meter = isMetered ? ["--import", METER] : [];
  const program = [...meter, MAIN, "serve", ...flags, "--node-type", type];
  const metered = isMetered ? { TANDEM_METER: "1" } : {};
  const child = spawn(process.execPath, program, {
    env: { ...process.env, TANDEM_LOG_LEVEL: "error", ...metered, ...environment },
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (!type.includes("api_frontend")) return { child, url: undefined };
  return { child, url: await onceListening(child) };
}

/**
 * Starts a proxy in front of the server at `url`. It forbids the named resources
 * (`forbidding-proxy.mjs`).
 */
export async function openForbidding(url, names) {
  const child = spawn(process.execPath, [PROXY, url, names], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  return { child, url: await onceListening(child) };
}

/** Resolves with the URL that the process prints. */
async function onceListening(child) {
  for await (const line of createInterface({ input: child.stdout })) {
    const match = /^listening on (http:\/\/.*)$/.exec(line);
    if (match !== null) {
      child.stdout.resume();
      return match[1];
    }
  }
  throw new Error(`A node exited with code ${child.exitCode}`);
}

/**
 * Queries `meter.mjs`. With `isCollected`, collects garbage first, and also returns the live
 * memory.
 */
export async function measure({ child }, isCollected = false) {
  const channel = child.stdio[3];
  channel.write(isCollected ? "g" : "-");
  let text = "";
  while (!text.endsWith("\n")) text += (await once(channel, "data"))[0];
  return JSON.parse(text);
}

export async function endProcess({ child }, signal = "SIGTERM") {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill(signal);
  await once(child, "exit");
}

/** Sends and receives JSON. Rejects if there is no complete response. */
export function ask(url, method, path, body) {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const asked = request(url + path, { method, agent, headers }, async (answer) => {
      try {
        const chunks = [];
        for await (const chunk of answer) chunks.push(chunk);
        const text = Buffer.concat(chunks).toString();
        resolve({
          status: answer.statusCode,
          retryAfter: answer.headers["retry-after"],
          body: text === "" ? undefined : JSON.parse(text),
        });
      } catch (error) {
        reject(error);
      }
    });
    asked.on("error", reject);
    asked.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/**
 * Returns the resource usage of a process. `memoryMib` excludes mapped files, since they are only
 * page cache. Linux only.
 */
export function usage({ child }) {
  const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
  const mib = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1]) / 1024;
  return {
    memoryMib: Math.round(mib("RssAnon")),
    rssMib: Math.round(mib("VmRSS")),
    handles: readdirSync(`/proc/${child.pid}/fd`).length,
  };
}

/** Returns a random number generator for a seed (mulberry32). Numbers are from 0 to 1. */
export function drawsOf(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns a map from each id of a database to the leaves of the document, joined as a string. */
export async function leavesOf(url, database) {
  const { body } = await ask(url, "GET", `/${database}/_changes?style=all_docs`);
  return new Map(
    body.results.map(({ id, changes }) => [
      id,
      changes
        .map(({ rev }) => rev)
        .sort()
        .join(),
    ]),
  );
}

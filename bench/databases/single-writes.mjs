/**
 * Latency of sequential writes to the store in this build and in another one, measured by
 * alternating processes: `npm run build && node bench/databases/single-writes.mjs FOLDER [ROUNDS]`.
 * FOLDER contains another checkout, built. Prints the medians, and the ratio of this build to the
 * other one (quartiles over the rounds), for a PUT of 500 bytes and for `POST /_replicate` of a
 * database that has been replicated before. This request adds a job, runs it and completes it.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const [folder, roundCount = "9"] = process.argv.slice(2);
if (folder === undefined) throw new Error("Usage: single-writes.mjs FOLDER [ROUNDS]");
const ROUND_MS = 2_000;
const here = fileURLToPath(new URL("../..", import.meta.url));
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
const text = "x".repeat(480);

const builds = [await openBuild(here), await openBuild(folder)];
const KINDS = {
  "PUT document": ({ url, number }) => ask(url, "PUT", `/films/${number}`, { text }),
  "POST _replicate": ({ url }) =>
    ask(url, "POST", "/_replicate", { source: `${url}/one`, target: `${url}/other` }),
};
for (const [name, write] of Object.entries(KINDS)) {
  const rounds = [];
  for (let round = 0; round <= Number(roundCount); round++) {
    const order = round % 2 === 0 ? [0, 1] : [1, 0];
    const ms = [];
    for (const index of order) ms[index] = await latencyMs(builds[index], write);
    // The first round is a warm-up.
    if (round > 0) rounds.push(ms);
  }
  const [mine, others] = [0, 1].map((index) => quantile(rounds, 0.5, (ms) => ms[index]));
  const ratio = (part) => quantile(rounds, part, ([ours, other]) => ours / other).toFixed(2);
  console.log(
    `${name.padEnd(16)} ${mine.toFixed(2)} ms, other build ${others.toFixed(2)} ms, ratio ${ratio(0.5)} (${ratio(0.25)} to ${ratio(0.75)})`,
  );
}
for (const { child, directory } of builds) {
  child.kill();
  await once(child, "exit");
  rmSync(directory, { recursive: true });
}
agent.destroy();

async function openBuild(root) {
  const directory = mkdtempSync(join(tmpdir(), "tandem-bench-"));
  const main = join(root, "dist/program/main.js");
  const flags = ["--port", "0", "--data-dir", join(directory, "data")];
  const child = spawn(process.execPath, [main, "serve", ...flags], {
    env: { ...process.env, TANDEM_LOG_LEVEL: "error" },
    stdio: ["ignore", "pipe", "ignore"],
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const url = /^listening on (http:\/\/\S+?)\/?$/.exec(line)?.[1];
    if (url === undefined) continue;
    child.stdout.resume();
    for (const database of ["films", "one", "other"]) await ask(url, "PUT", `/${database}`);
    await ask(url, "PUT", "/one/a", { text });
    return { child, directory, url, number: 0 };
  }
  throw new Error(`The build in ${root} does not start`);
}

async function latencyMs(build, write) {
  const startMs = performance.now();
  const first = build.number;
  while (performance.now() < startMs + ROUND_MS) {
    await write(build);
    build.number++;
  }
  return (performance.now() - startMs) / (build.number - first);
}

function ask(url, method, path, body) {
  return new Promise((fulfil, fail) => {
    const headers = { "content-type": "application/json" };
    const sent = request(url + path, { method, agent, headers }, (answer) => {
      answer.resume();
      answer.on("end", () => {
        if (answer.statusCode < 300) fulfil();
        else fail(new Error(`${method} ${path}: ${answer.statusCode}`));
      });
    });
    sent.on("error", fail);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

function quantile(rounds, part, pick) {
  const sorted = rounds.map(pick).sort((left, right) => left - right);
  return sorted[Math.floor(part * (sorted.length - 1))];
}

/**
 * Duration of commands for many jobs, and the latency of other clients meanwhile.
 *
 *   npm run build && node bench/large/commands.mjs [JOBS]
 *
 * A node on LMDB, without replications of its own, has 100,000 jobs with documents. Each command
 * applies to all of them; another client writes a document every 5 ms. Prints for each command its
 * duration, its jobs per second, their ratio to the target rate (100,000 jobs in 30 s), and the
 * median, 99th percentile and longest wait of the other client.
 *
 * Measured 2026-11-30 with 100,000 jobs, two cores: pause 24.2 s, undo 23.0 s, retry 23.1 s, cancel
 * 43.8 s; 99th percentile of the other client 63, 51, 37 and 61 ms.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ask, endProcess, openProcess } from "../load/node-process.mjs";
import { CONFIGURATION, prepareStore } from "../status/prepared-store.mjs";
import { describeOther, during } from "./other-client.mjs";

const JOBS = Number(process.argv[2] ?? 100_000);
const JOBS_PER_SECOND_MIN = 100_000 / 30;

async function measure(node, name, path) {
  const { url } = node;
  let answeredMs = 0;
  const measured = await during(node, async () => {
    const beganMs = performance.now();
    const { body } = await ask(url, "POST", path, {});
    answeredMs = performance.now() - beganMs;
    let command = { state: body.id === undefined ? "completed" : "running", ...body };
    while (command.state === "running") {
      await sleep(200);
      command = (await ask(url, "GET", `/_tandem/commands/${body.id}`)).body;
    }
    return command;
  });
  const { id, matched } = measured.result;
  const rate = matched / measured.seconds;
  console.log(
    `${name}: ${measured.seconds.toFixed(1)} s, ${rate.toFixed(0)} jobs/s (x ${(rate / JOBS_PER_SECOND_MIN).toFixed(2)}), answered after ${answeredMs.toFixed(0)} ms; ${describeOther(measured)}`,
  );
  return id;
}

const directory = mkdtempSync(join(tmpdir(), "tandem-bench-"));
const config = join(directory, "local.ini");
writeFileSync(config, CONFIGURATION);
let node;
try {
  await prepareStore(join(directory, "data"), JOBS);
  node = await openProcess(directory, {
    type: "api_frontend",
    flags: ["--config", config],
  });
  const { url } = node;
  await ask(url, "PUT", "/other");
  const paused = await measure(node, "pause", "/_tandem/jobs/_pause?all=true");
  if (paused !== undefined) await measure(node, "undo", `/_tandem/commands/${paused}/_undo`);
  await measure(node, "retry", "/_tandem/jobs/_retry?all=true");
  await measure(node, "cancel", "/_tandem/jobs/_cancel?all=true");
} finally {
  if (node !== undefined) await endProcess(node);
  rmSync(directory, { recursive: true });
}

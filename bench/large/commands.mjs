/**
 * Duration of commands for many jobs, and the latency of other clients meanwhile.
 *
 *   npm run build && node bench/large/commands.mjs [JOBS]
 *
 * A node on LMDB, without replications of its own, has 100,000 jobs. Each has a document, a sealed
 * password, and one failed document. Each command applies to all jobs; another client writes a
 * document every 5 ms. Prints for each command its duration, its jobs per second, their ratio to
 * the target rate (100,000 jobs in 30 s), and the median, 99th percentile and longest wait of the
 * other client.
 *
 * Measured 2026-12-01 with 100,000 jobs, two cores: pause 19.2 s, undo 17.8 s, retry 15.8 s, retry
 * of failures 18.6 s, reset 15.7 s, replacement of credentials 27.7 s, cancel 29.6 s; median of the
 * other client 5 to 8 ms, 99th percentile 15 to 36 ms, longest wait 58 ms, and 776 ms once during
 * the cancel; at most 246 MiB of memory. In a slower hour of the same machine, replacement and
 * cancel took 37.5 s and missed their target; the others took 22 to 30 s.
 */
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { FailureLists, REPLICATION_JOB_TYPE } from "../../dist/replicator/index.js";
import { baseIdsOf } from "../../dist/replicator/jobs/job-data.js";
import { decodeProgress } from "../../dist/replicator/jobs/job-data-record.js";
import { SUBSPACES } from "../../dist/server/layout.js";
import { KEY_BYTES, KeyRing } from "../../dist/server/secrets/key-ring.js";
import { openStore, runtime } from "../kv/bench-store.mjs";
import { ask, endProcess, openProcess } from "../load/node-process.mjs";
import { openParts } from "../status/prepared-store.mjs";
import { describeOther, during } from "./other-client.mjs";

const JOBS = Number(process.argv[2] ?? 100_000);
const JOBS_PER_SECOND_MIN = 100_000 / 30;
const DOCUMENTS_PER_REQUEST = 1_000;
const JOBS_PER_TRANSACTION = 100;
const HOST = "https://source.invalid";
const KEY = randomBytes(KEY_BYTES);
const environment = { TANDEM_SECRETS_KEY: KEY.toString("base64") };
const FAILURE = /** @type {const} */ ({
  id: "doc",
  revision: "1-a",
  phase: "write",
  status: 403,
  error: "forbidden",
});

async function storeDocuments(url) {
  await ask(url, "PUT", "/_replicator");
  for (let first = 0; first < JOBS; first += DOCUMENTS_PER_REQUEST) {
    const count = Math.min(DOCUMENTS_PER_REQUEST, JOBS - first);
    const docs = Array.from({ length: count }, (_, index) => ({
      _id: `job-${first + index}`,
      source: { url: `${HOST}/db-${first + index}`, auth: login("old") },
      target: `https://target.invalid/db-${first + index}`,
      continuous: true,
    }));
    await ask(url, "POST", "/_replicator/_bulk_docs", { docs });
  }
}

function login(password) {
  return { basic: { username: "jan", password } };
}

/** Adds a failed document to each job's list, as a run would. */
async function addFailures(directory) {
  const kv = await openStore(directory);
  const seal = new KeyRing({ random: runtime.random, readKeys: () => [KEY] });
  const { jobs, index } = openParts(kv, { seal });
  const lists = new FailureLists(SUBSPACES.replicator, runtime.digests, index);
  let afterId;
  do {
    afterId = await kv.transact(async (tx) => {
      const wanted = { ...(afterId === undefined ? {} : { afterId }), limit: JOBS_PER_TRANSACTION };
      const page = await jobs.list(tx, REPLICATION_JOB_TYPE, wanted);
      for (const job of page.entries) {
        const failed = [{ ...FAILURE, reason: "not allowed" }];
        for (const baseId of baseIdsOf(decodeProgress(job))) {
          await lists.change(tx, baseId, { failed, arrived: [], nowMs: Date.now() });
        }
      }
      return page.stoppedBy === "exhausted" ? undefined : page.entries.at(-1)?.id;
    });
  } while (afterId !== undefined);
  await index.foldAll(kv);
  await kv.close();
}

async function measure(node, name, path, body = {}) {
  const { url } = node;
  let answeredMs = 0;
  const measured = await during(node, async () => {
    const beganMs = performance.now();
    const answer = await ask(url, "POST", path, body);
    answeredMs = performance.now() - beganMs;
    let command = { state: answer.body.id === undefined ? "completed" : "running", ...answer.body };
    while (command.state === "running") {
      await sleep(200);
      command = (await ask(url, "GET", `/_tandem/commands/${answer.body.id}`)).body;
    }
    return command;
  });
  const { id, matched, changed } = measured.result;
  if (changed !== JOBS) throw new Error(`${name}: ${JSON.stringify(measured.result)}`);
  const rate = matched / measured.seconds;
  console.log(
    `${name}: ${measured.seconds.toFixed(1)} s, ${rate.toFixed(0)} jobs/s (x ${(rate / JOBS_PER_SECOND_MIN).toFixed(2)}), answered after ${answeredMs.toFixed(0)} ms; ${describeOther(measured)}`,
  );
  return id;
}

const directory = mkdtempSync(join(tmpdir(), "tandem-bench-"));
let node;
try {
  node = await openProcess(directory, { type: "api_frontend", environment });
  await storeDocuments(node.url);
  await endProcess(node);
  await addFailures(join(directory, "data"));
  node = await openProcess(directory, { type: "api_frontend", environment });
  await ask(node.url, "PUT", "/other");
  const paused = await measure(node, "pause", "/_tandem/jobs/_pause?all=true");
  if (paused !== undefined) await measure(node, "undo", `/_tandem/commands/${paused}/_undo`);
  await measure(node, "retry", "/_tandem/jobs/_retry?all=true");
  await measure(node, "retry failures", "/_tandem/jobs/_retry_failures?all=true");
  await measure(node, "reset", "/_tandem/jobs/_reset?all=true");
  await measure(node, "replace credentials", "/_tandem/credentials/_replace", {
    host: HOST,
    username: "jan",
    auth: login("new"),
  });
  await measure(node, "cancel", "/_tandem/jobs/_cancel?all=true");
} finally {
  if (node !== undefined) await endProcess(node);
  rmSync(directory, { recursive: true });
}

/**
 * Operations on a large database: duration, memory, and the latency of other clients meanwhile.
 *
 *   npm run build && node bench/large/operations.mjs [DOCUMENTS]
 *
 * A node on LMDB has a database of 1,000,000 documents of 450 bytes with random ids. Prints one
 * line each for: a restart of the node; 200 pages of `_all_docs` and of `_changes` from random
 * positions; a one-shot copy; changes copied by a continuous job; a `verify` of the copy; a backup;
 * the build of an index; and `store compact`. Meanwhile, another client of the node writes a
 * document every 5 ms, except during the restart and `store compact`, which need the store alone.
 * Aims: restart below 2 s, pages below 20 ms, waits of the other client below 100 ms, at most 300
 * MiB of anonymous memory.
 *
 * Measured 2026-11-30 with 10,000,000 documents, two cores: load 740 s (by `removal.mjs`, which
 * also measured the index build), restart 0.6 s; pages p50 2 to 5 ms, p99 16 ms (`_all_docs`) and
 * 14 ms (`_changes`); one-shot copy 840 s, continuous copy 847 s, verify 465 s, backup of all
 * databases 265 s. Memory was at most 287 MiB. The other client's p99 was at most 72 ms; its
 * longest waits, 0.25 to 1 s, exceed the aim. Since then, tasks that yield take turns, and a backup
 * is synced as it grows. With 1,000,000 documents, measured 2026-12-01: load 49 s, one-shot copy 50
 * s, continuous copy 57 s, verify 43 s, backup 20 s, index build 39 s; longest waits 108, 123, 247,
 * 68, 29 and 52 ms. Some of them are stalls of the disk, during which all processes wait for their
 * syncs.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ask, drawsOf, endProcess, openProcess } from "../load/node-process.mjs";
import { quantile, timed } from "../nodes/measures.mjs";
import { load } from "./load.mjs";
import { describeOther, during, printDuring } from "./other-client.mjs";

const TANDEM = fileURLToPath(new URL("../../bin/tandem.mjs", import.meta.url));
const DOCUMENTS = Number(process.argv[2] ?? 1_000_000);
const PAGES = 200;
const PAGE_ROWS = 100;
/** Number of documents written sequentially to the source of the continuous copy. */
const ARRIVALS = 100;

const draw = drawsOf(1);
/** Returns the first digits of a random id. */
const position = () =>
  Math.floor(draw() * 2 ** 32)
    .toString(16)
    .padStart(8, "0");

const directory = mkdtempSync(join(tmpdir(), "tandem-bench-"));
const dataFolder = join(directory, "data");
let node = await openProcess(directory);

async function tandem(...parts) {
  const child = spawn(process.execPath, [TANDEM, ...parts], { stdio: "ignore" });
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`tandem ${parts[0]} ended with exit code ${code}`);
}

async function succeed(method, path, body) {
  const answer = await ask(node.url, method, path, body);
  if (answer.status >= 300) {
    throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  }
  return answer.body;
}

/** Measures `work` next to the other client, and prints its duration. */
function measure(name, work) {
  return printDuring(node, name, work);
}

/** Measures several repetitions next to the other client, and prints their latency. */
async function measureEach(name, count, work) {
  const latencies = [];
  const measured = await during(node, async () => {
    for (let at = 0; at < count; at++) latencies.push(await timed(() => work(at)));
  });
  const [median, p99] = [0.5, 0.99].map((part) => quantile(latencies, part).toFixed(1));
  console.log(`${name}: median ${median} ms, p99 ${p99} ms; ${describeOther(measured)}`);
}

async function reopen() {
  await endProcess(node);
  const seconds =
    (await timed(async () => {
      node = await openProcess(directory);
      await succeed("GET", "/source");
    })) / 1_000;
  console.log(`restart: ${seconds.toFixed(2)} s until a response`);
}

/** Returns the update sequences of the first documents from random ids. */
async function randomSequences(count) {
  const ids = new Set();
  while (ids.size < count) {
    const { rows } = await succeed("GET", `/source/_all_docs?limit=1&startkey="${position()}"`);
    for (const { id } of rows) ids.add(id);
  }
  const asked = { doc_ids: [...ids] };
  const { results } = await succeed("POST", "/source/_changes?filter=_doc_ids", asked);
  return results.map(({ seq }) => seq);
}

async function arrival(at) {
  const id = `arrival-${at}`;
  await succeed("PUT", `/source/${id}`, { at });
  const feed = `/followed/_changes?filter=_doc_ids&doc_ids=${JSON.stringify([id])}&feed=longpoll&heartbeat=10000`;
  await succeed("GET", encodeURI(feed));
}

function fileMiB() {
  return (statSync(join(dataFolder, "data.mdb")).size / 2 ** 20).toFixed(0);
}

try {
  await succeed("PUT", "/other");
  await measure(`load of ${DOCUMENTS} documents`, () => load(node, "source", DOCUMENTS));
  const sequences = await randomSequences(PAGES);
  await reopen();
  const page = `limit=${PAGE_ROWS}`;
  await measureEach("_all_docs", PAGES, () =>
    succeed("GET", `/source/_all_docs?${page}&startkey="${position()}"`),
  );
  await measureEach("_changes", PAGES, (at) =>
    succeed("GET", `/source/_changes?${page}&since=${sequences[at]}`),
  );
  await measure("one-shot copy", () =>
    succeed("POST", "/_replicate", { source: "source", target: "copy", create_target: true }),
  );
  const following = { source: "source", target: "followed", create_target: true };
  await succeed("POST", "/_replicate", { ...following, continuous: true });
  await measure("continuous copy, until caught up", () => arrival("first"));
  await measureEach("a change arrives", ARRIVALS, arrival);
  await measure("verify", () => tandem("verify", `${node.url}/source`, `${node.url}/followed`));
  await measure("backup", () =>
    tandem("backup", "--data-dir", dataFolder, join(directory, "backup")),
  );
  // Otherwise the job would copy the index, and the build of the second one would run beside it.
  await succeed("POST", "/_replicate", { ...following, continuous: true, cancel: true });
  const index = { index: { fields: ["n"] }, ddoc: "n", name: "n" };
  await measure("index build", async () => {
    await succeed("POST", "/source/_index", index);
    await succeed("POST", "/source/_find", { selector: { n: 1 }, use_index: "n" });
  });
  await endProcess(node);
  const before = fileMiB();
  const seconds = (await timed(() => tandem("store", "compact", "--data-dir", dataFolder))) / 1_000;
  console.log(`store compact: ${seconds.toFixed(1)} s, ${before} to ${fileMiB()} MiB`);
} finally {
  await endProcess(node);
  rmSync(directory, { recursive: true });
}

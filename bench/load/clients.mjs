/**
 * A node under many concurrent clients: 1,000 clients read and write, 4,000 live feeds wait, and
 * 200 jobs copy databases of the node and of a second one.
 *
 *   npm run build && node bench/load/clients.mjs [MINUTES] [CLIENTS] [FEEDS] [JOBS]
 *
 * Prints requests per second, p50 and p99 of reads and writes, the responses by status, and memory
 * and handles of both nodes. At the end every acknowledged write is read back. The exit code is 1
 * if one was lost, or a response was 5xx other than 503.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { ask, drawsOf, endProcess, leavesOf, openProcess, usage } from "./node-process.mjs";

const MINUTES = Number(process.argv[2] ?? 1);
const CLIENTS = Number(process.argv[3] ?? 1_000);
const FEEDS = Number(process.argv[4] ?? 4_000);
const JOBS = Number(process.argv[5] ?? 200);
const DATABASE_COUNT = 20;
const WRITE_RATIO = 0.5;
/** Number of feeds that are opened concurrently. */
const OPENED_AT_ONCE = 200;

const draw = drawsOf(1);
const directories = [1, 2].map(() => mkdtempSync(join(tmpdir(), "tandem-bench-")));
const nodes = [];
const feeds = [];
const durationsMs = { GET: [], PUT: [] };
const statuses = new Map();
/** Acknowledged revision of each `database/id`. */
const acknowledged = new Map();
const counts = { broken: 0, feedsEnded: 0 };
let isOver = false;
try {
  for (const directory of directories) nodes.push(await openProcess(directory));
  const [{ url }, other] = nodes;
  for (let number = 0; number < DATABASE_COUNT; number++) await ask(url, "PUT", `/db-${number}`);
  await ask(url, "PUT", "/idle");
  await addJobs(url, other.url);
  await openFeeds(url);
  print("before the clients");
  const endMs = performance.now() + MINUTES * 60_000;
  const clients = Array.from({ length: CLIENTS }, (_, client) => run(url, client));
  while (performance.now() < endMs) {
    await pause(Math.min(15_000, endMs - performance.now()));
    print("under load");
  }
  isOver = true;
  await Promise.all(clients);
  const lost = await lostWrites(url);
  report(lost);
  const bad = [...statuses.keys()].filter((status) => status >= 500 && status !== 503);
  process.exitCode = lost.length > 0 || bad.length > 0 ? 1 : 0;
} finally {
  for (const feed of feeds) feed.destroy();
  await Promise.all(nodes.map((node) => endProcess(node, "SIGKILL")));
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
}
process.exit();

async function addJobs(url, otherUrl) {
  const docs = Array.from({ length: JOBS }, (_, number) => {
    const source = `db-${number % DATABASE_COUNT}`;
    const name = `copy-${number}`;
    const target = number % 2 === 0 ? name : `${otherUrl}/${name}`;
    return { _id: name, source, target, create_target: true, continuous: true };
  });
  await ask(url, "POST", "/_replicator/_bulk_docs", { docs });
}

async function openFeeds(url) {
  while (feeds.length < FEEDS) {
    const count = Math.min(OPENED_AT_ONCE, FEEDS - feeds.length);
    await Promise.all(Array.from({ length: count }, () => openFeed(url)));
  }
}

function openFeed(url) {
  const kind = feeds.length % 2 === 0 ? "continuous" : "longpoll";
  return new Promise((resolve, reject) => {
    const path = `/idle/_changes?feed=${kind}&since=now&heartbeat=30000`;
    const feed = request(url + path, { agent: false }, (answer) => {
      answer.resume();
      answer.on("close", () => counts.feedsEnded++);
      answer.on("error", () => {});
      resolve();
    });
    feeds.push(feed);
    feed.on("error", reject);
    feed.end();
  });
}

/** Runs one client, which sends its requests sequentially. */
async function run(url, client) {
  for (let number = 0; !isOver; number++) {
    const isWrite = number === 0 || draw() < WRITE_RATIO;
    // Every read requests the client's first document.
    const place = isWrite && number > 0 ? Math.floor(draw() * DATABASE_COUNT) : client;
    const database = `db-${place % DATABASE_COUNT}`;
    const id = `c${client}-${number}`;
    const method = isWrite ? "PUT" : "GET";
    const path = isWrite ? `/${database}/${id}` : `/${database}/c${client}-0`;
    const startMs = performance.now();
    try {
      const answer = await ask(url, method, path, isWrite ? { number, client } : undefined);
      durationsMs[method].push(performance.now() - startMs);
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
      if (answer.status === 201) acknowledged.set(`${database}/${id}`, answer.body.rev);
      if (answer.status === 503) await pause(Number(answer.retryAfter ?? 1) * 1000);
    } catch {
      counts.broken++;
    }
  }
}

async function lostWrites(url) {
  const lost = [];
  const leaves = new Map();
  for (let number = 0; number < DATABASE_COUNT; number++) {
    leaves.set(`db-${number}`, await leavesOf(url, `db-${number}`));
  }
  for (const [name, rev] of acknowledged) {
    const [database, id] = name.split("/");
    if (leaves.get(database).get(id) !== rev) lost.push(name);
  }
  return lost;
}

function print(when) {
  for (const [index, node] of nodes.entries()) {
    const { memoryMib, rssMib, handles } = usage(node);
    process.stdout.write(
      `${when}: node ${index + 1}: ${memoryMib} MiB anonymous, ${rssMib} MiB RSS, ${handles} handles\n`,
    );
  }
}

function report(lost) {
  for (const [method, all] of Object.entries(durationsMs)) {
    all.sort((left, right) => left - right);
    const at = (part) => (all[Math.floor(all.length * part)] ?? 0).toFixed(0);
    const rate = (all.length / (MINUTES * 60)).toFixed(0);
    process.stdout.write(`${method}: ${rate} a second, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms\n`);
  }
  const answers = [...statuses].map(([status, count]) => `${count} with ${status}`).join(", ");
  process.stdout.write(
    `${answers}; ${counts.broken} connections broke, ${counts.feedsEnded} of ${FEEDS} feeds ended\n` +
      `${acknowledged.size} acknowledged writes, ${lost.length} of them lost\n`,
  );
}

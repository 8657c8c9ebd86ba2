/**
 * How long does one large request keep a node from serving others, and how much memory does it take?
 *
 *   npm run build && node bench/load/large-requests.mjs [NAME]
 *
 * Sends the requests of the table below, whose names begin with NAME, one after the other, each to a node of its own that has nothing
 * else to do. Prints of each the answer, the longest turn of the event loop in processor time of its thread, and the peak of the node's
 * memory above what it had before, in parts of the body's size. Exit code 1 when a turn took more than 50 ms, or the memory grew by more than
 * four times the body and `SMALL_MIB`. Linux only.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { ask, endProcess, measure, openProcess } from "./node-process.mjs";

const NAME = process.argv[2] ?? "";
const TURN_MS_MAX = 50;
const GROWTH_MAX = 4;
/** What a node takes for any request: its young generation grows to twice 16 MiB. */
const SMALL_MIB = 32;
const MIB = 2 ** 20;
const DOCUMENT_BYTES_MAX = 8 * MIB;

const list = (count, text) => Array.from({ length: count }, (_, at) => text(at)).join(",");
const numbers = (byteCount) => `{"a":[${list(byteCount / 2, () => "1")}]}`;
const text = (byteCount) => `{"a":"${"x".repeat(byteCount - 8)}"}`;
const objects = (byteCount) =>
  `{"a":[${list(byteCount / 20, (at) => `{"b":${100_000 + at},"c":[]}`)}]}`;
const members = (byteCount) => `{${list(byteCount / 12, (at) => `"${1_000_000 + at}":1`)}}`;

const REQUESTS = [
  ["document 7.9 MB, numbers", "PUT", "/films/a", () => numbers(7_900_000)],
  ["document 7.9 MB, one text", "PUT", "/films/a", () => text(7_900_000)],
  ["document 7.9 MB, objects", "PUT", "/films/a", () => objects(7_900_000)],
  ["document 7.9 MB, members", "PUT", "/films/a", () => members(7_900_000)],
  ["document of the largest size", "PUT", "/films/a", () => text(DOCUMENT_BYTES_MAX)],
  ["document 26 MB", "PUT", "/films/a", () => numbers(26_000_000)],
  ["document 60 MB", "PUT", "/films/a", () => objects(60_000_000)],
  ["_design 7.9 MB", "PUT", "/films/_design/a", () => objects(7_900_000)],
  ["_local 7.9 MB", "PUT", "/films/_local/a", () => objects(7_900_000)],
  [
    "_security 7.9 MB",
    "PUT",
    "/films/_security",
    () => `{"admins":{"names":[${list(99_000, () => `"${"x".repeat(70)}"`)}]}}`,
  ],
  [
    "_bulk_docs 60 MB, small",
    "POST",
    "/films/_bulk_docs",
    () => `{"docs":[${list(99_000, (at) => `{"_id":"${at}","a":"${"x".repeat(580)}"}`)}]}`,
  ],
  [
    "_bulk_docs 60 MB, large",
    "POST",
    "/films/_bulk_docs",
    () => `{"docs":[${list(8, () => objects(7_000_000))}]}`,
  ],
  [
    "_revs_diff 1,000,000",
    "POST",
    "/films/_revs_diff",
    () => `{${list(1_000_000, (at) => `"${at}":["1-a"]`)}}`,
  ],
  [
    "_revs_diff 49,000",
    "POST",
    "/films/_revs_diff",
    () => `{${list(33_000, (at) => `"${at}":["1-a"]`)}}`,
  ],
  [
    "_revs_diff of one id",
    "POST",
    "/films/_revs_diff",
    () => `{"a":[${list(99_000, (at) => `"1-${at}"`)}]}`,
  ],
  [
    "_all_docs 4,000,000",
    "POST",
    "/films/_all_docs",
    () => `{"keys":[${list(4_000_000, (at) => `"${at}"`)}]}`,
  ],
  [
    "_all_docs 99,000",
    "POST",
    "/films/_all_docs",
    () => `{"keys":[${list(99_000, (at) => `"${at}"`)}]}`,
  ],
  [
    "_find $in 4,000,000",
    "POST",
    "/films/_find",
    () => `{"selector":{"a":{"$in":[${list(4_000_000, (at) => at)}]}}}`,
  ],
  [
    "_find $in 10,000",
    "POST",
    "/films/_find",
    () => `{"selector":{"a":{"$in":[${list(10_000, (at) => at)}]}}}`,
  ],
  [
    "_changes doc_ids 99,000",
    "POST",
    "/films/_changes?filter=_doc_ids",
    () => `{"doc_ids":[${list(99_000, (at) => `"${at}"`)}]}`,
  ],
  [
    "_bulk_get 49,000",
    "POST",
    "/films/_bulk_get",
    () => `{"docs":[${list(49_000, (at) => `{"id":"${at}"}`)}]}`,
  ],
  [
    "replication document doc_ids 19,900",
    "PUT",
    "/_replicator/a",
    () =>
      `{"source":"http://127.0.0.1:1/a","target":"films","doc_ids":[${list(19_900, (at) => `"document-${at}"`)}]}`,
  ],
  [
    "replication document doc_ids 700,000",
    "PUT",
    "/_replicator/a",
    () =>
      `{"source":"http://127.0.0.1:1/a","target":"films","doc_ids":[${list(700_000, (at) => `"${at}"`)}]}`,
  ],
  [
    "_replicate doc_ids 19,900",
    "POST",
    "/_replicate",
    () =>
      `{"source":"films","target":"copy","create_target":true,"doc_ids":[${list(19_900, (at) => `"document-${at}"`)}]}`,
  ],
];

let isBad = false;
for (const [name, method, path, bodyOf] of REQUESTS) {
  if (!name.startsWith(NAME)) continue;
  const directory = mkdtempSync(join(tmpdir(), "tandem-bench-"));
  const node = await openProcess(directory, { isMetered: true });
  try {
    await ask(node.url, "PUT", "/films");
    await ask(node.url, "POST", "/films/_bulk_docs", { docs: [{ _id: "1", a: 1 }] });
    await tryOne(node, name, method, path, bodyOf());
  } finally {
    await endProcess(node, "SIGKILL");
    rmSync(directory, { recursive: true, force: true });
  }
}
process.exit(isBad ? 1 : 0);

async function tryOne(node, name, method, path, body) {
  // The services of a node that was started just now have their first looks.
  await pause(1_500);
  const beforeMib = memoryMib(node, "VmRSS");
  writeFileSync(`/proc/${node.child.pid}/clear_refs`, "5");
  await measure(node);
  const startMs = performance.now();
  const status = await send(node.url, method, path, body);
  const tookMs = performance.now() - startMs;
  // What it sets off, such as a job.
  await pause(1_500);
  const { turnMs } = await measure(node);
  const grownMib = memoryMib(node, "VmHWM") - beforeMib;
  const bodyMib = Buffer.byteLength(body) / MIB;
  const isOver = turnMs > TURN_MS_MAX || grownMib > GROWTH_MAX * bodyMib + SMALL_MIB;
  isBad ||= isOver;
  process.stdout.write(
    `${isOver ? "over  " : "      "}${name}: ${bodyMib.toFixed(1)} MiB, ${status}, ${tookMs.toFixed(0)} ms, longest turn ${turnMs.toFixed(0)} ms, ` +
      `${grownMib.toFixed(0)} MiB more (${(grownMib / bodyMib).toFixed(1)} times)\n`,
  );
}

/** The status, or why there is none: who refuses a body may close the connection before all of it was sent. */
function send(url, method, path, body) {
  return new Promise((resolve) => {
    const headers = { "content-type": "application/json" };
    const asked = request(url + path, { method, headers, agent: false }, (answer) => {
      answer.resume();
      answer.on("close", () => resolve(answer.statusCode));
    });
    asked.on("error", ({ code }) => resolve(code));
    asked.end(body);
  });
}

function memoryMib({ child }, name) {
  const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1]) / 1024;
}

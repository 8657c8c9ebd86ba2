/**
 * Event loop blocking and memory of single large requests.
 *
 *   npm run build && node bench/load/large-requests.mjs [NAME]
 *
 * Sends the requests of the table below whose names begin with NAME, each to a new, idle node. For
 * each request, prints the response and the longest turn of the event loop in CPU time of its
 * thread. Also prints how far the node's memory rose above its initial value at its peak, as a
 * multiple of the body's size. Pages of the store's file are not counted.
 *
 * Every request takes some memory, because the young generation grows and code is compiled. With a
 * small body, this memory dominates. A second node therefore gets nine such requests concurrently:
 * the cost of an additional request is an eighth of the difference between the two peaks. If a
 * request reads a large document, the document counts as its body. The exit code is 1 if a turn
 * took more than 50 ms, if one request took more than four times the size of its body plus
 * `SMALL_MIB`, or if an additional request took more than four times the size of its body plus
 * `FURTHER_MIB`. Another process writes the required data, because garbage from these writes would
 * hide the cost of the request. Linux only.
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
/** Memory that even a small request can take: the young generation grows to 2 × 16 MiB. */
const SMALL_MIB = 32;
/** Memory of an additional request apart from its body: its socket, its response, and garbage. */
const FURTHER_MIB = 8;
/** Requests with smaller bodies are also measured concurrently. */
const SMALL_BODY_MIB = 2;
const AT_ONCE = 9;
const MIB = 2 ** 20;
const DOCUMENT_BYTES_MAX = 8 * MIB;

const list = (count, text) => Array.from({ length: count }, (_, at) => text(at)).join(",");
const numbers = (byteCount) => `{"a":[${list(byteCount / 2, () => "1")}]}`;
const text = (byteCount) => `{"a":"${"x".repeat(byteCount - 8)}"}`;
const objects = (byteCount) =>
  `{"a":[${list(byteCount / 20, (at) => `{"b":${100_000 + at},"c":[]}`)}]}`;
const nested = (open, depth, close) => `${open.repeat(depth)}1${close.repeat(depth)}`;
const members = (byteCount) => `{${list(byteCount / 12, (at) => `"${1_000_000 + at}":1`)}}`;

/** Placeholder in a path: the number of the concurrent request. */
const NUMBER = "{number}";
const validator = { validate_doc_update: "function (doc) { if (doc.bad) throw 1; }" };
const filter = { filters: { all: "function () { return true; }" } };
const DESIGN_BYTES = 7_000_000;
const withDesign =
  (members, byteCount = DESIGN_BYTES) =>
  async (node) => {
    const design = { ...members, long: "x".repeat(byteCount) };
    await ask(node.url, "PUT", "/films/_design/a", design);
    await ask(node.url, "PUT", "/warm");
    await ask(node.url, "PUT", "/warm/_design/a", filter);
  };
/** Starts the threads for functions and selectors, like the first request that needs one. */
const startThreads = (node) =>
  Promise.all(
    [1, 2, 3].flatMap(() => [
      ask(node.url, "GET", "/warm/_changes?filter=a/all"),
      ask(node.url, "POST", "/warm/_find", { selector: { a: { $size: 1 } } }),
    ]),
  );
const LONG_DOCUMENT = objects(7_900_000);
const withLongDocument = async (node) => {
  await ask(node.url, "PUT", "/films/long", JSON.parse(LONG_DOCUMENT));
  await ask(node.url, "PUT", "/films/_local/long", JSON.parse(LONG_DOCUMENT));
  await ask(node.url, "PUT", "/warm");
  await ask(node.url, "PUT", "/warm/long", JSON.parse(objects(1_000_000)));
};
const withIndex = async (node) => {
  const index = { fields: ["b"], partial_filter_selector: { a: { $exists: true } } };
  await ask(node.url, "POST", "/films/_index", { index });
};
const reader = { validate_doc_update: "function (doc) { if (doc.a.length < 5) throw 1; }" };

/**
 * Requests: name, method, path, body, preparation of the node, and bytes that the request reads.
 * @type {any[][]}
 */
const REQUESTS = [
  ["document 7.9 MB, numbers", "PUT", "/films/a", () => numbers(7_900_000)],
  ["document 7.9 MB, one string", "PUT", "/films/a", () => text(7_900_000)],
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
    "_revs_diff 33,000",
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
    "_find $in 99,000",
    "POST",
    "/films/_find",
    () => `{"selector":{"a":{"$in":[${list(99_000, (at) => `"${at}"`)}]}}}`,
  ],
  [
    "_find of a document of 7.9 MB, selected by an array element",
    "POST",
    "/films/_find",
    () => '{"selector":{"a":{"$elemMatch":{"b":100001}}},"fields":["_id"]}',
    withLongDocument,
    LONG_DOCUMENT.length,
  ],
  [
    "_find of a document of 7.9 MB, some of its fields",
    "POST",
    "/films/_find",
    () => '{"selector":{"_id":"long"},"fields":["_id","a.7.b","b","c.d"]}',
    withLongDocument,
    LONG_DOCUMENT.length,
  ],
  [
    "_changes filtered by a selector, a document of 7.9 MB",
    "POST",
    "/films/_changes?filter=_selector",
    () => '{"selector":{"a":{"$size":3}}}',
    withLongDocument,
    LONG_DOCUMENT.length,
  ],
  ...[
    ["GET of the document", "GET", "/films/long"],
    ["_all_docs", "GET", "/films/_all_docs?include_docs=true"],
    ["_changes", "GET", "/films/_changes?include_docs=true"],
    ["_find", "POST", "/films/_find", '{"selector":{"_id":"long"}}'],
    ["GET of the local document", "GET", "/films/_local/long"],
    ["_bulk_get", "POST", "/films/_bulk_get", '{"docs":[{"id":"long"}]}'],
  ].map(([name, method, path, body = ""]) => [
    `response with a document of 7.9 MB: ${name}`,
    method,
    path,
    () => body,
    withLongDocument,
    LONG_DOCUMENT.length,
  ]),
  ["document of 7.9 MB for an index", "PUT", "/films/a", () => objects(7_900_000), withIndex],
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
    "replication document doc_ids 9,900",
    "PUT",
    `/_replicator/a${NUMBER}`,
    () =>
      `{"source":"http://127.0.0.1:1/a","target":"films","doc_ids":[${list(9_900, (at) => `"document-${at}"`)}]}`,
  ],
  [
    "replication document doc_ids 700,000",
    "PUT",
    "/_replicator/a",
    () =>
      `{"source":"http://127.0.0.1:1/a","target":"films","doc_ids":[${list(700_000, (at) => `"${at}"`)}]}`,
  ],
  [
    "_replicate doc_ids 9,900",
    "POST",
    "/_replicate",
    () =>
      `{"source":"films","target":"copy","create_target":true,"doc_ids":[${list(9_900, (at) => `"document-${at}"`)}]}`,
  ],
  [
    "document of 7.9 MB, validated by a design document of 7 MB",
    "PUT",
    "/films/a",
    () => text(7_900_000),
    withDesign(validator),
  ],
  [
    "small document, validated by a design document of 7 MB",
    "PUT",
    `/films/a${NUMBER}`,
    () => '{"a":1}',
    withDesign(validator),
  ],
  [
    "_changes filtered by a design document of 7 MB, no changes",
    "POST",
    "/films/_changes?filter=a/all&since=now",
    () => "{}",
    withDesign(filter),
  ],
  [
    "_changes filtered by a design document of 7 MB, which is one of the changes",
    "POST",
    "/films/_changes?filter=a/all",
    () => "{}",
    withDesign(filter),
    DESIGN_BYTES,
  ],
  [
    "document of 7.9 MB, one string, read by a validation function",
    "PUT",
    "/films/a",
    () => text(7_900_000),
    withDesign(reader, 9),
  ],
  [
    "document of 7.9 MB, objects, read by a validation function",
    "PUT",
    "/films/a",
    () => objects(7_900_000),
    withDesign(reader, 9),
  ],
  [
    "_design of 10,000 views",
    "PUT",
    "/films/_design/a",
    () => `{"language":"query","views":{${list(10_000, (at) => `"${at}":{"map":{}}`)}}}`,
  ],
  [
    "_design of 100,000 views",
    "PUT",
    "/films/_design/a",
    () => `{"language":"query","views":{${list(100_000, (at) => `"${at}":{"map":{}}`)}}}`,
  ],
  [
    "document with 2,000 attachments",
    "PUT",
    `/films/a${NUMBER}`,
    () => `{"_attachments":{${list(2_000, (at) => `"${at}":{"data":"YQ=="}`)}}}`,
  ],
  ["document 9,999 deep", "PUT", `/films/a${NUMBER}`, () => nested('{"a":', 9_999, "}")],
  ["_find 900 deep", "POST", "/films/_find", () => `{"selector":{"a":${nested("[", 900, "]")}}}`],
  [
    "_find $or of 1,000",
    "POST",
    "/films/_find",
    () => `{"selector":{"$or":[${list(1_000, (at) => `{"a":${at}}`)}]}}`,
  ],
  [
    "_missing_revs 33,000",
    "POST",
    "/films/_missing_revs",
    () => `{${list(33_000, (at) => `"${at}":["1-a"]`)}}`,
  ],
  ["_purge 1,000", "POST", "/films/_purge", () => `{${list(1_000, (at) => `"${at}":["1-a"]`)}}`],
  [
    "_all_docs/queries 1,000",
    "POST",
    "/films/_all_docs/queries",
    () => `{"queries":[${list(1_000, () => '{"limit":0}')}]}`,
  ],
  [
    "_dbs_info 99,000",
    "POST",
    "/_dbs_info",
    () => `{"keys":[${list(99_000, (at) => `"a${at}"`)}]}`,
  ],
  ["_session 7.9 MB", "POST", "/_session", () => `{"name":"${"x".repeat(7_900_000)}"}`],
  ["_config 7.9 MB", "PUT", "/_node/_local/_config/a/b", () => `"${"x".repeat(7_900_000)}"`],
  [
    "rule 7.9 MB",
    "PUT",
    "/_tandem/rules/a",
    () => `{"source":"http://127.0.0.1:1/","target":"{db}","databases":"${"x".repeat(7_900_000)}"}`,
  ],
  [
    "_check 7.9 MB",
    "POST",
    "/_tandem/replications/_check",
    () => `{"source":"films","target":"copy","query_params":{"a":"${"x".repeat(7_900_000)}"}}`,
  ],
  ["query of 15,000 characters", "GET", `/films/_all_docs?keys=[${"1,".repeat(7_400)}1]`, () => ""],
];

let isBad = false;
for (const [name, method, path, bodyOf, prepare, readBytes = 0] of REQUESTS) {
  if (!name.startsWith(NAME)) continue;
  const asked = { method, path, body: bodyOf() };
  const one = await withNode(prepare, (node) => sendAtOnce(node, asked, 1));
  const bodyMib = Buffer.byteLength(asked.body) / MIB;
  const countedMib = bodyMib + readBytes / MIB;
  let isOver = one.turnMs > TURN_MS_MAX || one.grownMib > GROWTH_MAX * countedMib + SMALL_MIB;
  let further = "";
  if (bodyMib < SMALL_BODY_MIB) {
    const many = await withNode(prepare, (node) => sendAtOnce(node, asked, AT_ONCE));
    const furtherMib = (many.grownMib - one.grownMib) / (AT_ONCE - 1);
    isOver ||= furtherMib > GROWTH_MAX * countedMib + FURTHER_MIB;
    further = `, ${furtherMib.toFixed(1)} MiB per additional request`;
  }
  isBad ||= isOver;
  process.stdout.write(
    `${isOver ? "over  " : "      "}${name}: ${bodyMib.toFixed(1)} MiB, ${one.status}, ${one.tookMs.toFixed(0)} ms, ` +
      `longest turn ${one.turnMs.toFixed(0)} ms, ${one.grownMib.toFixed(0)} MiB more${further}\n`,
  );
}
process.exit(isBad ? 1 : 0);

async function withNode(prepare, use) {
  const directory = mkdtempSync(join(tmpdir(), "tandem-bench-"));
  let node = await openProcess(directory, { isMetered: true });
  try {
    await ask(node.url, "PUT", "/films");
    await ask(node.url, "POST", "/films/_bulk_docs", { docs: [{ _id: "1", a: 1 }] });
    if (prepare !== undefined) {
      await prepare(node);
      await endProcess(node);
      node = await openProcess(directory, { isMetered: true });
      await startThreads(node);
    }
    return await use(node);
  } finally {
    await endProcess(node, "SIGKILL");
    rmSync(directory, { recursive: true, force: true });
  }
}

async function sendAtOnce(node, { method, path, body }, count) {
  // Waits while the services of a new node make their first scans.
  await pause(1_500);
  await measure(node, true);
  const beforeMib = memoryMib(node, "VmRSS");
  const mappedMib = memoryMib(node, "RssFile");
  writeFileSync(`/proc/${node.child.pid}/clear_refs`, "5");
  await measure(node);
  const startMs = performance.now();
  const [status] = await Promise.all(
    Array.from({ length: count }, (_, at) =>
      send(node.url, method, path.replace(NUMBER, String(at)), body),
    ),
  );
  const tookMs = performance.now() - startMs;
  // Waits so that consequences of the request, such as a job, are measured as well.
  await pause(1_500);
  const { turnMs } = await measure(node);
  // Growth of the mapped store file is not counted, because its pages belong to the kernel.
  const storedMib = memoryMib(node, "RssFile") - mappedMib;
  return { status, tookMs, turnMs, grownMib: memoryMib(node, "VmHWM") - beforeMib - storedMib };
}

/**
 * Sends a request. Resolves with the status or an error code: a server that refuses a body can
 * close the connection before all of it was sent.
 */
function send(url, method, path, body) {
  return new Promise((resolve) => {
    const headers = { "content-type": "application/json" };
    const asked = request(url + path, { method, headers, agent: false }, (answer) => {
      answer.resume();
      answer.on("close", () => resolve(answer.statusCode));
    });
    asked.on("error", (/** @type {NodeJS.ErrnoException} */ { code }) => resolve(code));
    asked.end(body);
  });
}

function memoryMib({ child }, name) {
  const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1]) / 1024;
}

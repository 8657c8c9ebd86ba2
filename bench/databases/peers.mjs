/**
 * Speed of reading and writing documents and attachments over HTTP, compared with express-pouchdb
 * on LevelDB and, if `COUCHDB_URL` is set (with an administrator's credentials), a CouchDB.
 *
 *   npm run build && node bench/databases/peers.mjs [BATCHES]
 *
 * Each server gets the same sequential requests from this process. Each figure is the median of
 * several rounds. The ratio printed for a peer is our figure divided by its own. The upper bound is
 * measured with a bare Node.js server that stores nothing and sends responses of the same size
 * (`bare-server.mjs`). Documents acknowledged by Tandem and CouchDB are on the disk; PouchDB's
 * LevelDB leaves that to the system. The same documents are also put into LMDB directly, a batch
 * per transaction, to measure the store alone.
 */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { open } from "lmdb";

const MAIN = fileURLToPath(new URL("../../dist/program/main.js", import.meta.url));
const BARE = fileURLToPath(new URL("./bare-server.mjs", import.meta.url));
const POUCHDB = fileURLToPath(new URL("./pouchdb-server.mjs", import.meta.url));
const BATCH_DOCUMENTS = 500;
const DOCUMENT_BYTES = 500;
const READ_ROUNDS = 15;
/**
 * Number of databases that are filled and deleted before the first round, so that all three servers
 * have compiled hot code.
 */
const WARM_UP_DATABASES = 4;
const WARM_UP_ROUNDS = 5;
const ATTACHMENT_ROUNDS = 5;
const REVS_DIFF_IDS = 1000;
const ATTACHMENT_MIB = 16;
const MIB = 1024 * 1024;

const batchCount = Number(process.argv[2] ?? 20);
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
const folder = mkdtempSync(join(tmpdir(), "tandem-bench-"));
const children = [];
/**
 * Sizes of our own responses, by measurement name. The bare server is asked for responses of the
 * same sizes.
 */
const answerBytes = new Map();
const batches = Array.from({ length: batchCount }, (_, batch) =>
  Array.from({ length: BATCH_DOCUMENTS }, (_, n) => documentText(batch * BATCH_DOCUMENTS + n)),
);
const ids = batches.flat().map((text) => JSON.parse(text)._id);
const bulkBodies = batches.map((docs) => `{"docs":[${docs.join(",")}]}`);
const differenceBody = JSON.stringify(
  Object.fromEntries(ids.slice(0, REVS_DIFF_IDS).map((id) => [id, ["1-0123456789abcdef"]])),
);
const block = randomBytes(ATTACHMENT_MIB * MIB);

try {
  const servers = [
    ["ours", await start([MAIN, "serve", "--port", "0", "--data-dir", join(folder, "ours")])],
    ["PouchDB", await start([POUCHDB, join(folder, "pouchdb")])],
  ];
  const couchdb = process.env.COUCHDB_URL;
  if (couchdb !== undefined) servers.push(["CouchDB", couchdb]);
  const rows = new Map();
  for (const [name, url] of servers) {
    for (const [measure, rate] of Object.entries(await measureServer(new URL(url)))) {
      rows.set(measure, new Map(rows.get(measure)).set(name, rate));
    }
  }
  const limits = await measureLimits(new URL(await start([BARE])));
  for (const [measure, limit] of Object.entries(limits)) rows.get(measure).set("limit", limit);
  for (const [measure, rates] of rows) print(measure, rates);
  const raw = await rawPuts();
  const ours = rows.get("_bulk_docs, documents/s").get("ours");
  process.stdout.write(
    `raw LMDB puts of the same bytes: ${raw.toFixed(0)}/s; _bulk_docs reaches ${(ours / raw).toFixed(3)} of that rate\n`,
  );
} finally {
  agent.destroy();
  for (const child of children) {
    child.kill("SIGTERM");
    if (child.exitCode === null) await once(child, "exit");
  }
  rmSync(folder, { recursive: true });
}

function print(measure, rates) {
  const [[, ours], ...peers] = rates;
  const ratios = peers.map(
    ([name, rate]) => `${name} ${rate.toFixed(0)} (× ${(ours / rate).toFixed(2)})`,
  );
  process.stdout.write(`${measure}: ours ${ours.toFixed(0)}, ${ratios.join(", ")}\n`);
}

async function measureServer(url) {
  const database = `/bench-${process.pid}`;
  for (let round = 0; round < WARM_UP_DATABASES; round++) {
    await ask(url, "PUT", database);
    for (const body of bulkBodies) await ask(url, "POST", `${database}/_bulk_docs`, body);
    await ask(url, "DELETE", database);
  }
  await ask(url, "PUT", database);
  try {
    const written = [];
    for (const body of bulkBodies) {
      written.push(await time(() => ask(url, "POST", `${database}/_bulk_docs`, body)));
    }
    const read = async (measure, path) => {
      const work = async () => noteBytes(measure, await ask(url, "GET", `${database}${path}`));
      return ids.length / (await repeated(work));
    };
    const changes = await read("_changes, rows/s", "/_changes");
    const allDocuments = await read("_all_docs, rows/s", "/_all_docs");
    const withDocuments = await read(
      "_all_docs with documents, rows/s",
      "/_all_docs?include_docs=true",
    );
    const difference = await repeated(() =>
      ask(url, "POST", `${database}/_revs_diff`, differenceBody),
    );
    const sent = [];
    const got = [];
    for (let round = 0; round < ATTACHMENT_ROUNDS; round++) {
      const bytes = Buffer.from(block);
      bytes.writeUInt32LE(round);
      const path = `${database}/attachment${round}/a`;
      sent.push(await time(() => ask(url, "PUT", path, bytes, "image/x")));
      got.push(await time(() => ask(url, "GET", path)));
    }
    return {
      "_bulk_docs, documents/s": BATCH_DOCUMENTS / median(written.slice(WARM_UP_ROUNDS)),
      "_changes, rows/s": changes,
      "_all_docs, rows/s": allDocuments,
      "_all_docs with documents, rows/s": withDocuments,
      "_revs_diff, ids/s": REVS_DIFF_IDS / difference,
      "attachments in, MiB/s": ATTACHMENT_MIB / median(sent),
      "attachments out, MiB/s": ATTACHMENT_MIB / median(got),
    };
  } finally {
    await ask(url, "DELETE", database);
  }
}

/** Measures the bare server, with the same bytes in both directions and no processing. */
async function measureLimits(url) {
  const written = [];
  for (const body of bulkBodies) written.push(await time(() => ask(url, "POST", "/", body)));
  const read = async (measure) =>
    ids.length / (await repeated(() => ask(url, "GET", `/${answerBytes.get(measure)}`)));
  const reads = {};
  for (const measure of answerBytes.keys()) reads[measure] = await read(measure);
  return {
    "_bulk_docs, documents/s": BATCH_DOCUMENTS / median(written.slice(WARM_UP_ROUNDS)),
    ...reads,
    "_revs_diff, ids/s":
      REVS_DIFF_IDS / (await repeated(() => ask(url, "POST", "/", differenceBody))),
    "attachments in, MiB/s":
      ATTACHMENT_MIB / (await repeated(() => ask(url, "PUT", "/", block, "image/x"))),
    "attachments out, MiB/s":
      ATTACHMENT_MIB / (await repeated(() => ask(url, "GET", `/${ATTACHMENT_MIB * MIB}`))),
  };
}

/** Records the size for the first server measured, which is ours. */
function noteBytes(measure, byteCount) {
  if (!answerBytes.has(measure)) answerBytes.set(measure, byteCount);
}

async function repeated(work) {
  const seconds = [];
  for (let round = 0; round < WARM_UP_ROUNDS + READ_ROUNDS; round++) seconds.push(await time(work));
  return median(seconds.slice(WARM_UP_ROUNDS));
}

async function rawPuts() {
  const store = open({ path: join(folder, "raw"), encoding: "binary", overlappingSync: false });
  const seconds = [];
  for (const [batch, docs] of batches.entries()) {
    seconds.push(
      await time(() =>
        store.transaction(() => {
          for (const [n, text] of docs.entries()) {
            // Not awaited: the transaction includes the put.
            void store.put(ids[batch * BATCH_DOCUMENTS + n], Buffer.from(text));
          }
        }),
      ),
    );
  }
  await store.close();
  return BATCH_DOCUMENTS / median(seconds);
}

function documentText(n) {
  const id = `document-${String(n * 7919).padStart(12, "0")}`;
  const head = `{"_id":"${id}","n":${n},"text":"`;
  return `${head}${"x".repeat(DOCUMENT_BYTES - head.length - 2)}"}`;
}

async function time(work) {
  const start = performance.now();
  await work();
  return (performance.now() - start) / 1000;
}

function median(values) {
  return values.toSorted((left, right) => left - right)[Math.floor(values.length / 2)];
}

async function ask(url, method, path, body, type = "application/json") {
  const { hostname, port, username, password } = url;
  const auth = username === "" ? undefined : `${username}:${password}`;
  const headers = { "content-type": type };
  if (body !== undefined) headers["content-length"] = Buffer.byteLength(body);
  const asked = request({ agent, hostname, port, method, path, auth, headers }).end(body);
  const [response] = await once(asked, "response");
  let byteCount = 0;
  for await (const chunk of response) byteCount += chunk.length;
  if (response.statusCode >= 300) throw new Error(`${method} ${path}: ${response.statusCode}`);
  return byteCount;
}

async function start(program) {
  const child = spawn(process.execPath, program, { stdio: ["ignore", "pipe", "ignore"] });
  children.push(child);
  for await (const line of createInterface({ input: child.stdout })) {
    const match = /^listening on (http:\S+)$/.exec(line);
    if (match === null) continue;
    child.stdout.resume();
    return match[1];
  }
  throw new Error(`${program[0]} does not listen`);
}

/**
 * How fast does a database go from one place to another, beside PouchDB's `replicate` between the same two endpoints, and beside
 * the fewest requests that could move it (pages of `_changes`, `_bulk_get`, `_bulk_docs`, four at once, nothing recorded)?
 *
 *   npm run build && node bench/replication/one-shot.mjs [FILE.ndjson.gz]
 *
 * The file holds one document a line; the bundled films when none is named. With COUCHDB_URL, the URL of a CouchDB with an
 * administrator's name and password, its own replicator copies the same documents between two of its databases, over HTTP.
 *
 * Prints for each row documents per second, and processor seconds and peak memory of both nodes and, in the rows of others, of this
 * process, which does the work there. What a CouchDB uses is not seen from here.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { call, MEBIBYTE, measureUse, withNodes } from "./nodes.mjs";

const PouchDB = createRequire(import.meta.url)("pouchdb");
const BUNDLED = fileURLToPath(new URL("../../demo/data/films.ndjson.gz", import.meta.url));
const COUCHDB_URL = process.env.COUCHDB_URL;
const BATCH_ROWS = 1000;
const LANES = 4;

const lines = gunzipSync(readFileSync(process.argv[2] ?? BUNDLED))
  .toString("utf8")
  .trimEnd()
  .split("\n");

await withNodes(["here", "there"], async (here, there) => {
  await load(here, "films");
  print(`${lines.length} documents`);
  const nodes = [here.pid, there.pid];
  const all = [...nodes, process.pid];

  const local = { source: "films", target: "local", create_target: true };
  const copied = await measure("local → local", nodes, () => replicate(here, local));
  await call(here, "PUT", "/pouch");
  const pouchLocal = await measure("PouchDB, here → here", all, () =>
    pouch(`${here.url}/films`, `${here.url}/pouch`),
  );
  const push = { source: "films", target: `${there.url}/pushed`, create_target: true };
  const pushed = await measure("here → there", nodes, () => replicate(here, push));
  const pull = { source: `${here.url}/films`, target: "pulled", create_target: true };
  await measure("there ← here", nodes, () => replicate(there, pull));
  await call(there, "PUT", "/pouch");
  const pouched = await measure("PouchDB, here → there", all, () =>
    pouch(`${here.url}/films`, `${there.url}/pouch`),
  );
  await call(there, "PUT", "/limit");
  const limit = await measure("fewest requests", all, () => fewestRequests(here, there));
  print(`local → local is ${(pouchLocal / copied).toFixed(2)} times PouchDB's speed`);
  print(`here → there is ${(pouched / pushed).toFixed(2)} times PouchDB's speed,`);
  print(`  ${(limit / pushed).toFixed(2)} times that of the fewest requests`);
  if (COUCHDB_URL === undefined) return;
  const couch = await measureCouch({ url: COUCHDB_URL });
  print(`here → there is ${(couch / pushed).toFixed(2)} times CouchDB's speed`);
});

function print(line) {
  process.stdout.write(`${line}\n`);
}

async function load(server, database) {
  await call(server, "PUT", `/${database}`);
  for (let start = 0; start < lines.length; start += BATCH_ROWS) {
    const docs = lines.slice(start, start + BATCH_ROWS).join(",");
    await call(server, "POST", `/${database}/_bulk_docs`, `{"docs":[${docs}]}`);
  }
}

async function replicate(server, body) {
  const { history } = await call(server, "POST", "/_replicate", JSON.stringify(body));
  if (history[0].docs_written !== lines.length) throw new Error(JSON.stringify(history[0]));
}

async function pouch(source, target) {
  const result = await PouchDB.replicate(source, target, { batch_size: BATCH_ROWS });
  if (result.docs_written !== lines.length) throw new Error(JSON.stringify(result));
}

/** Runs once; returns the seconds that it took. */
async function measure(label, pids, run) {
  const { seconds, cpuSeconds, peakBytes } = await measureUse(pids, run);
  const figures = [
    `${seconds.toFixed(1)} s`.padStart(8),
    `${Math.round(lines.length / seconds)} documents/s`.padStart(18),
    ...(pids.length === 0
      ? []
      : [`${cpuSeconds.toFixed(1)} s CPU`.padStart(12), `${Math.round(peakBytes / MEBIBYTE)} MiB`]),
  ];
  print(`${label.padEnd(24)} ${figures.join("  ")}`);
  return seconds;
}

async function measureCouch(couch) {
  const names = ["tandem-bench-source", "tandem-bench-target"];
  const [source, target] = names.map((name) => `${couch.url.replace(/\/$/, "")}/${name}`);
  const existing = await call(couch, "GET", "/_all_dbs");
  for (const name of names.filter((one) => existing.includes(one))) {
    await call(couch, "DELETE", `/${name}`);
  }
  await load(couch, names[0]);
  const seconds = await measure("CouchDB → CouchDB", [], () =>
    replicate(couch, { source, target, create_target: true }),
  );
  for (const name of names) await call(couch, "DELETE", `/${name}`);
  return seconds;
}

async function fewestRequests(here, there) {
  const running = new Set();
  let since = "0";
  for (let isLast = false; !isLast; ) {
    const query = `style=all_docs&limit=${BATCH_ROWS}&since=${encodeURIComponent(since)}`;
    const page = await call(here, "GET", `/films/_changes?${query}`);
    since = page.last_seq;
    isLast = page.results.length < BATCH_ROWS;
    const copying = copyPage(here, there, page.results).finally(() => running.delete(copying));
    running.add(copying);
    if (running.size >= LANES) await Promise.race(running);
  }
  await Promise.all(running);
}

async function copyPage(here, there, rows) {
  const docs = rows.flatMap(({ id, changes }) => changes.map(({ rev }) => ({ id, rev })));
  const path = "/films/_bulk_get?revs=true&latest=true";
  const read = await call(here, "POST", path, JSON.stringify({ docs }));
  const found = read.results.flatMap((row) => row.docs.map(({ ok }) => ok));
  const body = JSON.stringify({ new_edits: false, docs: found });
  await call(there, "POST", "/limit/_bulk_docs", body);
}

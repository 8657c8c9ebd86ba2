/**
 * Speed of a one-shot replication, compared with PouchDB's `replicate` between the same two
 * endpoints, and with the minimal requests (pages of `_changes`, `_bulk_get`, `_bulk_docs`, four
 * concurrently, no checkpoints).
 *
 *   npm run build && node bench/replication/one-shot.mjs [FILE.ndjson.gz]
 *
 * The file contains one document per line; the default is the bundled films. COUCHDB_URL is the URL
 * of a CouchDB server with an administrator's name and password. If it is set, the same documents
 * are also copied between two databases of that server over HTTP: by CouchDB's own replicator, and
 * by the first node.
 *
 * All rows run ROUNDS times (5), alternately, between the same two nodes, each time into new
 * databases: the first round shows new processes, the last ones warm ones. Prints for each row
 * documents per second, and CPU seconds and peak memory of both nodes. In the rows of PouchDB and
 * of the minimal requests, this usage includes that of this process, because it does the copying.
 * The usage of a CouchDB is not measured. The ratios are those of the medians.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { openCouch } from "./couchdb.mjs";
import { call, MEBIBYTE, measureUse, median, withNodes } from "./nodes.mjs";
import { report } from "./table.mjs";

const PouchDB = createRequire(import.meta.url)("pouchdb");
const BUNDLED = fileURLToPath(new URL("../../demo/data/films.ndjson.gz", import.meta.url));
const COUCHDB_URL = process.env.COUCHDB_URL;
const ROUNDS = Number(process.env.ROUNDS ?? 5);
const BATCH_ROWS = 1000;
const LANES = 4;

const LOCAL = "local → local";
const PUSH = "here → there";
const PULL = "there ← here";
const POUCH_LOCAL = "PouchDB, here → here";
const POUCH_REMOTE = "PouchDB, here → there";
const FEWEST = "minimal requests";
const COUCH = "CouchDB → CouchDB";
const BETWEEN_COUCHES = "CouchDB → CouchDB, by Tandem";

const lines = gunzipSync(readFileSync(process.argv[2] ?? BUNDLED))
  .toString("utf8")
  .trimEnd()
  .split("\n");

/** The seconds of each row, round by round. */
const secondsOf = new Map();

await withNodes(["here", "there"], async (here, there) => {
  await load(here, "films");
  const couch = COUCHDB_URL && (await openCouch(COUCHDB_URL, load));
  print(`${lines.length} documents`);
  for (let round = 1; round <= ROUNDS; round++) {
    print(`round ${round}`);
    await runRound(here, there, round);
    if (couch) await measureCouch(couch, here);
  }
  if (couch) await couch.close();
  print(`local → local is ${compare(LOCAL, POUCH_LOCAL, "PouchDB")} times PouchDB's speed`);
  print(`here → there is ${compare(PUSH, POUCH_REMOTE, "PouchDB")} times PouchDB's speed,`);
  print(`  ${compare(PUSH, FEWEST, FEWEST)} times that of the minimal requests`);
  print(`there ← here is ${compare(PULL, POUCH_REMOTE, "PouchDB")} times PouchDB's speed`);
  if (couch) {
    print(`here → there is ${compare(PUSH, COUCH, "CouchDB")} times CouchDB's speed,`);
    const between = compare(BETWEEN_COUCHES, COUCH, "CouchDB");
    print(`  and Tandem between two databases of CouchDB is ${between} times as fast as CouchDB`);
  }
});

async function runRound(here, there, round) {
  const nodes = [here.pid, there.pid];
  const all = [...nodes, process.pid];
  const target = { create_target: true };
  const local = { ...target, source: "films", target: `local-${round}` };
  await measure(LOCAL, nodes, () => replicate(here, local));
  const push = { ...target, source: "films", target: `${there.url}/pushed-${round}` };
  await measure(PUSH, nodes, () => replicate(here, push));
  const pull = { ...target, source: `${here.url}/films`, target: `pulled-${round}` };
  await measure(PULL, nodes, () => replicate(there, pull));
  await call(here, "PUT", `/pouch-${round}`);
  await measure(POUCH_LOCAL, all, () => pouch(`${here.url}/films`, `${here.url}/pouch-${round}`));
  await call(there, "PUT", `/pouch-${round}`);
  await measure(POUCH_REMOTE, all, () => pouch(`${here.url}/films`, `${there.url}/pouch-${round}`));
  await call(there, "PUT", `/fewest-${round}`);
  await measure(FEWEST, all, () => fewestRequests(here, there, `fewest-${round}`));
}

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

/** Compares the speed of `ours` with that of `theirs`, as a ratio. */
function compare(ours, theirs, name) {
  const [own, others] = [ours, theirs].map((label) => lines.length / median(secondsOf.get(label)));
  const ratio = own / others;
  report({
    what: `${lines.length} documents, ${ours}`,
    measured: `${Math.round(own)} documents/s`,
    beside: `${name} ${Math.round(others)}`,
    ratio,
  });
  return ratio.toFixed(2);
}

async function measure(label, pids, run) {
  const { seconds, cpuSeconds, peakBytes } = await measureUse(pids, run);
  secondsOf.set(label, [...(secondsOf.get(label) ?? []), seconds]);
  const figures = [
    `${seconds.toFixed(1)} s`.padStart(8),
    `${Math.round(lines.length / seconds)} documents/s`.padStart(18),
    ...(pids.length === 0
      ? []
      : [`${cpuSeconds.toFixed(1)} s CPU`.padStart(12), `${Math.round(peakBytes / MEBIBYTE)} MiB`]),
  ];
  print(`${label.padEnd(28)} ${figures.join("  ")}`);
}

/** Measures copying between two databases of a CouchDB, with its own replicator and with ours. */
async function measureCouch({ server, source, newTarget }, here) {
  const body = () => ({ source, target: newTarget(), create_target: true });
  await measure(COUCH, [], () => replicate(server, body()));
  await measure(BETWEEN_COUCHES, [here.pid], () => replicate(here, body()));
}

async function fewestRequests(here, there, target) {
  const running = new Set();
  let since = "0";
  for (let isLast = false; !isLast; ) {
    const query = `style=all_docs&limit=${BATCH_ROWS}&since=${encodeURIComponent(since)}`;
    const page = await call(here, "GET", `/films/_changes?${query}`);
    since = page.last_seq;
    isLast = page.results.length < BATCH_ROWS;
    const copying = copyPage(here, there, target, page.results).finally(() =>
      running.delete(copying),
    );
    running.add(copying);
    if (running.size >= LANES) await Promise.race(running);
  }
  await Promise.all(running);
}

async function copyPage(here, there, target, rows) {
  const docs = rows.flatMap(({ id, changes }) => changes.map(({ rev }) => ({ id, rev })));
  const path = "/films/_bulk_get?revs=true&latest=true";
  const read = await call(here, "POST", path, JSON.stringify({ docs }));
  const found = read.results.flatMap((row) => row.docs.map(({ ok }) => ok));
  const body = JSON.stringify({ new_edits: false, docs: found });
  await call(there, "POST", `/${target}/_bulk_docs`, body);
}

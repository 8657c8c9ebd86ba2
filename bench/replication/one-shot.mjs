/**
 * How fast does a database go from one node to another, beside PouchDB's `replicate` between the same two endpoints, and beside
 * the fewest requests that could move it (pages of `_changes`, `_bulk_get`, `_bulk_docs`, four at once, nothing recorded)?
 *
 *   npm run build && node bench/replication/one-shot.mjs [FILE.ndjson.gz]
 *
 * The file holds one document a line; the bundled films when none is named. Prints documents per second and ratios.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

const PouchDB = createRequire(import.meta.url)("pouchdb");
const MAIN = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const BUNDLED = fileURLToPath(new URL("../../demo/data/films.ndjson.gz", import.meta.url));
const BATCH_ROWS = 1000;
const LANES = 4;

const lines = gunzipSync(readFileSync(process.argv[2] ?? BUNDLED))
  .toString("utf8")
  .trimEnd()
  .split("\n");
const folder = mkdtempSync(join(tmpdir(), "tandem-bench-"));
const nodes = [await openNode("here"), await openNode("there")];
const [here, there] = nodes;
try {
  await call(here, "PUT", "/films");
  for (let start = 0; start < lines.length; start += BATCH_ROWS) {
    const docs = lines.slice(start, start + BATCH_ROWS).join(",");
    await call(here, "POST", "/films/_bulk_docs", `{"docs":[${docs}]}`);
  }
  process.stdout.write(`${lines.length} documents\n`);
  const local = { source: "films", target: "local", create_target: true };
  await measure("local → local", () => call(here, "POST", "/_replicate", JSON.stringify(local)));
  const push = { source: "films", target: `${there.url}/pushed`, create_target: true };
  const pushed = await measure("here → there", () =>
    call(here, "POST", "/_replicate", JSON.stringify(push)),
  );
  await call(there, "PUT", "/pouch");
  const pouch = await measure("PouchDB, here → there", () =>
    PouchDB.replicate(`${here.url}/films`, `${there.url}/pouch`, { batch_size: BATCH_ROWS }),
  );
  await call(there, "PUT", "/limit");
  const limit = await measure("the limit, here → there", fewestRequests);
  process.stdout.write(`here → there is ${(pouch / pushed).toFixed(2)} times PouchDB's speed, `);
  process.stdout.write(`${(limit / pushed).toFixed(2)} of the limit\n`);
} finally {
  for (const { child } of nodes) {
    child.kill("SIGTERM");
    await once(child, "exit");
  }
  rmSync(folder, { recursive: true });
}

/** Runs once; returns the seconds that it took. */
async function measure(label, run) {
  const startedAtMs = performance.now();
  await run();
  const seconds = (performance.now() - startedAtMs) / 1000;
  const rate = Math.round(lines.length / seconds);
  process.stdout.write(`${label.padEnd(26)} ${seconds.toFixed(1)} s  ${rate} documents/s\n`);
  return seconds;
}

async function fewestRequests() {
  const running = new Set();
  let since = "0";
  for (let isLast = false; !isLast; ) {
    const query = `style=all_docs&limit=${BATCH_ROWS}&since=${encodeURIComponent(since)}`;
    const page = await call(here, "GET", `/films/_changes?${query}`);
    since = page.last_seq;
    isLast = page.results.length < BATCH_ROWS;
    const copying = copyPage(page.results).finally(() => running.delete(copying));
    running.add(copying);
    if (running.size >= LANES) await Promise.race(running);
  }
  await Promise.all(running);
}

async function copyPage(rows) {
  const docs = rows.flatMap(({ id, changes }) => changes.map(({ rev }) => ({ id, rev })));
  const read = await call(
    here,
    "POST",
    "/films/_bulk_get?revs=true&latest=true",
    JSON.stringify({ docs }),
  );
  const found = read.results.flatMap((row) => row.docs.map(({ ok }) => ok));
  const body = JSON.stringify({ new_edits: false, docs: found });
  await call(there, "POST", "/limit/_bulk_docs", body);
}

async function openNode(name) {
  const flags = ["serve", "--port", "0", "--data-dir", join(folder, name)];
  const environment = { ...process.env, TANDEM_LOG_LEVEL: "warn" };
  const child = spawn(process.execPath, [MAIN, ...flags], {
    env: environment,
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const [, url] = /^listening on (.*)$/.exec(line) ?? [];
    if (url !== undefined) return { url, child };
  }
  throw new Error("The node did not start");
}

async function call({ url }, method, path, body) {
  const headers = { "content-type": "application/json" };
  const response = await fetch(url + path, { method, headers, ...(body && { body }) });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
  return answer;
}

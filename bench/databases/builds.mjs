/**
 * CPU time per document in this build and in other builds, measured alternately in one process:
 * `node bench/databases/builds.mjs [folder of another checkout, built] …`. Without other builds it
 * prints only the figures of this build. To find out whether an optimization of a hot path is worth
 * its complexity (docs/performance.md), remove it in another checkout, build that, and compare. The
 * minimum of many rounds is the cost on an idle machine; the first quartile shows how reliable the
 * minimum is.
 */
import { readFileSync } from "node:fs";
import http from "node:http";
import { basename, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";

const ROUND_COUNT = 70;
const WARM_UP_COUNT = 10;
const DOCUMENT_COUNT = 2_000;
const BATCH_COUNT = 500;

const here = fileURLToPath(new URL("../..", import.meta.url));
const builds = [here, ...process.argv.slice(2)].map((folder) => resolve(folder));
const data = new URL("../../demo/data/films.ndjson.gz", import.meta.url);
const lines = gunzipSync(readFileSync(data)).toString("utf8").trim().split("\n");
const films = lines.slice(0, DOCUMENT_COUNT).map((line) => JSON.parse(line));

const agent = new http.Agent({ keepAlive: true });

function ask(url, method, body) {
  return new Promise((fulfil, fail) => {
    const headers = { "content-type": "application/json" };
    const request = http.request(url, { method, agent, headers }, (answer) => {
      answer.resume();
      answer.on("end", () => {
        if (answer.statusCode < 300) fulfil();
        else fail(new Error(`${method} ${url}: ${answer.statusCode}`));
      });
    });
    request.on("error", fail);
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

async function openBuild(folder) {
  const file = pathToFileURL(`${folder}/dist/server/index.js`).href;
  const { openServer, readConfig } = await import(file);
  const config = readConfig({ port: 0, store: "memory", nodeType: "api_frontend" }, {});
  const server = await openServer(config, { event() {} });
  const url = `${server.url.replace(/\/$/, "")}/films`;
  await ask(url, "PUT");
  await ask(`${url}/_bulk_docs`, "POST", { docs: films });
  return { name: basename(folder), server, url, writtenCount: 0, micros: new Map() };
}

/**
 * Measured operations, each with the number of documents that it processes.
 * @type {Map<string, [count: number, work: (build: any) => Promise<unknown>]>}
 */
const WORK = new Map([
  [
    "POST _bulk_docs",
    [
      BATCH_COUNT,
      (build) => {
        const batch = films.slice(0, BATCH_COUNT);
        const docs = batch.map((film) => ({ ...film, _id: `new-${build.writtenCount++}` }));
        return ask(`${build.url}/_bulk_docs`, "POST", { docs });
      },
    ],
  ],
  [
    "GET _all_docs",
    [
      DOCUMENT_COUNT,
      ({ url }) => ask(`${url}/_all_docs?include_docs=true&limit=${DOCUMENT_COUNT}`, "GET"),
    ],
  ],
  [
    "GET _changes",
    [
      DOCUMENT_COUNT,
      ({ url }) => ask(`${url}/_changes?include_docs=true&limit=${DOCUMENT_COUNT}`, "GET"),
    ],
  ],
  [
    "POST _bulk_get",
    [
      BATCH_COUNT,
      ({ url }) => {
        const docs = films.slice(0, BATCH_COUNT).map(({ _id: id }) => ({ id }));
        return ask(`${url}/_bulk_get?revs=true`, "POST", { docs });
      },
    ],
  ],
]);

const opened = [];
for (const folder of builds) opened.push(await openBuild(folder));
for (let round = 0; round < ROUND_COUNT; round++) {
  for (const build of round % 2 === 0 ? opened : opened.toReversed()) {
    for (const [name, [count, work]] of WORK) {
      const before = process.cpuUsage();
      await work(build);
      const { user, system } = process.cpuUsage(before);
      const micros = build.micros.get(name) ?? [];
      build.micros.set(name, [...micros, (user + system) / count]);
    }
  }
}

process.stdout.write("µs of CPU time per document, client and server: minimum / first quartile\n");
for (const name of WORK.keys()) {
  const figures = opened.map((build) => {
    const sorted = build.micros
      .get(name)
      .slice(WARM_UP_COUNT)
      .toSorted((a, b) => a - b);
    return { name: build.name, least: sorted[0], quarter: sorted[sorted.length >> 2] };
  });
  const [{ least: own }] = figures;
  const shown = figures.map(
    ({ name: build, least, quarter }) =>
      `${build} ${least.toFixed(1)} / ${quarter.toFixed(1)} (x ${(least / own).toFixed(2)})`,
  );
  process.stdout.write(`${name.padEnd(16)} ${shown.join("   ")}\n`);
}
for (const { server } of opened) await server.stop();
agent.destroy();
process.exit(0);

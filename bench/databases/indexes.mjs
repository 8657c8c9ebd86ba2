/**
 * Effect of an index on queries and writes.
 *
 *   npm run build && node bench/databases/indexes.mjs [DOCUMENTS]
 *
 * Fills a database of a new node on LMDB with DOCUMENTS (100,000) documents and builds an index.
 * Then runs queries sequentially, many times each: one document by its value, a page of a range,
 * and a page of a sort. The first query is then repeated without the index, so that it scans
 * everything. Finally, the same documents are written in turn into three databases, with no index,
 * one and three indexes. Prints the additional cost of the indexes. The minimum of the rounds is
 * the cost on an idle machine; the first quartile shows how reliable it is.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../../dist/program/main.js", import.meta.url));
const BATCH_COUNT = 1_000;
const QUERY_COUNT = 500;
const WARM_UP_COUNT = 100;
const WRITE_ROUNDS = 40;
const WRITE_BATCH_COUNT = 500;
const WORDS = "amber birch cedar delta ember fjord grove heath inlet jetty karst ledge".split(" ");

const documentCount = Number(process.argv[2] ?? 100_000);
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
const folder = mkdtempSync(join(tmpdir(), "tandem-bench-"));
const node = spawn(process.execPath, [MAIN, "serve", "--port", "0", "--data-dir", folder], {
  stdio: ["ignore", "pipe", "ignore"],
});

async function listening() {
  for await (const line of createInterface({ input: node.stdout })) {
    const [url] = /http:\/\/\S+/.exec(line) ?? [];
    if (url !== undefined) return url;
  }
  throw new Error("The node did not start");
}

function ask(url, method, body) {
  return new Promise((fulfil, fail) => {
    const headers = { "content-type": "application/json" };
    const sent = request(url, { method, agent, headers }, (answer) => {
      const chunks = [];
      answer.on("data", (chunk) => chunks.push(chunk));
      answer.on("end", () => {
        const text = Buffer.concat(chunks).toString();
        if (answer.statusCode < 300) fulfil(JSON.parse(text));
        else fail(new Error(`${method} ${url}: ${answer.statusCode} ${text}`));
      });
    });
    sent.on("error", fail);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

function documentOf(n) {
  const at = (n * 7_919) % documentCount;
  return {
    _id: `d${String(n).padStart(9, "0")}`,
    number: at,
    title: `${WORDS[at % WORDS.length]} ${WORDS[n % 7]} ${at}`,
    kind: WORDS[n % WORDS.length],
    text: "x".repeat(200),
  };
}

function quantile(values, share) {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

const ms = (value) => `${value.toFixed(2)} ms`;

async function timed(work) {
  const startMs = performance.now();
  await work();
  return performance.now() - startMs;
}

async function measureQueries(url) {
  const queries = {
    "one document by number": (n) => ({ selector: { number: n } }),
    "a page of a range of titles": (n) => ({
      selector: { title: { $gte: WORDS[n % WORDS.length] } },
    }),
    "a page of a sort, backwards": (n) => ({
      selector: { number: { $lt: n } },
      sort: [{ number: "desc" }],
    }),
  };
  for (const [name, query] of Object.entries(queries)) {
    const times = [];
    for (let index = -WARM_UP_COUNT; index < QUERY_COUNT; index++) {
      const body = query((Math.abs(index) * 104_729) % documentCount);
      const duration = await timed(() => ask(`${url}/_find`, "POST", body));
      if (index >= 0) times.push(duration);
    }
    console.log(`${name}: p50 ${ms(quantile(times, 0.5))}, p99 ${ms(quantile(times, 0.99))}`);
  }
}

async function measureScan(url) {
  const { indexes } = await ask(`${url}/_index`, "GET");
  for (const { ddoc, name, type } of indexes) {
    if (type === "json") await ask(`${url}/_index/${ddoc}/json/${name}`, "DELETE");
  }
  const body = { selector: { number: documentCount - 1 } };
  const duration = await timed(() => ask(`${url}/_find`, "POST", body));
  console.log(`one document by number, without an index: ${ms(duration)}`);
}

async function measureWrites(base) {
  const indexCounts = [0, 1, 3];
  const fields = [["number"], ["title"], ["kind", "number"]];
  for (const count of indexCounts) {
    await ask(`${base}writes-${count}`, "PUT");
    for (const each of fields.slice(0, count)) {
      await ask(`${base}writes-${count}/_index`, "POST", { index: { fields: each } });
      await ask(`${base}writes-${count}/_find`, "POST", { selector: { [each[0]]: 1 } });
    }
  }
  const micros = new Map(indexCounts.map((count) => [count, []]));
  for (let round = 0; round < WRITE_ROUNDS; round++) {
    const docs = Array.from({ length: WRITE_BATCH_COUNT }, (_, n) =>
      documentOf(round * WRITE_BATCH_COUNT + n),
    );
    for (const count of indexCounts) {
      const url = `${base}writes-${count}/_bulk_docs`;
      const duration = await timed(() => ask(url, "POST", { docs }));
      if (round > 0) micros.get(count).push((duration * 1_000) / WRITE_BATCH_COUNT);
    }
  }
  const [least, quarter] = [0, 0.25].map((share) => (count) => quantile(micros.get(count), share));
  for (const count of indexCounts) {
    const ratios = [least, quarter].map((of) => (of(count) / of(0)).toFixed(2));
    console.log(
      `a write with ${count} indexes: ${least(count).toFixed(0)} µs a document, ${ratios.join(" to ")} times the cost without an index`,
    );
  }
}

try {
  const base = `${(await listening()).replace(/\/$/, "")}/`;
  const url = `${base}queries`;
  await ask(url, "PUT");
  for (let start = 0; start < documentCount; start += BATCH_COUNT) {
    const docs = Array.from({ length: BATCH_COUNT }, (_, n) => documentOf(start + n));
    await ask(`${url}/_bulk_docs`, "POST", { docs });
  }
  for (const fields of [["number"], ["title"]]) {
    const duration = await timed(async () => {
      await ask(`${url}/_index`, "POST", { index: { fields } });
      await ask(`${url}/_find`, "POST", { selector: { [fields[0]]: 1 } });
    });
    const rate = (documentCount / (duration / 1_000)).toFixed(0);
    console.log(`build of an index by ${fields}: ${rate} documents a second`);
  }
  await measureQueries(url);
  await measureScan(url);
  await measureWrites(base);
} finally {
  node.kill();
  await once(node, "exit");
  rmSync(folder, { recursive: true });
}

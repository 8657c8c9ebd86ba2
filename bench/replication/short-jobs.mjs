/**
 * Rate of short replications between two servers, all started concurrently.
 *
 *   npm run build && node bench/replication/short-jobs.mjs [JOBS [DOCUMENTS]]
 *
 * JOBS (1,000) databases of a second node contain DOCUMENTS (10) each; a third node has an empty
 * target for each of them. The first node replicates them: as concurrent `POST /_replicate`, and as
 * documents of `_replicator`, written with one request. As an upper bound, this process sends only
 * the minimal requests (changes, documents, both checkpoints), with as many lanes as the first node
 * has slots.
 *
 * All rows run ROUNDS times (3), alternately, each time into new databases. Prints for each row
 * jobs per second, the milliseconds of CPU time per job of the first node, of the two others
 * together and of this process, and the requests per job that the others received; then the
 * medians.
 */
import { randomBytes } from "node:crypto";
import { call, cpuSeconds, withNodes } from "./nodes.mjs";
import { report } from "./table.mjs";

const JOBS = Number(process.argv[2] ?? 1000);
const DOCUMENTS = Number(process.argv[3] ?? 10);
const ROUNDS = Number(process.env.ROUNDS ?? 3);
const LANES = 500;
const FEWEST = "minimal requests";
/** Number of concurrent requests while the databases are prepared. */
const PREPARING_LANES = 20;

const numbers = Array.from({ length: JOBS }, (_, number) => number);

await withNodes(["between", "source", "target"], async (between, source, target) => {
  await inLanes(PREPARING_LANES, (number) => fill(source, `films-${number}`));
  const rows = new Map([
    ["_replicate", (round) => replicateAll(between, source, target, `asked-${round}`)],
    ["_replicator", (round) => writeAll(between, source, target, `written-${round}`)],
    [FEWEST, (round) => copyAll(source, target, `fewest-${round}`)],
  ]);
  const seconds = new Map();
  for (let round = 1; round <= ROUNDS; round++) {
    for (const [name, run] of rows) {
      const prefix = { _replicate: "asked", _replicator: "written" }[name] ?? "fewest";
      await inLanes(PREPARING_LANES, (number) =>
        call(target, "PUT", `/${prefix}-${round}-${number}`),
      );
      const use = await measure([between, source, target], () => run(round));
      seconds.set(name, [...(seconds.get(name) ?? []), use.seconds]);
      print(name, use);
    }
  }
  const rateOf = (name) => JOBS / median(seconds.get(name));
  for (const name of rows.keys()) {
    process.stdout.write(`${name}: ${Math.round(rateOf(name))} jobs a second\n`);
    if (name === FEWEST) continue;
    report({
      what: `${JOBS} jobs of ${DOCUMENTS} documents by ${name}`,
      measured: `${Math.round(rateOf(name))} jobs/s`,
      beside: `${FEWEST} ${Math.round(rateOf(FEWEST))}`,
      ratio: rateOf(name) / rateOf(FEWEST),
      aim: "200 jobs/s",
    });
  }
});

async function fill(server, database) {
  await call(server, "PUT", `/${database}`);
  const docs = Array.from({ length: DOCUMENTS }, (_, at) => ({
    _id: `film-${at}`,
    year: 1900 + at,
  }));
  await call(server, "POST", `/${database}/_bulk_docs`, JSON.stringify({ docs }));
}

async function replicateAll(between, source, target, prefix) {
  const copy = async (number) => {
    const body = {
      source: `${source.url}/films-${number}`,
      target: `${target.url}/${prefix}-${number}`,
    };
    const { history } = await call(between, "POST", "/_replicate", JSON.stringify(body));
    if (history[0].docs_written !== DOCUMENTS) throw new Error(JSON.stringify(history[0]));
  };
  await Promise.all(numbers.map(copy));
}

async function writeAll(between, source, target, prefix) {
  const { last_seq: since } = await call(
    between,
    "GET",
    "/_replicator/_changes?limit=1&descending=true",
  );
  const docs = numbers.map((number) => ({
    _id: `${prefix}-${number}`,
    source: `${source.url}/films-${number}`,
    target: `${target.url}/${prefix}-${number}`,
  }));
  await call(between, "POST", "/_replicator/_bulk_docs", JSON.stringify({ docs }));
  const open = new Set(docs.map(({ _id }) => _id));
  for (let at = since; open.size > 0; ) {
    const query = `feed=longpoll&include_docs=true&since=${encodeURIComponent(at)}`;
    const { results, last_seq } = await call(between, "GET", `/_replicator/_changes?${query}`);
    at = last_seq;
    for (const { id, doc } of results) {
      if (doc._replication_state === "failed") throw new Error(JSON.stringify(doc));
      if (doc._replication_state === "completed") open.delete(id);
    }
    // Lets more updates collect: each response contains all updates since the previous one.
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function copyAll(source, target, prefix) {
  await inLanes(LANES, async (number) => {
    const from = `/films-${number}`;
    const to = `/${prefix}-${number}`;
    const { results, last_seq } = await call(source, "GET", `${from}/_changes?style=all_docs`);
    const docs = results.flatMap(({ id, changes }) => changes.map(({ rev }) => ({ id, rev })));
    const read = await call(
      source,
      "POST",
      `${from}/_bulk_get?revs=true&latest=true`,
      JSON.stringify({ docs }),
    );
    const found = read.results.flatMap((row) => row.docs.map(({ ok }) => ok));
    await call(
      target,
      "POST",
      `${to}/_bulk_docs`,
      JSON.stringify({ new_edits: false, docs: found }),
    );
    const id = `_local/${randomBytes(16).toString("hex")}`;
    const checkpoint = JSON.stringify({ _id: id, session_id: "bench", source_last_seq: last_seq });
    await Promise.all([
      call(source, "PUT", `${from}/${id}`, checkpoint),
      call(target, "PUT", `${to}/${id}`, checkpoint),
    ]);
  });
}

/** Runs `work` for each number, with limited concurrency. */
async function inLanes(count, work) {
  const left = [...numbers];
  const lane = async () => {
    for (let number = left.pop(); number !== undefined; number = left.pop()) await work(number);
  };
  await Promise.all(Array.from({ length: Math.min(count, JOBS) }, lane));
}

async function measure(nodes, run) {
  const counts = () => Promise.all(nodes.map(requestCount));
  const times = () => [...nodes.map(({ pid }) => pid), process.pid].map(cpuSeconds);
  const countsBefore = await counts();
  const timesBefore = times();
  const beganAtMs = performance.now();
  await run();
  const seconds = (performance.now() - beganAtMs) / 1000;
  const cpu = times().map((time, at) => ((time - timesBefore[at]) * 1000) / JOBS);
  const [, ...ends] = (await counts()).map((count, at) => (count - countsBefore[at]) / JOBS);
  return { seconds, cpu, requests: ends.reduce((sum, count) => sum + count, 0) };
}

/** Requests that a node has served. */
async function requestCount({ url }) {
  const text = await (await fetch(`${url}/_node/_local/_prometheus`)).text();
  return Number(/^couchdb_httpd_requests_total (\S+)$/m.exec(text)?.[1] ?? Number.NaN);
}

function median(values) {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)];
}

function print(name, { seconds, cpu, requests }) {
  const [between, source, target, own] = cpu;
  process.stdout.write(
    `${name.padEnd(16)} ${Math.round(JOBS / seconds)} jobs/s  CPU ms a job: node ${between.toFixed(1)}, ` +
      `servers ${(source + target).toFixed(1)}, this process ${own.toFixed(1)}  ${requests.toFixed(1)} requests a job\n`,
  );
}

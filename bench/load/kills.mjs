/**
 * What is lost or doubled when processes are killed without warning? One store, an API process and two that replicate, writers on
 * four databases, and continuous jobs that copy them.
 *
 *   npm run build && node bench/load/kills.mjs [KILLS] [SEED]
 *
 * At moments that the seed draws, one of the processes gets SIGKILL and is started again. Jobs with endpoints that refuse, never
 * answer, end their connections half-way, or have no address run beside the others. After each kill every write that was acknowledged
 * is looked up; at the end the targets must have the same leaves as their sources, and the one-shot jobs must have ended. Prints the
 * counts; exit code 1 when something was wrong.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { ask, drawsOf, endProcess, leavesOf, openProcess } from "./node-process.mjs";

const KILLS = Number(process.argv[2] ?? 20);
const SEED = Number(process.argv[3] ?? 1);
const DATABASES = ["a", "b", "c", "d"];
const WRITERS_OF_EACH = 2;
/** Between two kills, at most. */
const LIFE_MS_MAX = 2_500;
const END_MS_MAX = 120_000;
const TYPES = ["api_frontend", "replication", "replication"];

const draw = drawsOf(SEED);
const directory = mkdtempSync(join(tmpdir(), "tandem-bench-"));
const faults = [];
/** Of each database: id and revision of every write that was acknowledged. */
const acknowledged = new Map(DATABASES.map((name) => [name, new Map()]));
const counts = { kills: { api_frontend: 0, replication: 0 }, refused: 0, unanswered: 0, looked: 0 };
let isOver = false;

const blackHole = await listen(() => {});
const halfOpen = await listen((socket) => {
  socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"));
});
const nodes = [];
for (const type of TYPES) nodes.push(await openProcess(directory, { type }));
const url = nodes[0].url;
const port = Number(new URL(url).port);
const startMs = performance.now();
try {
  await setUp();
  const writing = DATABASES.flatMap((name) =>
    Array.from({ length: WRITERS_OF_EACH }, (_, writer) => write(name, writer)),
  );
  for (let kill = 0; kill < KILLS; kill++) {
    await pause(draw() * LIFE_MS_MAX);
    const index = Math.floor(draw() * nodes.length);
    await endProcess(nodes[index], "SIGKILL");
    counts.kills[TYPES[index]]++;
    nodes[index] = await openProcess(directory, {
      type: TYPES[index],
      port: index === 0 ? port : 0,
    });
    await lookUp(`after kill ${kill + 1}`);
  }
  isOver = true;
  await Promise.all(writing);
  await converge();
  await lookUp("at the end");
  report();
} finally {
  isOver = true;
  await Promise.all(nodes.map((node) => endProcess(node, "SIGKILL")));
  for (const server of [blackHole, halfOpen]) server.close();
  rmSync(directory, { recursive: true, force: true });
}
process.exit(faults.length === 0 ? 0 : 1);

async function setUp() {
  for (const name of DATABASES) await must("PUT", `/${name}`);
  for (const name of DATABASES) {
    const copy = { source: name, target: `${name}-copy`, create_target: true, continuous: true };
    await must("PUT", `/_replicator/copy-${name}`, copy);
    // The same over HTTP, which dies with the process that serves it.
    const over = { ...copy, source: `${url}/${name}`, target: `${url}/${name}-over` };
    await must("PUT", `/_replicator/over-${name}`, over);
    await must("PUT", `/_replicator/once-${name}`, {
      ...copy,
      target: `${name}-once`,
      continuous: false,
    });
  }
  const broken = {
    hole: `http://127.0.0.1:${blackHole.address().port}/x`,
    half: `http://127.0.0.1:${halfOpen.address().port}/x`,
    refused: "http://127.0.0.1:1/x",
    nowhere: "http://host.invalid/x",
  };
  for (const [name, source] of Object.entries(broken)) {
    const job = { source, target: "a", connection_timeout: 1_000, continuous: true };
    await must("PUT", `/_replicator/broken-${name}`, job);
  }
}

/** Writes and updates documents, one after the other, until the kills are over. */
async function write(database, writer) {
  const known = acknowledged.get(database);
  for (let number = 0; !isOver; number++) {
    const id = `w${writer}-${number % 200}`;
    const rev = known.get(id);
    const body = { number, ...(rev === undefined ? {} : { _rev: rev }) };
    try {
      const { status, body: answer } = await ask(url, "PUT", `/${database}/${id}`, body);
      if (status === 201) known.set(id, answer.rev);
      // A write whose answer was lost may be there all the same.
      else if (status === 409) await adopt(database, id);
      else if (status === 503) counts.refused++;
      else faults.push(`${status} for ${database}/${id}: ${JSON.stringify(answer)}`);
    } catch {
      counts.unanswered++;
      await pause(20);
    }
  }
}

async function adopt(database, id) {
  const { status, body } = await ask(url, "GET", `/${database}/${id}`);
  const known = acknowledged.get(database);
  const generation = (rev = "0-") => Number(rev.split("-")[0]);
  if (status === 200 && generation(body._rev) > generation(known.get(id))) known.set(id, body._rev);
  else if (status !== 503) faults.push(`${database}/${id}: a conflict with nothing newer`);
}

/** Every acknowledged revision must be the leaf, or an ancestor of a single newer one. */
async function lookUp(when) {
  for (const [database, known] of acknowledged) {
    const before = [...known];
    const leaves = await patiently(() => leavesOf(url, database));
    for (const [id, rev] of before) {
      counts.looked++;
      // What is written while the changes are read has moved behind their end.
      const found = leaves.get(id) ?? (await patiently(() => revisionOf(database, id)));
      const isThere =
        found !== undefined &&
        !found.includes(",") &&
        (found === rev || Number(found.split("-")[0]) > Number(rev.split("-")[0]));
      if (!isThere) faults.push(`${when}: ${database}/${id} is ${found}, ${rev} was acknowledged`);
    }
  }
}

async function revisionOf(database, id) {
  return (await ask(url, "GET", `/${database}/${id}`)).body._rev;
}

async function converge() {
  const untilMs = performance.now() + END_MS_MAX;
  for (const name of DATABASES) {
    const source = JSON.stringify(sorted(await leavesOf(url, name)));
    for (const copy of [`${name}-copy`, `${name}-over`]) {
      for (;;) {
        const target = await leavesOf(url, copy).catch(() => new Map());
        if (JSON.stringify(sorted(target)) === source) break;
        if (performance.now() > untilMs) {
          faults.push(`${copy} has ${target.size} documents and is not equal to ${name}`);
          break;
        }
        await pause(200);
      }
    }
    for (;;) {
      const { body } = await ask(url, "GET", `/_scheduler/docs/_replicator/once-${name}`);
      if (body.state === "completed") break;
      if (performance.now() > untilMs) {
        faults.push(`once-${name} is ${body.state}`);
        break;
      }
      await pause(200);
    }
  }
}

function report() {
  const writes = [...acknowledged.values()].flatMap((known) => [...known.values()]);
  const acknowledgedCount = writes.reduce((sum, rev) => sum + Number(rev.split("-")[0]), 0);
  const seconds = (performance.now() - startMs) / 1000;
  const { api_frontend: api, replication } = counts.kills;
  process.stdout.write(
    `seed ${SEED}: ${api} kills of the API process, ${replication} of replication processes in ${seconds.toFixed(0)} s\n` +
      `${acknowledgedCount} writes to ${writes.length} documents, ${counts.looked} look-ups, ${counts.unanswered} requests without an answer, ${counts.refused} answered 503\n` +
      `${faults.length} faults\n`,
  );
  for (const fault of faults.slice(0, 20)) process.stdout.write(`  ${fault}\n`);
}

async function must(method, path, body) {
  const { status, body: answer } = await ask(url, method, path, body);
  if (status >= 300) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(answer)}`);
}

/** The API process listens again when this is called, but connections that were kept may break. */
async function patiently(question) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await question();
    } catch (error) {
      if (attempt === 10) throw error;
      await pause(50);
    }
  }
}

function sorted(leaves) {
  return [...leaves].sort(([left], [right]) => (left < right ? -1 : 1));
}

async function listen(answer) {
  const sockets = new Set();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    answer(socket);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    address: () => server.address(),
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

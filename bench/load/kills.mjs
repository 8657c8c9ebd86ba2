/**
 * Data loss and duplicates after processes are killed. One store has an API process, two
 * replicating processes, writers on four databases, and continuous jobs that copy these databases.
 *
 *   npm run build && node bench/load/kills.mjs [KILLS] [SEED]
 *
 * At seeded moments, one of the processes gets SIGKILL and is restarted. Meanwhile there are also
 * jobs whose endpoints refuse connections, never respond, break connections, or cannot be resolved.
 * After each kill, every acknowledged write is looked up. At the end, the targets must have the
 * same leaves as their sources, and the one-shot jobs must have ended. Prints the counts; the exit
 * code is 1 if a check failed.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { portOf } from "../support/port-of.mjs";
import { Ledger, missingOf, otherStateOf } from "./ledger.mjs";
import { ask, drawsOf, endProcess, openProcess } from "./node-process.mjs";

const KILLS = Number(process.argv[2] ?? 20);
const SEED = Number(process.argv[3] ?? 1);
const DATABASES = ["a", "b", "c", "d"];
/** Maximum time between two kills, in milliseconds. */
const LIFE_MS_MAX = 2_500;
const END_MS_MAX = 120_000;
const TYPES = ["api_frontend", "replication", "replication"];
/**
 * Short pauses. With the defaults, interrupted jobs would pause longer than the final phase lasts.
 */
const INI = "[replicator]\nmin_backoff_penalty_sec = 1\nmax_backoff_penalty_sec = 5\n";

const draw = drawsOf(SEED);
const directory = mkdtempSync(join(tmpdir(), "tandem-bench-"));
const kills = { api_frontend: 0, replication: 0 };

const blackHole = await listen(() => {});
const halfOpen = await listen((socket) => {
  socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"));
});
const nodes = [];
const file = join(directory, "tandem.ini");
writeFileSync(file, INI);
const flags = ["--config", file];
for (const type of TYPES) nodes.push(await openProcess(directory, { type, flags }));
const url = nodes[0].url;
const port = Number(new URL(url).port);
const ledger = new Ledger(url, DATABASES);
const startMs = performance.now();
try {
  await setUp();
  ledger.start();
  for (let kill = 0; kill < KILLS; kill++) {
    await pause(draw() * LIFE_MS_MAX);
    const index = Math.floor(draw() * nodes.length);
    await endProcess(nodes[index], "SIGKILL");
    kills[TYPES[index]]++;
    nodes[index] = await openProcess(directory, {
      type: TYPES[index],
      flags,
      port: index === 0 ? port : 0,
    });
    await ledger.lookUp(`after kill ${kill + 1}`);
  }
  await ledger.stop();
  await converge();
  await ledger.lookUp("at the end");
  report();
} finally {
  await Promise.all(nodes.map((node) => endProcess(node, "SIGKILL")));
  for (const server of [blackHole, halfOpen]) server.close();
  rmSync(directory, { recursive: true, force: true });
}
process.exit(ledger.faults.length === 0 ? 0 : 1);

async function setUp() {
  for (const name of DATABASES) await must("PUT", `/${name}`);
  for (const name of DATABASES) {
    const copy = { source: name, target: `${name}-copy`, create_target: true, continuous: true };
    await must("PUT", `/_replicator/copy-${name}`, copy);
    // The same copy over HTTP, which fails whenever the API process is killed.
    const over = { ...copy, source: `${url}/${name}`, target: `${url}/${name}-over` };
    await must("PUT", `/_replicator/over-${name}`, over);
    await must("PUT", `/_replicator/once-${name}`, {
      ...copy,
      target: `${name}-once`,
      continuous: false,
    });
  }
  const broken = {
    hole: `http://127.0.0.1:${portOf(blackHole)}/x`,
    half: `http://127.0.0.1:${portOf(halfOpen)}/x`,
    refused: "http://127.0.0.1:1/x",
    nowhere: "http://host.invalid/x",
  };
  for (const [name, source] of Object.entries(broken)) {
    const job = { source, target: "a", connection_timeout: 1_000, continuous: true };
    await must("PUT", `/_replicator/broken-${name}`, job);
  }
}

async function converge() {
  const untilMs = performance.now() + END_MS_MAX;
  for (const database of DATABASES) {
    for (const copy of [`${database}-copy`, `${database}-over`]) {
      const lack = await missingOf({ url, database, copyUrl: url, copy, untilMs });
      if (lack === undefined) continue;
      ledger.faults.push(`${copy} has ${lack} documents and is not equal to ${database}`);
    }
    const document = `once-${database}`;
    const state = await otherStateOf({ url, document, state: "completed", untilMs });
    if (state !== undefined) ledger.faults.push(`${document} is ${state}`);
  }
}

function report() {
  const { faults, counts, writeCount, documentCount } = ledger;
  const seconds = (performance.now() - startMs) / 1000;
  const { api_frontend: api, replication } = kills;
  process.stdout.write(
    `seed ${SEED}: ${api} kills of the API process, ${replication} of replication processes in ${seconds.toFixed(0)} s\n` +
      `${writeCount} writes to ${documentCount} documents, ${counts.checked} look-ups, ${counts.unanswered} requests without an answer, ${counts.refused} answered 503\n` +
      `${faults.length} faults\n`,
  );
  for (const fault of faults.slice(0, 20)) process.stdout.write(`  ${fault}\n`);
}

async function must(method, path, body) {
  const { status, body: answer } = await ask(url, method, path, body);
  if (status >= 300) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(answer)}`);
}

async function listen(answer) {
  const sockets = new Set();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    answer(socket);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  return {
    address: () => server.address(),
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

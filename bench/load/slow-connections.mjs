/**
 * A node under thousands of clients that hold connections and never finish.
 *
 *   npm run build && node bench/load/slow-connections.mjs [CONNECTIONS] [HANDLES] [SECONDS]
 *
 * There are 10,000 connections: a quarter send half of their headers, a quarter add a character to
 * the headers every five seconds, a quarter add a character to the body every five seconds, and a
 * quarter follow a feed without reading it. Connections closed by the node are reopened. HANDLES
 * limits the open files of the node (default: the hard limit of the machine). Meanwhile another
 * client writes to a database that a continuous job copies, waits for the copy, reads the status,
 * and logs in. Prints this client's latencies on the idle node and during the flood, the
 * connections held, the memory, and the time that the node takes to stop. The node logs to a file,
 * because a full pipe would block it.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { quantile } from "../nodes/measures.mjs";
import { usage } from "./node-process.mjs";

const [CONNECTIONS = 10_000, HANDLES = 0, SECONDS = 90] = process.argv.slice(2, 5).map(Number);
const MAIN = fileURLToPath(new URL("../../dist/program/main.js", import.meta.url));
const ADMIN = "anna:secret";
const TRICKLE_MS = 5_000;
/** Maximum number of connections opened per second, reached if the node closes all of them. */
const OPENED_MAX = 2_000;

const head = (line) => `${line} HTTP/1.1\r\nHost: a\r\n`;
const KINDS = [
  { text: `${head("GET /")}X-Half` },
  { text: `${head("GET /")}X-Slow: `, isTrickling: true },
  { text: `${head("POST /_session")}Content-Length: 60000\r\n\r\nname=`, isTrickling: true },
  {
    text: `${head("GET /open/_changes?feed=continuous")}\r\n`,
    isReading: false,
  },
];

async function openNode(directory) {
  const log = join(directory, "node.log");
  const config = join(directory, "tandem.ini");
  writeFileSync(config, "[admins]\nanna = secret\n");
  const flags = ["serve", "--port", "0", "--data-dir", join(directory, "data"), "--config", config];
  const limit = HANDLES === 0 ? "" : `ulimit -n ${HANDLES}; `;
  const program = [process.execPath, MAIN, ...flags];
  const out = openSync(log, "a");
  const child = spawn("sh", ["-c", `${limit}exec "$@"`, "sh", ...program], {
    stdio: ["ignore", out, out],
  });
  for (;;) {
    const [, url] = /^listening on (http:\/\/.*)$/m.exec(readFileSync(log, "utf8")) ?? [];
    if (url !== undefined) return { child, url, log };
    if (child.exitCode !== null) throw new Error(readFileSync(log, "utf8"));
    await sleep(50);
  }
}

class Flood {
  open = 0;
  closed = 0;
  #sockets = new Set();
  #port;
  #isOver = false;

  constructor(port) {
    this.#port = port;
  }

  async run() {
    for (let number = 0; !this.#isOver; number++) {
      if (this.#sockets.size >= CONNECTIONS || number % (OPENED_MAX / 20) === 0) await sleep(50);
      if (this.#sockets.size < CONNECTIONS) this.#connect(KINDS[number % KINDS.length]);
    }
  }

  #connect({ text, isTrickling = false, isReading = true }) {
    // The flood has a different client address than the measured clients.
    const socket = connect({ port: this.#port, host: "127.0.0.1", localAddress: "127.0.0.2" });
    this.#sockets.add(socket);
    let timer;
    socket.on("error", () => {});
    socket.once("connect", () => {
      this.open++;
      socket.write(text);
      if (isTrickling) timer = setInterval(() => socket.write("x"), TRICKLE_MS);
      if (isReading) socket.resume();
      socket.once("close", () => this.open--);
    });
    socket.once("close", () => {
      clearInterval(timer);
      this.closed++;
      this.#sockets.delete(socket);
    });
  }

  end() {
    this.#isOver = true;
    for (const socket of this.#sockets) socket.destroy();
  }
}

async function ask({ url }, method, path, body, headers = {}) {
  const authorization = `Basic ${Buffer.from(ADMIN).toString("base64")}`;
  const answer = await fetch(url + path, {
    method,
    headers: { authorization, "content-type": "application/json", connection: "close", ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(60_000),
  });
  const json = /** @type {any} */ (await answer.json());
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(json)}`);
  return json;
}

async function logIn({ url }) {
  const [name, password] = ADMIN.split(":");
  const answer = await fetch(`${url}/_session`, {
    method: "POST",
    headers: { "content-type": "application/json", connection: "close" },
    body: JSON.stringify({ name, password }),
    signal: AbortSignal.timeout(60_000),
  });
  await answer.arrayBuffer();
  if (!answer.ok) throw new Error(`POST /_session: ${answer.status}`);
}

/** Waits until the document is in the copy. */
async function copied(node, id) {
  for (;;) {
    const rows = await ask(node, "POST", "/copies/_all_docs", { keys: [id] });
    if (rows.rows[0]?.error === undefined) return;
    await sleep(20);
  }
}

async function work(node, seconds) {
  const waits = { status: [], login: [], copy: [] };
  const failures = new Map();
  const timed = async (name, body) => {
    const beganMs = performance.now();
    try {
      await body();
      waits[name].push(performance.now() - beganMs);
    } catch (error) {
      const why = `${name}: ${error.cause?.code ?? error.message}`;
      failures.set(why, (failures.get(why) ?? 0) + 1);
    }
  };
  const endMs = performance.now() + seconds * 1_000;
  for (let number = 0; performance.now() < endMs; number++) {
    const id = `${Math.floor(endMs)}-${number}`;
    await timed("status", () => ask(node, "GET", "/_tandem/jobs"));
    await timed("login", () => logIn(node));
    await timed("copy", async () => {
      await ask(node, "PUT", `/films/${id}`, { number });
      await copied(node, id);
    });
    await sleep(100);
  }
  return { waits, failures };
}

function report(title, { waits, failures }) {
  for (const [name, all] of Object.entries(waits)) {
    if (all.length === 0) continue;
    const [median, most] = [0.5, 0.99].map((part) => quantile(all, part).toFixed(0));
    console.log(
      `${title} ${name}: ${all.length} measurements, median ${median} ms, p99 ${most} ms`,
    );
  }
  for (const [why, count] of failures) console.log(`${title} failed ${count} times: ${why}`);
}

const directory = mkdtempSync(join(tmpdir(), "tandem-slow-"));
const node = await openNode(directory);
try {
  await ask(node, "PUT", "/films");
  await ask(node, "PUT", "/copies");
  await ask(node, "PUT", "/open");
  await ask(node, "PUT", "/open/_security", { admins: {}, members: {} });
  const url = node.url.replace("//", `//${ADMIN}@`);
  const job = { source: `${url}/films`, target: `${url}/copies` };
  await ask(node, "PUT", "/_replicator/job", { ...job, continuous: true });
  await ask(node, "PUT", "/films/first", {});
  for (;;) {
    const { state } = await ask(node, "GET", "/_scheduler/docs/_replicator/job");
    if (state === "running") break;
    await sleep(100);
  }
  await copied(node, "first");
  report("quiet", await work(node, 15));
  console.log(`quiet: ${JSON.stringify(usage(node))}`);
  const flood = new Flood(Number(new URL(node.url).port));
  const flooding = flood.run();
  const beganMs = performance.now();
  while (flood.open < CONNECTIONS && performance.now() - beganMs < 60_000) await sleep(100);
  console.log(
    `flood: ${flood.open} connections after ${Math.round(performance.now() - beganMs)} ms`,
  );
  report("flood", await work(node, SECONDS));
  console.log(`flood: ${flood.open} open, ${flood.closed} closed by the node`);
  console.log(`flood: ${JSON.stringify(usage(node))}`);
  const stoppedMs = performance.now();
  node.child.kill("SIGTERM");
  const [code] = await once(node.child, "exit");
  console.log(`stopped with ${code} in ${Math.round(performance.now() - stoppedMs)} ms`);
  flood.end();
  await flooding;
} finally {
  node.child.kill("SIGKILL");
  rmSync(directory, { recursive: true, force: true });
}
process.exit(0);

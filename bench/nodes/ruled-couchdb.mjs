/**
 * Time that one rule takes to copy a changing CouchDB, compared with CouchDB's own replicator.
 *
 *   npm run build && COUCHDB_URL=http://admin:password@127.0.0.1:5984 \
 *     node bench/nodes/ruled-couchdb.mjs [DATABASES] [DOCUMENTS]
 *
 * CouchDB has DATABASES databases with DOCUMENTS documents each. First CouchDB copies them to a
 * Tandem process, with one document per database in its `_replicator`. Then a rule of a second
 * Tandem process copies them to a third one, until all jobs are parked. When half of the jobs are
 * parked, DATABASES / 5 databases are created, a tenth of the databases are deleted, and the
 * security objects of a tenth are changed. At the end `tandem verify --all` compares both servers;
 * the exit code is 1 if they still differ after LIMIT_SEC. All databases of the CouchDB are deleted
 * afterwards; their names begin with PREFIX.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { ask, endProcess, openProcess } from "../load/node-process.mjs";
import { inParallel } from "./arrivals.mjs";
import { onceParked, print, seconds, timed } from "./measures.mjs";

const [DATABASES = 500, DOCUMENTS = 20] = process.argv.slice(2).map(Number);
const COUCHDB = process.env.COUCHDB_URL?.replace(/\/$/, "");
if (COUCHDB === undefined) throw new Error("COUCHDB_URL names no server");
const PREFIX = process.env.PREFIX ?? "tandem-bench";
/** Time limit for the servers to become equal. Changes of `_security` are polled every 30 s. */
const LIMIT_SEC = 300;
const MAIN = fileURLToPath(new URL("../../dist/program/main.js", import.meta.url));
const REPLICATOR = encodeURIComponent(`${PREFIX}/_replicator`);

const numbers = (from, count) => Array.from({ length: count }, (_, index) => from + index);
const nameOf = (number) => `${PREFIX}-${String(number).padStart(5, "0")}`;
const createdCount = Math.ceil(DATABASES / 5);
const deletedCount = Math.ceil(DATABASES / 10);
const all = numbers(0, DATABASES + createdCount).map(nameOf);

const directories = numbers(0, 3).map(() => mkdtempSync(join(tmpdir(), "tandem-bench-")));
const nodes = [];
try {
  for (const directory of directories) nodes.push(await openProcess(directory));
  const [ownTarget, target, node] = nodes;
  await inParallel(all.slice(0, DATABASES), createDatabase);
  const ownMs = await timed(() => copyByCouchdb(ownTarget));
  print(
    `CouchDB's replicator: ${DATABASES} databases of ${DOCUMENTS} documents in ${seconds(ownMs)}`,
  );

  const left = DATABASES + createdCount - deletedCount;
  const ruleMs = await timed(async () => {
    await putRule(node, target);
    await onceParked(node, DATABASES / 2);
    await changeDatabases();
    await onceAllParked(node, left);
  });
  print(
    `one rule: the same databases, while ${createdCount} were created, ${deletedCount} deleted and _security of ${deletedCount} changed: ` +
      `all jobs parked in ${seconds(ruleMs)}`,
  );
  const sameMs = await timed(() => onceSame(target));
  print(`no difference ${seconds(sameMs)} later`);
  const { body } = await ask(node.url, "GET", "/_tandem/rules/all");
  print(`${body.status.jobs} jobs for ${left} databases, ${body.status.failing} fail`);
  if (body.status.jobs !== left || body.status.failing > 0) process.exitCode = 1;
} finally {
  await Promise.all(nodes.map((node) => endProcess(node, "SIGKILL")));
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
  await inParallel([...all, REPLICATOR], (name) => ask(COUCHDB, "DELETE", `/${name}`));
}

async function createDatabase(name) {
  const { status, body } = await ask(COUCHDB, "PUT", `/${name}`);
  if (status !== 201) throw new Error(`${name}: ${JSON.stringify(body)}`);
  await ask(COUCHDB, "PUT", `/${name}/_security`, securityOf(name));
  const docs = numbers(0, DOCUMENTS).map((number) => ({ _id: `doc-${number}`, number, name }));
  await ask(COUCHDB, "POST", `/${name}/_bulk_docs`, { docs });
}

function securityOf(user) {
  return { admins: { names: [], roles: ["_admin"] }, members: { names: [user], roles: [] } };
}

/** Resolves when CouchDB has copied all databases with one-shot jobs. */
async function copyByCouchdb({ url }) {
  await ask(COUCHDB, "PUT", `/${REPLICATOR}`);
  const docs = all.slice(0, DATABASES).map((name) => ({
    _id: name,
    source: `${COUCHDB}/${name}`,
    target: `${url}/${name}`,
    create_target: true,
  }));
  await ask(COUCHDB, "POST", `/${REPLICATOR}/_bulk_docs`, { docs });
  for (;;) {
    // `total_rows` ignores `states`.
    const path = `/_scheduler/docs/${REPLICATOR}?states=completed&limit=${DATABASES}`;
    const { body } = await ask(COUCHDB, "GET", path);
    if (body.docs.length >= DATABASES) return;
    await pause(200);
  }
}

async function putRule(node, target) {
  const rule = {
    source: `${COUCHDB}/`,
    target: `${target.url}/{db}`,
    databases: [`${PREFIX}-*`],
    security: true,
    delete: "stop",
  };
  const { status, body } = await ask(node.url, "PUT", "/_tandem/rules/all", rule);
  if (status !== 201) throw new Error(JSON.stringify(body));
}

/** Resolves when the rule has jobs for this many databases, and all of them are parked. */
async function onceAllParked(node, count) {
  for (;;) {
    const { body } = await ask(node.url, "GET", "/_tandem/rules/all");
    const { jobs, parked } = body.status;
    if (jobs === count && parked === count) return;
    await pause(200);
  }
}

/** Deletes the first databases, changes the members of the next ones, and creates new ones. */
async function changeDatabases() {
  const deleted = all.slice(0, deletedCount);
  const secured = all.slice(deletedCount, 2 * deletedCount);
  await Promise.all([
    inParallel(deleted, (name) => ask(COUCHDB, "DELETE", `/${name}`)),
    inParallel(secured, (name) =>
      ask(COUCHDB, "PUT", `/${name}/_security`, securityOf(`other-${name}`)),
    ),
    inParallel(all.slice(DATABASES), createDatabase),
  ]);
}

/** Resolves when the comparison finds no difference. Throws after LIMIT_SEC. */
async function onceSame(target) {
  const untilMs = Date.now() + LIMIT_SEC * 1000;
  for (;;) {
    const { code, text } = await verify(target);
    if (code === 0) return;
    if (Date.now() > untilMs) throw new Error(`There are differences:\n${text}`);
    await pause(1000);
  }
}

async function verify({ url }) {
  const patterns = ["--databases", `${PREFIX}-*`, "--security"];
  const flags = [MAIN, "verify", "--all", `${COUCHDB}/`, `${url}/`, ...patterns];
  const child = spawn(process.execPath, flags, { stdio: ["ignore", "pipe", "pipe"] });
  const chunks = [];
  child.stdout.on("data", (chunk) => chunks.push(chunk));
  child.stderr.on("data", (chunk) => chunks.push(chunk));
  const [code] = await once(child, "close");
  return { code, text: Buffer.concat(chunks).toString() };
}

/**
 * Runs PouchDB's own tests against a node of ours:
 *
 *   npm run build && POUCHDB_CHECKOUT=../pouchdb npm run test:peers [-- PART OF A FILE'S NAME …]
 *
 * The checkout is one of PouchDB's repository, with its packages installed and its modules built as its own instructions say; nothing
 * of it is part of this project. With `COUCHDB_URL=http://user:password@host:port` the same tests run against that CouchDB as well, and
 * each that passes there and fails here is marked.
 *
 * `known-failures.json` names each test that fails, with the reason. The run ends with 1 when another one fails, and when one that is
 * named passes: then the list is to be mended.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { endProcess, openProcess } from "../../bench/load/node-process.mjs";

const SUITES = {
  integration: {
    folders: ["tests/integration"],
    /** Hooks for all files. */
    setup: ["tests/integration/test.setup_global_hooks.js"],
    environment: {},
  },
  find: {
    folders: ["tests/find/test-suite-1", "tests/find/test-suite-2", "tests/find/test-issues"],
    setup: ["tests/find/test-suite-1/test.aaa-setup.js"],
    environment: { PLUGINS: "pouchdb-find", ADAPTERS: "http" },
  },
};
const TEST_FILE = /^test\..*\.js$/;
/** PouchDB's tests of failures ask a server at this port that does not answer. */
const DOWN_SERVER_PORT = "3010";
const TEST_TIMEOUT_MS = "20000";
/** A failed hook ends the run of a file, which then runs again without the test that failed. So often at most. */
const RUNS_OF_FILE_MAX = 40;

const checkout = process.env.POUCHDB_CHECKOUT;
const nameParts = process.argv.slice(2);
const known = JSON.parse(readFileSync(new URL("known-failures.json", import.meta.url), "utf8"));

const print = (line) => process.stdout.write(`${line}\n`);

function filesOf({ folders, setup }) {
  const all = folders.flatMap((folder) =>
    readdirSync(join(checkout, folder))
      .filter((name) => TEST_FILE.test(name))
      .sort()
      .map((name) => `${folder}/${name}`),
  );
  return all.filter(
    (file) =>
      !setup.includes(file) &&
      (nameParts.length === 0 || nameParts.some((part) => file.includes(part))),
  );
}

/** What mocha reports of one run of a file: tests by their whole names, and whether a hook ended it early. */
function runOnce(file, { setup, environment }, url, left) {
  const folder = mkdtempSync(join(tmpdir(), "tandem-peers-"));
  const report = join(folder, "report.json");
  try {
    const options = ["--exit", "--timeout", TEST_TIMEOUT_MS, "--reporter", "json"];
    options.push("--reporter-option", `output=${report}`);
    options.push("--require", "./tests/integration/node.setup.js");
    if (left.length > 0) options.push("--invert", "--grep", left.map(escaped).join("|"));
    spawnSync(process.execPath, ["node_modules/mocha/bin/mocha.js", ...options, ...setup, file], {
      cwd: checkout,
      env: { ...process.env, COUCH_HOST: url, SERVER: "couchdb-master", ...environment },
      stdio: "ignore",
    });
    const { passes, failures } = JSON.parse(readFileSync(report, "utf8"));
    const isHook = ({ fullTitle }) => /"(before|after) (each|all)" hook/.test(fullTitle);
    return {
      passed: passes.map(({ fullTitle }) => fullTitle),
      failed: failures.filter((failure) => !isHook(failure)).map(({ fullTitle }) => fullTitle),
      isCut: failures.some(isHook),
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function escaped(text) {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

function runFile(file, suite, url) {
  const passed = new Set();
  const failed = new Set();
  for (let run = 0; run < RUNS_OF_FILE_MAX; run++) {
    const before = failed.size;
    const result = runOnce(file, suite, url, [...failed]);
    for (const title of result.passed) passed.add(title);
    for (const title of result.failed) failed.add(title);
    if (!result.isCut) return { passed, failed };
    if (failed.size === before) break;
  }
  throw new Error(`${file} ends early, whatever is left out`);
}

/** The names of the tests that pass and that fail. */
function runSuite(suite, url) {
  const passed = new Set();
  const failed = new Set();
  for (const file of filesOf(suite)) {
    const result = runFile(file, suite, url);
    for (const title of result.passed) passed.add(title);
    for (const title of result.failed) failed.add(title);
    print(`  ${file}: ${result.passed.size} passed, ${result.failed.size} failed`);
    for (const title of result.failed) print(`    ${title}`);
  }
  // A name may stand for several tests.
  for (const title of failed) passed.delete(title);
  return { passed, failed };
}

/** Whether all is as the list says. */
function judge(name, ours, theirs) {
  const reasons = known[name] ?? {};
  const news = [...ours.failed].filter((title) => reasons[title] === undefined);
  const mended = Object.keys(reasons).filter((title) => ours.passed.has(title));
  for (const title of news) {
    print(`FAILED ${title}${theirs?.passed.has(title) ? " (passes on the CouchDB)" : ""}`);
  }
  for (const title of mended) print(`PASSES, and is listed as failing: ${title}`);
  const counts = `${ours.passed.size} passed, ${ours.failed.size} failed`;
  const couchdb =
    theirs && `; the CouchDB: ${theirs.passed.size} passed, ${theirs.failed.size} failed`;
  print(`${name}: ${counts}, ${ours.failed.size - news.length} of them known${couchdb ?? ""}`);
  return news.length === 0 && mended.length === 0;
}

if (checkout === undefined) {
  print("POUCHDB_CHECKOUT names no checkout of PouchDB's repository");
  process.exit(2);
}
const directory = mkdtempSync(join(tmpdir(), "tandem-peers-"));
const downServer = spawn(process.execPath, ["bin/down-server.js", DOWN_SERVER_PORT], {
  cwd: checkout,
  stdio: "ignore",
});
const node = await openProcess(directory);
let isAsListed = true;
try {
  for (const [name, suite] of Object.entries(SUITES)) {
    print(name);
    const ours = runSuite(suite, node.url);
    const { COUCHDB_URL } = process.env;
    const theirs = COUCHDB_URL === undefined ? undefined : runSuite(suite, COUCHDB_URL);
    isAsListed = judge(name, ours, theirs) && isAsListed;
  }
} finally {
  downServer.kill();
  await endProcess(node);
  rmSync(directory, { recursive: true });
}
process.exitCode = isAsListed ? 0 : 1;

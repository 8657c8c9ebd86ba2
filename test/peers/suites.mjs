/**
 * Runs other projects' tests against a Tandem node:
 *
 *   npm run build
 *   POUCHDB_CHECKOUT=../pouchdb npm run test:peers [-- PART OF A FILE'S NAME …]
 *
 * CONTRIBUTING.md lists the suites, the variable that names each checkout, and how to build it.
 * Suites without a checkout are skipped. With `COUCHDB_URL=http://user:password@host:port` the same
 * tests also run against that CouchDB. Tests that pass there and fail here are marked.
 * `PEERS_VERBOSE=1` prints the suites' own output.
 *
 * `known-failures.json` lists the failing tests of each suite by reason. The exit code is 1 if any
 * other test fails, or if a listed one passes.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { endProcess, openProcess } from "../../bench/load/node-process.mjs";
import { openCouchdb } from "./couchdb-suites.mjs";
import { openPouchdb } from "./pouchdb-suites.mjs";
import { openCouchdyno, openPythonCloudant } from "./python-suites.mjs";

const PEERS = {
  POUCHDB_CHECKOUT: openPouchdb,
  COUCHDB_CHECKOUT: openCouchdb,
  COUCHDYNO_CHECKOUT: openCouchdyno,
  PYTHON_CLOUDANT_CHECKOUT: openPythonCloudant,
};

const nameParts = process.argv.slice(2);
const known = JSON.parse(readFileSync(new URL("known-failures.json", import.meta.url), "utf8"));

/**
 * Returns the names of a suite's known failures: `all`, and those that sometimes pass (`byChance`).
 */
function knownFailures(suite) {
  const reasons = Object.entries(known[suite] ?? {});
  const byChance = reasons.filter(([reason]) => reason.startsWith("(passes by chance)"));
  const namesOf = (entries) => new Set(entries.flatMap(([, names]) => names));
  return { all: namesOf(reasons), byChance: namesOf(byChance) };
}

const print = (line) => process.stdout.write(`${line}\n`);

/**
 * Maximum number of runs of a test file that has new failures. Some tests depend on timing, and
 * occasionally fail on CouchDB, too.
 */
const FILE_RUNS_MAX = 3;

/**
 * Returns the names of passed and failed tests. A test counts as passed if it passes in at least
 * one run of its file.
 */
function runSuite({ files, runFile }, url, expected) {
  const passed = new Set();
  const failed = new Set();
  const isWanted = (file) =>
    nameParts.length === 0 || nameParts.some((part) => file.includes(part));
  for (const file of files.filter(isWanted)) {
    const result = runFile(file, url);
    const news = () => [...result.failed].filter((title) => !expected.all.has(title));
    for (let run = 1; run < FILE_RUNS_MAX && news().length > 0; run++) {
      for (const title of runFile(file, url).passed) {
        if (result.failed.delete(title)) print(`    passed in run ${run + 1}: ${title}`);
        result.passed.add(title);
      }
    }
    for (const title of result.passed) passed.add(title);
    for (const title of result.failed) failed.add(title);
    print(`  ${file}: ${result.passed.size} passed, ${result.failed.size} failed`);
    for (const title of result.failed) print(`    ${title}`);
  }
  // If several tests have the same name and one of them failed, the name counts as failed.
  for (const title of failed) passed.delete(title);
  return { passed, failed };
}

/** Prints the results. Returns whether they match the list of known failures. */
function judge(name, expected, ours, theirs) {
  const news = [...ours.failed].filter((title) => !expected.all.has(title));
  const fixed = [...expected.all].filter((title) => {
    return ours.passed.has(title) && !expected.byChance.has(title);
  });
  for (const title of news) {
    print(`FAILED ${title}${theirs?.passed.has(title) ? " (passes on the CouchDB)" : ""}`);
  }
  for (const title of fixed) print(`PASSES, and is listed as failing: ${title}`);
  const counts = `${ours.passed.size} passed, ${ours.failed.size} failed`;
  const couchdb =
    theirs && `; the CouchDB: ${theirs.passed.size} passed, ${theirs.failed.size} failed`;
  print(`${name}: ${counts}, ${ours.failed.size - news.length} of them known${couchdb ?? ""}`);
  return news.length === 0 && fixed.length === 0;
}

/** Runs all suites of a peer. Returns whether their results match the list of known failures. */
async function runPeer({ ini, suites, close }) {
  const directory = mkdtempSync(join(tmpdir(), "tandem-peers-"));
  const file = join(directory, "tandem.ini");
  writeFileSync(file, ini ?? "");
  const node = await openProcess(directory, { flags: ["--config", file] });
  const { COUCHDB_URL } = process.env;
  let isAsListed = true;
  try {
    for (const suite of suites) {
      print(suite.name);
      const expected = knownFailures(suite.name);
      const ours = runSuite(suite, node.url, expected);
      const theirs = COUCHDB_URL === undefined ? undefined : runSuite(suite, COUCHDB_URL, expected);
      isAsListed = judge(suite.name, expected, ours, theirs) && isAsListed;
    }
  } finally {
    close();
    await endProcess(node);
    rmSync(directory, { recursive: true });
  }
  return isAsListed;
}

const checkouts = Object.keys(PEERS).filter((name) => process.env[name] !== undefined);
if (checkouts.length === 0) {
  print(`${Object.keys(PEERS).join(" or ")} names a checkout of the peer's repository`);
  process.exit(2);
}
for (const name of checkouts) {
  const isAsListed = await runPeer(PEERS[name](resolve(process.env[name])));
  if (!isAsListed) process.exitCode = 1;
}

/**
 * Runs the tests of others against a node of ours:
 *
 *   npm run build
 *   POUCHDB_CHECKOUT=../pouchdb COUCHDB_CHECKOUT=../couchdb npm run test:peers [-- PART OF A FILE'S NAME …]
 *
 * Each names a checkout of that project's repository, built as its own instructions say; nothing of them is part of this project. One
 * that is not named is left out. Those of CouchDB are its tests in Elixir, at the tag 3.5.0. With
 * `COUCHDB_URL=http://user:password@host:port` the same tests run against that CouchDB as well, and each that passes there and fails
 * here is marked. For its own tests it has the settings of their `test-config.ini`. `PEERS_VERBOSE=1` prints all that those say.
 *
 * `known-failures.json` names each test that fails, with the reason. The run ends with 1 when another one fails, and when one that is
 * named passes: then the list is to be mended.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { endProcess, openProcess } from "../../bench/load/node-process.mjs";
import { openCouchdb } from "./couchdb-suites.mjs";
import { openPouchdb } from "./pouchdb-suites.mjs";

const PEERS = { POUCHDB_CHECKOUT: openPouchdb, COUCHDB_CHECKOUT: openCouchdb };

const nameParts = process.argv.slice(2);
const known = JSON.parse(readFileSync(new URL("known-failures.json", import.meta.url), "utf8"));

const print = (line) => process.stdout.write(`${line}\n`);

/** The names of the tests that pass and that fail. */
function runSuite({ files, runFile }, url) {
  const passed = new Set();
  const failed = new Set();
  const isWanted = (file) =>
    nameParts.length === 0 || nameParts.some((part) => file.includes(part));
  for (const file of files.filter(isWanted)) {
    const result = runFile(file, url);
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

/** Whether all suites of a peer are as the list says. */
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
      const ours = runSuite(suite, node.url);
      const theirs = COUCHDB_URL === undefined ? undefined : runSuite(suite, COUCHDB_URL);
      isAsListed = judge(suite.name, ours, theirs) && isAsListed;
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

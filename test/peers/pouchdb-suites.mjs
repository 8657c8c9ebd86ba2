/** PouchDB's tests, run from a checkout with installed packages and built modules. */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { filesIn } from "./test-files.mjs";

const TEST_FILE = /^test\..*\.js$/;
/** PouchDB's tests of failures send requests to this port, at which no server responds. */
const DOWN_SERVER_PORT = "3010";
const TEST_TIMEOUT_MS = "20000";
/**
 * Maximum number of runs per test file. A failed hook ends a run early. The file is then run again
 * without the test whose hook failed.
 */
const RUNS_OF_FILE_MAX = 40;

const INTEGRATION = {
  name: "integration",
  folders: ["tests/integration"],
  /** Setup files whose hooks run for all test files. */
  setup: ["tests/integration/test.setup_global_hooks.js"],
  environment: {},
};
const FIND = {
  name: "find",
  folders: ["tests/find/test-suite-1", "tests/find/test-suite-2", "tests/find/test-issues"],
  setup: ["tests/find/test-suite-1/test.aaa-setup.js"],
  environment: { PLUGINS: "pouchdb-find", ADAPTERS: "http" },
};

export function openPouchdb(checkout) {
  const downServer = spawn(process.execPath, ["bin/down-server.js", DOWN_SERVER_PORT], {
    cwd: checkout,
    stdio: "ignore",
  });
  return {
    ini: undefined,
    suites: [INTEGRATION, FIND].map((suite) => ({
      name: suite.name,
      files: filesIn(checkout, suite.folders, TEST_FILE).filter((file) => {
        return !suite.setup.includes(file);
      }),
      runFile: (file, url) => runFile(checkout, suite, file, url),
    })),
    close: () => downServer.kill(),
  };
}

function runFile(checkout, suite, file, url) {
  const passed = new Set();
  const failed = new Set();
  for (let run = 0; run < RUNS_OF_FILE_MAX; run++) {
    const before = failed.size;
    const result = runOnce(checkout, suite, file, url, [...failed]);
    for (const title of result.passed) passed.add(title);
    for (const title of result.failed) failed.add(title);
    if (!result.isCut) return { passed, failed };
    if (failed.size === before) break;
  }
  throw new Error(`${file} ends early, whatever is left out`);
}

/**
 * Runs a test file once. Returns mocha's report: the tests by their full names, and whether a
 * failed hook ended the run early.
 */
function runOnce(checkout, { setup, environment }, file, url, left) {
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

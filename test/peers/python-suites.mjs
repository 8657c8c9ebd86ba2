/**
 * Python test suites that pytest runs: mango's own tests (in CouchDB's checkout), couchdyno
 * (replications) and python-cloudant (a client). `PYTHON` names the interpreter. All suites need
 * `pytest`, `requests` and `parameterized`. couchdyno also needs `couchdb` and `configargparse`,
 * and python-cloudant needs `flaky`.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { ADMIN, INI } from "./administrator.mjs";
import { filesIn } from "./test-files.mjs";

/** Time limit for one test file. Tests that have not finished by then count as failed. */
const FILE_TIMEOUT_MS = 900_000;

/** Text indexes need Clouseau or Nouveau. */
const TEXT_INDEXES = /\/\d\d-(?:[a-z-]*text|limit|disable-array)/;

/** mango's tests, run from a checkout of CouchDB. */
export function mangoSuite(checkout) {
  const folder = "src/mango/test";
  const environment = ({ origin, username, password }) => ({
    COUCH_HOST: origin,
    COUCH_USER: username,
    COUCH_PASS: password,
    PYTHONPATH: pythonPath(join(checkout, folder)),
  });
  const files = filesIn(checkout, [folder], /^\d\d-.*\.py$/);
  return suite("mango", checkout, {
    environment,
    files: files.filter((f) => !TEXT_INDEXES.test(f)),
  });
}

export function openCouchdyno(checkout) {
  const environment = ({ protocol, host, username, password }) => ({
    REP_SERVER_URL: `${protocol}//${username}:${password}@${host}`,
    REP_CYCLE_TIMEOUT: "120",
    PYTHONPATH: pythonPath(checkout, join(checkout, "tests")),
  });
  const files = filesIn(checkout, ["tests"], /^test_.*\.py$/);
  return {
    ini: INI,
    suites: [suite("couchdyno", checkout, { environment, files })],
    close: () => {},
  };
}

export function openPythonCloudant(checkout) {
  const environment = ({ origin, username, password }) => ({
    DB_URL: origin,
    DB_USER: username,
    DB_PASSWORD: password,
    PYTHONPATH: pythonPath(join(checkout, "src")),
  });
  const files = filesIn(checkout, ["tests/unit"], /tests?\.py$/);
  return {
    ini: INI,
    suites: [suite("python-cloudant", checkout, { environment, files })],
    close: () => {},
  };
}

function suite(name, checkout, { environment, files }) {
  return {
    name,
    files,
    runFile: (file, url) => runFile(checkout, file, environment(addressOf(url))),
  };
}

/**
 * Returns the parts of a URL. A URL without credentials belongs to our own node, and gets the
 * credentials of its administrator.
 */
function addressOf(url) {
  const { origin, protocol, host, username, password } = new URL(url);
  const isOurs = username === "";
  return {
    origin,
    protocol,
    host,
    username: isOurs ? ADMIN.name : decodeURIComponent(username),
    password: isOurs ? ADMIN.password : decodeURIComponent(password),
  };
}

function pythonPath(...folders) {
  return [...folders, process.env.PYTHONPATH].filter(Boolean).join(":");
}

function runFile(checkout, file, environment) {
  const { PYTHON = "python3" } = process.env;
  const options = ["-q", "-rA", "--tb=no", "-p", "no:cacheprovider"];
  const { status, stdout, stderr, error } = spawnSync(PYTHON, ["-m", "pytest", ...options, file], {
    cwd: checkout,
    encoding: "utf8",
    maxBuffer: Number.POSITIVE_INFINITY,
    timeout: FILE_TIMEOUT_MS,
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: "1", ...environment },
  });
  if (process.env.PEERS_VERBOSE === "1") process.stdout.write(stdout);
  // pytest exits with 0 if all tests passed, with 1 if some failed, and with 5 if it found no
  // tests.
  if (error !== undefined || ![0, 1, 5].includes(status)) {
    throw new Error(`${file} could not be run: ${error?.message ?? status}\n${stdout}${stderr}`);
  }
  const titlesOf = (outcome) => {
    const lines = stdout.matchAll(new RegExp(`^(?:${outcome}) \\S*?([^/\\s]+?::\\S+)`, "gm"));
    return new Set([...lines].map(([, title]) => title));
  };
  return { passed: titlesOf("PASSED"), failed: titlesOf("FAILED|ERROR") };
}

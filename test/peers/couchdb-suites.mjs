/** CouchDB's Elixir tests, run from a checkout that has been built with its dependencies. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { ADMIN, INI } from "./administrator.mjs";
import { mangoSuite } from "./python-suites.mjs";
import { filesIn } from "./test-files.mjs";

const RUNNER = fileURLToPath(new URL("couchdb-suites.exs", import.meta.url));
const TEST_FILE = /_test\.exs$/;
/**
 * Test files that are left out: all of their tests are about features that Tandem does not have, or
 * about a cluster of CouchDB nodes.
 */
const LEFT_OUT =
  /\/(view_|erlang_views|multiple_rows|reduce|list_views|show_documents|rewrite|update_documents|jsonp|design_options|partition_|reshard_|search|nouveau|dreyfus|cluster_with)/;

export function openCouchdb(checkout) {
  const files = filesIn(checkout, ["test/elixir/test"], TEST_FILE);
  return {
    ini: INI,
    suites: [
      {
        name: "elixir",
        files: files.filter((file) => !LEFT_OUT.test(file)),
        runFile: (file, url) => runFile(checkout, file, url),
      },
      mangoSuite(checkout),
    ],
    close: () => {},
  };
}

function runFile(checkout, file, url) {
  const { username, password, origin } = new URL(url);
  const isOurs = username === "";
  const { status, stdout, stderr } = spawnSync("elixir", [RUNNER, checkout, file], {
    encoding: "utf8",
    maxBuffer: Number.POSITIVE_INFINITY,
    env: {
      ...process.env,
      EX_COUCH_URL: origin,
      EX_USERNAME: isOurs ? ADMIN.name : decodeURIComponent(username),
      EX_PASSWORD: isOurs ? ADMIN.password : decodeURIComponent(password),
      EX_SERVER: isOurs ? "tandem" : "couchdb",
    },
  });
  const passed = new Set();
  const failed = new Set();
  for (const [, outcome, title] of stdout.matchAll(/^tandem-peers\t([\w-]+)\t(.*)$/gm)) {
    if (outcome === "passed") passed.add(title);
    if (outcome === "failed") failed.add(title);
  }
  if (process.env.PEERS_VERBOSE === "1") process.stdout.write(stdout);
  if (status !== 0) throw new Error(`${file} could not be run:\n${stdout}${stderr}`);
  return { passed, failed };
}

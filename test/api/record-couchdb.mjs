/**
 * Records CouchDB's responses to the rows of the API's tables, so that later test runs need no
 * CouchDB: `node test/api/record-couchdb.mjs http://user:password@127.0.0.1:5984`. The user must be
 * an administrator. The script removes the databases that it creates. The exit code is 1 if a
 * response differs from its row. The response is recorded in this case, too.
 */
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [url] = process.argv.slice(2);
if (url === undefined || !URL.canParse(url)) {
  process.stderr.write("Name the CouchDB: http://user:password@host:port\n");
  process.exit(2);
}
const packageFile = createRequire(import.meta.url).resolve("vitest/package.json");
const vitest = join(dirname(packageFile), "vitest.mjs");
// Each test file runs in its own process, which writes the file's recording when the tests have
// run.
const { status } = spawnSync(process.execPath, [vitest, "run", "--isolate", "test/api"], {
  cwd: fileURLToPath(new URL("../..", import.meta.url)),
  env: { ...process.env, COUCHDB_URL: url, COUCHDB_RECORD: "1" },
  stdio: "inherit",
});
process.exit(status ?? 1);

/** express-pouchdb on LevelDB, with its data in the given folder. For `peers.mjs`. */
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(import.meta.url);
const PouchDB = require("pouchdb");
const folder = process.argv[2];
mkdirSync(folder, { recursive: true });
const app = require("express-pouchdb")(PouchDB.defaults({ prefix: join(folder, "db-") }), {
  mode: "minimumForPouchDB",
  configPath: join(folder, "config.json"),
  logPath: join(folder, "log.txt"),
});
const server = app.listen(0, "127.0.0.1", () => {
  process.stdout.write(`listening on http://127.0.0.1:${server.address().port}\n`);
});

/**
 * PouchDB's HTTP server with databases in memory, as a separate process, because unexpected
 * requests crash it.
 */
const PouchDB = require("pouchdb").plugin(require("pouchdb-adapter-memory"));
const expressPouchdb = require("express-pouchdb");
const { createServer } = require("node:http");

const app = expressPouchdb(PouchDB.defaults({ adapter: "memory" }), { mode: "minimumForPouchDB" });
const server = createServer(app).listen(0, "127.0.0.1", () => {
  process.stdout.write(`listening on http://127.0.0.1:${server.address().port}\n`);
});

/** Starts an import into the folder, sends a message, and then waits. Runs built code. */
import { LmdbImport } from "../../../dist/host/lmdb/import.js";

const imported = new LmdbImport({ directory: String(process.argv[2]), keepAs: "old.mdb" });
imported.put([{ key: Buffer.from("k"), value: Buffer.from("new") }]);
process.on("message", () => {});
process.send?.("begun");

/**
 * A process that takes both of LMDB's locks between processes, for each line that comes: node lock-asker.mjs DIRECTORY. It counts in a
 * row of the store, takes a place in the table of readers, which it keeps, and prints the count. Runs built code.
 */
import { createInterface } from "node:readline";
import { openEnvironment } from "../../../dist/host/lmdb/environment.js";

const ROW = Buffer.from("count");

const database = openEnvironment(process.argv[2]);
// Behind a commit, a further one needs a further place.
const kept = [database.useReadTransaction()];

process.stdout.write("ready\n");
for await (const _ of createInterface({ input: process.stdin })) {
  const count = database.transactionSync(() => {
    const next = Number(Buffer.from(database.get(ROW) ?? "0").toString()) + 1;
    database.putSync(ROW, Buffer.from(String(next)));
    return next;
  });
  database.resetReadTxn();
  kept.push(database.useReadTransaction());
  process.stdout.write(`${count}\n`);
}

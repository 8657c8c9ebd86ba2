/**
 * A process that acquires both of LMDB's interprocess locks each time it reads a line: node
 * lock-asker.mjs DIRECTORY. It then increments a row of the store, acquires a slot in the reader
 * table without releasing it, and prints the count. Runs built code.
 */
import { createInterface } from "node:readline";
import { openEnvironment } from "../../../dist/host/lmdb/environment.js";

const ROW = Buffer.from("count");

const database = openEnvironment(process.argv[2]);
// Read transactions that stay open. If a transaction begins after a commit, it needs another reader
// slot than the transactions before the commit.
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

/**
 * Opens stores that a failed machine has left. Reads one folder per line, and prints the rows of
 * its store as pairs of hexadecimal strings, or the error. Opens each store twice, to check that a
 * repair persists. A corrupt store can crash this process. Runs built code.
 */
import { createInterface } from "node:readline";
import { openEnvironment } from "../../../dist/host/lmdb/environment.js";
import { LmdbSnapshots } from "../../../dist/host/lmdb/snapshots.js";

const WHOLE = { reverse: false, rowCountMax: Infinity, byteCountMax: Infinity };
const hex = (bytes) => Buffer.from(bytes).toString("hex");

async function rowsOf(directory) {
  const database = openEnvironment(directory);
  const snapshot = new LmdbSnapshots(database).take();
  const { entries } = snapshot.page(new Uint8Array(0), new Uint8Array([0xff]), WHOLE);
  snapshot.release();
  await database.close();
  return entries.map(({ key, value }) => [hex(key), hex(value)]);
}

for await (const directory of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const rows = await rowsOf(directory);
    const isStable = JSON.stringify(await rowsOf(directory)) === JSON.stringify(rows);
    answer = isStable ? { rows } : { error: "opened again it has other rows" };
  } catch (error) {
    answer = { error: `${error.message} ${JSON.stringify(error.details)}` };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}

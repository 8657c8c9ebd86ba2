/**
 * Increments a number in the store of the given folder, in small transactions and sometimes in
 * large ones. Prints each number after it is committed. A number is stored in row `number %
 * ROW_COUNT`.
 */
import { openLmdbEngine } from "../../../dist/host/lmdb/engine.js";
import { createSystemRuntime } from "../../../dist/host/system/runtime.js";
import { KeyValueStore } from "../../../dist/kv/index.js";

const ROW_COUNT = 500;
const LARGE_PERIOD = 7;
const LARGE_BYTES = 6_000;

const [directory] = process.argv.slice(2);
const runtime = createSystemRuntime();
const engine = await openLmdbEngine({ runtime, directory });
const kv = new KeyValueStore({ runtime, engine });
const bytes = (text) => new TextEncoder().encode(text);

for (let number = 1; ; number++) {
  await kv.transact(async (tx) => {
    tx.set(bytes("last"), bytes(String(number)));
    tx.set(bytes(`row ${number % ROW_COUNT}`), bytes(String(number)));
    if (number % LARGE_PERIOD === 0) tx.set(bytes("large"), new Uint8Array(LARGE_BYTES));
  });
  process.stdout.write(`${number}\n`);
}

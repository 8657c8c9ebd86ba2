/**
 * A process that writes to a ledger (`ledger.ts`) until it is killed: node ledger-writer.mjs
 * DIRECTORY NAME LANES KEYS. Prints `lane sequence` for each transaction after its commit is
 * acknowledged. Runs built code.
 */
import { openLmdbEngine } from "../../../dist/host/lmdb/engine.js";
import { createSystemRuntime } from "../../../dist/host/system/runtime.js";
import { KeyValueStore, Subspace } from "../../../dist/kv/index.js";

const [directory, name, laneCount, keyCount] = process.argv.slice(2);
const runtime = createSystemRuntime();
const kv = new KeyValueStore({ runtime, engine: await openLmdbEngine({ runtime, directory }) });
const lanes = Subspace.fromTuple(["lane"]);
const bulk = Subspace.fromTuple(["bulk"]);
let stopped = false;

const PARTS = 4;
const numberOf = (value) =>
  value === undefined ? 0 : new DataView(value.buffer, value.byteOffset).getUint32(0);
const paddedValue = (number, length) => {
  const value = new Uint8Array(length);
  new DataView(value.buffer).setUint32(0, number);
  return value;
};

/**
 * Increments the number of a lane, and the numbers in four random keys that all writers share. A
 * lane stores its number in four keys.
 */
async function write(lane) {
  const shared = new Set();
  while (shared.size < PARTS) shared.add(Math.floor(Math.random() * Number(keyCount)));
  const length = 4 + Math.floor(Math.random() * 1_200);
  return kv.transact(async (tx) => {
    const sequence = numberOf(await tx.get(lanes.pack([name, lane, 0]))) + 1;
    for (let part = 0; part < PARTS; part++) {
      tx.set(lanes.pack([name, lane, part]), paddedValue(sequence, length));
    }
    for (const key of shared) {
      const packed = bulk.pack([key]);
      const value = await tx.get(packed);
      tx.set(packed, paddedValue(numberOf(value) + 1, 600));
    }
    return sequence;
  });
}

/**
 * Waits while the pipe is full. If the process is killed, a line that is still waiting counts as
 * not acknowledged.
 */
const print = (line) => new Promise((resolve) => process.stdout.write(line, () => resolve()));

async function run(lane) {
  while (!stopped) {
    const sequence = await write(lane);
    await print(`${lane} ${sequence}\n`);
  }
}

process.on("SIGTERM", () => {
  stopped = true;
});
await Promise.all(Array.from({ length: Number(laneCount) }, (_, lane) => run(lane)));
await kv.close();

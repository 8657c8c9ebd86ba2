/**
 * Reads transactions line by line, and executes them on the store of a folder:
 * `node disk-writer.mjs DIRECTORY NOTES`. Reports the result of each transaction on standard output
 * and in the file NOTES. The recorder logs writes to NOTES and writes to the store in one sequence.
 * Runs built code.
 */
import { openSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { openLmdbEngine } from "../../../dist/host/lmdb/engine.js";
import { createSystemRuntime } from "../../../dist/host/system/runtime.js";
import { KeyValueStore, Subspace, Versionstamp } from "../../../dist/kv/index.js";

const [directory, notesFile] = process.argv.slice(2);
const notes = openSync(notesFile, "a");
const runtime = createSystemRuntime();
const log = Subspace.fromTuple(["log"]);
const text = (value) => new TextEncoder().encode(value);
const engine = await openLmdbEngine({ runtime, directory });
const kv = new KeyValueStore({ runtime, engine });

/**
 * Executes `operations` in a transaction, and stores a description of them. A reader of the store
 * can thus repeat the operations, and compare the results.
 */
async function carryOut({ id, operations, whenUnknown }) {
  try {
    await kv.transact(
      async (tx) => {
        for (const { kind, key, end, byteCount } of operations) {
          if (kind === "set") tx.set(text(key), new Uint8Array(byteCount).fill(id));
          else if (kind === "clear") tx.clear(text(key));
          else tx.clearRange({ begin: text(key), end: text(end) });
        }
        const stamp = Versionstamp.incomplete(tx.nextUserVersion());
        tx.setVersionstampedKey(
          log.packVersionstamped([stamp]),
          text(JSON.stringify({ id, operations })),
        );
      },
      { whenUnknown },
    );
    return { id, outcome: "committed" };
  } catch (error) {
    return { id, outcome: error.code, reason: error.details?.reason };
  }
}

async function state() {
  const reading = kv.read((tx) => tx.get(text("row")));
  const read = await reading.then(
    () => "done",
    (error) => error.code,
  );
  return { isAvailable: kv.isAvailable(), read };
}

process.stdout.write(`${JSON.stringify({ ready: true })}\n`);
for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  if (asked.operations === undefined) {
    process.stdout.write(`${JSON.stringify(await state())}\n`);
    continue;
  }
  const said = JSON.stringify(await carryOut(asked));
  writeSync(notes, `${said}\n`);
  process.stdout.write(`${said}\n`);
}
await kv.close();

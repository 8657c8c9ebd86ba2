/**
 * A process that takes LMDB's lock, prints a line, and releases the lock when another waits for it, but without waking it:
 * node lost-wake-up.mjs DIRECTORY. Runs built code.
 *
 * It leaves what the death of a thread leaves that was woken and had not yet asked again: somebody sleeps, and the mark of that is
 * missing in the word of the mutex.
 */
import { openSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { ABORT } from "lmdb";
import { openEnvironment } from "../../../dist/host/lmdb/environment.js";

/** Of the word: somebody sleeps until it is released. The rest of the word is the number of the thread that has it. */
const WAITERS = 0x8000_0000;

/** Looks in which a thread that does not sleep yet would set the mark again. */
const QUIET_LOOKS = 10_000;

const directory = process.argv[2];
const database = openEnvironment(directory);
// Not closed: that would release what tells other processes that this one uses the store.
const file = openSync(join(directory, "lock.mdb"), "r+");
const content = Buffer.alloc(4_096);

function word(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

/** Whether there was a mark. */
function loseMark() {
  readSync(file, content, 0, content.length, 0);
  const offset = content.indexOf(word(process.pid + WAITERS));
  if (offset >= 0) writeSync(file, word(process.pid), 0, 4, offset);
  return offset >= 0;
}

database.transactionSync(() => {
  writeSync(1, "held\n");
  while (!loseMark());
  for (let looks = 0; looks < QUIET_LOOKS; looks++) if (loseMark()) looks = 0;
  return ABORT;
});
await database.close();

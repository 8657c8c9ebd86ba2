/**
 * A process that acquires LMDB's lock and prints a line: node lost-wake-up.mjs DIRECTORY. Once
 * another process waits for the lock, this process releases the lock without waking the other one.
 * Runs built code.
 *
 * This simulates a waiting thread that dies after it was woken and before it acquires the lock:
 * another thread still sleeps, but the mutex word lacks the flag for waiters.
 */
import { openSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { ABORT } from "lmdb";
import { openEnvironment } from "../../../dist/host/lmdb/environment.js";

/**
 * Flag in the mutex word: a thread sleeps until the lock is released. The other bits contain the id
 * of the thread that owns the lock.
 */
const WAITERS = 0x8000_0000;

/**
 * Number of times that the mutex word is checked after the flag for waiters was cleared. A thread
 * that does not sleep yet sets the flag again during these checks.
 */
const QUIET_LOOKS = 10_000;

const directory = process.argv[2];
const database = openEnvironment(directory);
// The database stays open. Closing it would release the lock that shows other processes that this
// process uses the store.
const file = openSync(join(directory, "lock.mdb"), "r+");
const content = Buffer.alloc(4_096);

function word(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

/** Clears the flag for waiters. Returns whether it was set. */
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

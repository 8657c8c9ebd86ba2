/**
 * One of the two threads of a round of knocks (`LockKnocks`): it takes LMDB's lock for a moment, some times over, and ends. While it
 * has the lock, its partner asks for it, so it finds at its release that somebody waits.
 */
import { parentPort, workerData } from "node:worker_threads";
import { ABORT } from "lmdb";
import { openEnvironment } from "./environment.ts";

export interface LockKnockData {
  readonly directory: string;
  readonly mapBytes: number | undefined;
  /** How many of the two threads are ready. */
  readonly meeting: Int32Array;
}

const THREAD_COUNT = 2;
/** One would do, if the system ran both threads at once. */
const KNOCK_COUNT = 20;
/** The partner asks for the lock within this time. */
const HOLD_MS = 1;
/** A partner that could not start does not come. */
const MEETING_MS_MAX = 1_000;

async function knock({ directory, mapBytes, meeting }: LockKnockData): Promise<void> {
  const database = openEnvironment(directory, mapBytes);
  try {
    const readyCount = Atomics.add(meeting, 0, 1) + 1;
    if (readyCount < THREAD_COUNT) Atomics.wait(meeting, 0, readyCount, MEETING_MS_MAX);
    else Atomics.notify(meeting, 0);
    const pause = new Int32Array(new SharedArrayBuffer(4));
    for (let count = 0; count < KNOCK_COUNT; count++) {
      database.transactionSync(() => {
        Atomics.wait(pause, 0, 0, HOLD_MS);
        return ABORT;
      });
    }
  } finally {
    await database.close();
  }
}

if (parentPort !== null) await knock(workerData as LockKnockData);

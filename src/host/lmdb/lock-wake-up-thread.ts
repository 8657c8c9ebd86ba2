/**
 * One of the two threads of a lock wake-up (`LockWakeUps`). Each thread briefly acquires LMDB's
 * lock several times. Meanwhile the other thread waits for the lock, so that each release finds a
 * waiter.
 */
import { parentPort, workerData } from "node:worker_threads";
import { ABORT } from "lmdb";
import { openEnvironment } from "./environment.ts";

export interface LockWakeUpData {
  readonly directory: string;
  readonly mapBytes: number | undefined;
  /** Shared counter of the threads that are ready. */
  readonly meeting: Int32Array;
}

const THREAD_COUNT = 2;
/** Number of acquisitions. One would suffice if both threads always ran in parallel. */
const WAKE_UP_COUNT = 20;
/** Time for which a thread holds the lock, so that the other thread can request it. */
const HOLD_MS = 1;
/** Maximum wait for the other thread, which might have failed to start. */
const MEETING_MS_MAX = 1_000;

async function wakeUp({ directory, mapBytes, meeting }: LockWakeUpData): Promise<void> {
  const database = openEnvironment(directory, mapBytes);
  try {
    const readyCount = Atomics.add(meeting, 0, 1) + 1;
    if (readyCount < THREAD_COUNT) Atomics.wait(meeting, 0, readyCount, MEETING_MS_MAX);
    else Atomics.notify(meeting, 0);
    const pause = new Int32Array(new SharedArrayBuffer(4));
    for (let count = 0; count < WAKE_UP_COUNT; count++) {
      database.transactionSync(() => {
        Atomics.wait(pause, 0, 0, HOLD_MS);
        return ABORT;
      });
    }
  } finally {
    await database.close();
  }
}

if (parentPort !== null) await wakeUp(workerData as LockWakeUpData);

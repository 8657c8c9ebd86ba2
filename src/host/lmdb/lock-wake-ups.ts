/**
 * Ends an indefinite wait for LMDB's lock.
 *
 * The inter-process lock is a robust mutex of the C library, whose word shows whether there are
 * waiters. A release clears the word and wakes one waiter, which marks the word again for the
 * remaining waiters. The mark is lost if this waiter is killed before it marks the word, and
 * another process has acquired the lock meanwhile. The remaining waiters then sleep until a new
 * process has to wait, although the lock is released repeatedly. Linux wakes the next waiter only
 * if the lock is free at that moment.
 *
 * LMDB cannot fix this: newer releases of the package (lmdb 3.5.6) use the same mutex. Without
 * wake-ups, commits of the remaining processes hang until a restart
 * (`test/kv/lmdb-lock-deaths.test.ts`).
 *
 * When a committer makes no progress, two threads request the lock concurrently. One of them has to
 * wait, which marks the word, and the next release wakes the longest waiter. If the lock is held
 * legitimately, the threads just wait.
 *
 * docs/decisions/0174-locks-of-dead-processes.md
 */
import { Worker } from "node:worker_threads";
import { BUILT_FILE_OPTIONS, builtFile } from "../system/built-file.ts";
import type { LockWakeUpData } from "./lock-wake-up-thread.ts";

/**
 * Time without progress after which a wake-up is started. Far longer than a commit takes, including
 * earlier commits of other processes.
 */
const WAKE_UP_AFTER_MS = 3_000;

const THREAD_FILE = builtFile(import.meta.url, "lock-wake-up-thread.js");

/** Progress of the committer, as seen from outside. */
export interface CommitterProgress {
  /** Whether work that needs the lock is pending. */
  readonly isBusy: boolean;
  /** Increases whenever work is completed. */
  readonly doneCount: number;
}

export class LockWakeUps {
  readonly #store: Omit<LockWakeUpData, "meeting">;
  #doneCount = 0;
  /** Last time the committer made progress or was idle. */
  #aliveMs: number;
  #round: Promise<unknown> | undefined;
  readonly #threads = new Set<Worker>();

  /** `nowMs` is the time of a monotonic clock, as in `look`. */
  constructor(store: Omit<LockWakeUpData, "meeting">, nowMs: number) {
    this.#store = store;
    this.#aliveMs = nowMs;
  }

  /**
   * Must be called periodically. If there was no progress for too long, starts a wake-up and
   * returns the milliseconds without progress; otherwise returns undefined.
   */
  look({ isBusy, doneCount }: CommitterProgress, nowMs: number): number | undefined {
    if (!isBusy || doneCount !== this.#doneCount) {
      this.#doneCount = doneCount;
      this.#aliveMs = nowMs;
    }
    const waitedMs = nowMs - this.#aliveMs;
    if (waitedMs < WAKE_UP_AFTER_MS || this.#round !== undefined) return undefined;
    const meeting = new Int32Array(new SharedArrayBuffer(4));
    this.#round = Promise.all([this.#wakeUp(meeting), this.#wakeUp(meeting)]).finally(() => {
      this.#round = undefined;
    });
    return waitedMs;
  }

  /** Resolves when all threads have ended. */
  async close(): Promise<void> {
    // The threads are awaited, so they must keep the process alive.
    for (const thread of this.#threads) thread.ref();
    await this.#round;
  }

  /**
   * Resolves when the thread has ended. If it fails, `look` starts other threads as long as the
   * committer waits.
   */
  #wakeUp(meeting: Int32Array): Promise<void> {
    const thread = new Worker(THREAD_FILE, {
      ...BUILT_FILE_OPTIONS,
      workerData: { ...this.#store, meeting },
    });
    thread.unref();
    thread.on("error", () => {});
    this.#threads.add(thread);
    return new Promise((resolve) =>
      thread.once("exit", () => {
        this.#threads.delete(thread);
        resolve();
      }),
    );
  }
}

/**
 * Ends a wait for LMDB's lock that nobody would end.
 *
 * The lock between processes is a robust mutex of the C library. Its word tells whether somebody waits. The release of a lock for
 * which somebody waits clears the word and wakes one of those who wait, and the woken one sets the mark again for the others. If it
 * is killed before that, and another has taken the lock meanwhile, the mark stays away: the others sleep on while the lock is taken and
 * released beside them, until somebody else has to wait. Linux wakes the next one only where the lock is free at that instant.
 *
 * So a committer that has not answered for a while is helped by two threads that ask for the lock at once: one of them has to wait,
 * which sets the mark, and the next release wakes who has waited longest. If the lock is held for good reason, the threads wait as
 * well, and do no harm.
 *
 * docs/decisions/0174-knocks-at-the-lock.md
 */
import { Worker } from "node:worker_threads";
import { builtFile } from "../system/built-file.ts";
import type { LockKnockData } from "./lock-knock-thread.ts";

/** Far longer than commits take, those of others before them included. */
const KNOCK_AFTER_MS = 3_000;

const THREAD_FILE = builtFile(import.meta.url, "lock-knock-thread.js");

/** What the committer does, as it is seen from outside. */
export interface CommitterProgress {
  /** It has something to do that needs the lock. */
  readonly isBusy: boolean;
  /** Grows with all that it gets done. */
  readonly doneCount: number;
}

export class LockKnocks {
  readonly #store: Omit<LockKnockData, "meeting">;
  #doneCount = 0;
  /** When it got something done last, or had nothing to do. */
  #aliveMs: number;
  #round: Promise<unknown> | undefined;
  readonly #threads = new Set<Worker>();

  /** `nowMs`: monotonic, here and below. */
  constructor(store: Omit<LockKnockData, "meeting">, nowMs: number) {
    this.#store = store;
    this.#aliveMs = nowMs;
  }

  /** To be called now and then. When it knocks, returns for how many milliseconds the committer has got nothing done. */
  look({ isBusy, doneCount }: CommitterProgress, nowMs: number): number | undefined {
    if (!isBusy || doneCount !== this.#doneCount) {
      this.#doneCount = doneCount;
      this.#aliveMs = nowMs;
    }
    const waitedMs = nowMs - this.#aliveMs;
    if (waitedMs < KNOCK_AFTER_MS || this.#round !== undefined) return undefined;
    const meeting = new Int32Array(new SharedArrayBuffer(4));
    this.#round = Promise.all([this.#knock(meeting), this.#knock(meeting)]).finally(() => {
      this.#round = undefined;
    });
    return waitedMs;
  }

  /** Resolves when no thread knocks any more. */
  async close(): Promise<void> {
    // What waits for them keeps the process alive.
    for (const thread of this.#threads) thread.ref();
    await this.#round;
  }

  /** Resolves when the thread has ended. One that fails is followed by others, as long as the committer waits. */
  #knock(meeting: Int32Array): Promise<void> {
    const thread = new Worker(THREAD_FILE, { workerData: { ...this.#store, meeting } });
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

/**
 * Renews leases in the embedded store, each in its own thread (`lmdb-lease-thread`).
 *
 * The threads are for users of the library whose jobs compute for a long time. If the event loop
 * renewed the lease, one job that blocks the event loop for 80 % of the lease would cost the worker
 * all its jobs (`test/jobs/worker-processes.test.ts`). A node does not need the threads, because
 * its event loop is never blocked for longer than 0.1 s (`bench/load/large-requests.mjs`).
 */
import { resolve } from "node:path";
import { Worker } from "node:worker_threads";
import {
  type LeaseEnding,
  type LeaseRenewer,
  type ReadyRenewer,
  remainingMs,
} from "../../jobs/index.ts";
import type { Subspace } from "../../kv/index.ts";
import { BUILT_FILE_OPTIONS, builtFile } from "../system/built-file.ts";
import {
  type LeaseAnswer,
  type LeaseMessage,
  type LeaseThreadData,
  LeaseTime,
} from "./lmdb-lease-messages.ts";

const THREAD_FILE = builtFile(import.meta.url, "lmdb-lease-thread.js");

export class LmdbLeaseRenewer implements LeaseRenewer {
  readonly #directory: string;
  readonly #prefix: Uint8Array;

  /** `jobs` is the queue's subspace in the store at `directory`. */
  constructor(directory: string, jobs: Subspace) {
    this.#directory = resolve(directory);
    this.#prefix = jobs.prefix;
  }

  async prepare(): Promise<ReadyRenewer> {
    const time = new LeaseTime();
    const workerData: LeaseThreadData = {
      directory: this.#directory,
      prefix: this.#prefix,
      shared: time.shared,
    };
    const thread = new Worker(THREAD_FILE, { ...BUILT_FILE_OPTIONS, workerData });
    const send = (message: LeaseMessage): void => thread.postMessage(message);
    let ending: LeaseEnding = "lapsed";
    let failure: unknown = new Error("The lease thread exited before it was ready");
    // A failed thread no longer renews the lease; its exit event follows.
    thread.on("error", (error) => {
      failure = error;
    });
    const ended = new Promise<LeaseEnding>((settle) => {
      thread.once("exit", () => settle(ending));
    });
    const ready = new Promise<void>((resolve, reject) => {
      thread.on("message", (answer: LeaseAnswer) => {
        if (answer.kind === "ended") ending = answer.ending;
        else resolve();
      });
      void ended.then(() => reject(failure));
    });
    await ready;
    return {
      start: ({ worker, leaseMs, ageMs }) => {
        time.setAge(ageMs);
        send({ kind: "start", worker, leaseMs });
        return { remainingMs: () => remainingMs(leaseMs, time.ageMs), ended };
      },
      stop: async () => {
        send({ kind: "stop" });
        await ended;
      },
    };
  }
}

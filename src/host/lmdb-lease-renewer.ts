/** Leases on the embedded store, each renewed by a thread of its own (`lmdb-lease-thread`). */
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import {
  type Lease,
  type LeaseEnding,
  type LeaseRenewer,
  type LeaseTerm,
  remainingMs,
} from "../jobs/index.ts";
import type { Subspace } from "../kv/index.ts";
import {
  type LeaseAnswer,
  type LeaseMessage,
  type LeaseThreadData,
  LeaseTime,
} from "./lmdb-lease-messages.ts";

/** The thread runs built code, also when this file runs as its source under a test runner: build before testing. */
const THREAD_FILE = fileURLToPath(
  new URL(
    import.meta.url.endsWith(".ts")
      ? "../../dist/host/lmdb-lease-thread.js"
      : "./lmdb-lease-thread.js",
    import.meta.url,
  ),
);

export class LmdbLeaseRenewer implements LeaseRenewer {
  readonly #directory: string;
  readonly #prefix: Uint8Array;

  /** `jobs` is the queue's subspace in the store of that folder. */
  constructor(directory: string, jobs: Subspace) {
    this.#directory = resolve(directory);
    this.#prefix = jobs.prefix;
  }

  start({ worker, leaseMs, ageMs }: LeaseTerm): Lease {
    const time = new LeaseTime();
    time.setAge(ageMs);
    const workerData: LeaseThreadData = {
      directory: this.#directory,
      prefix: this.#prefix,
      worker,
      leaseMs,
      shared: time.shared,
    };
    const thread = new Worker(THREAD_FILE, { workerData });
    let ending: LeaseEnding = "lapsed";
    thread.on("message", (answer: LeaseAnswer) => {
      ending = answer.ending;
    });
    // A thread that failed renews nothing any more; its end follows.
    thread.on("error", () => {});
    const ended = new Promise<LeaseEnding>((settle) => {
      thread.once("exit", () => settle(ending));
    });
    return {
      remainingMs: () => remainingMs(leaseMs, time.ageMs),
      ended,
      stop: async () => {
        thread.postMessage("stop" satisfies LeaseMessage);
        await ended;
      },
    };
  }
}

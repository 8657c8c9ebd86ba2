/**
 * Renews leases from a small child process, for clients that must not run in a thread
 * (FoundationDB's binding has static state). A thread of the worker sends heartbeats to the child:
 * a worker with a blocked event loop keeps its lease, but a suspended worker loses it.
 */
import { fork } from "node:child_process";
import { Worker } from "node:worker_threads";
import { hexEncode } from "../../base/index.ts";
import {
  type LeaseEnding,
  type LeaseRenewer,
  type ReadyRenewer,
  remainingMs,
} from "../../jobs/index.ts";
import type { Subspace } from "../../kv/index.ts";
import { BUILT_FILE_OPTIONS, builtFile } from "../system/built-file.ts";
import type { LeaseBeatData } from "./lease-beat-thread.ts";
import {
  BEATS_PER_LEASE,
  type LeaseStore,
  type ProcessLeaseAnswer,
  type ProcessLeaseMessage,
} from "./process-lease-messages.ts";
import { SharedTimes } from "./shared-times.ts";

export class ProcessLeaseRenewer implements LeaseRenewer {
  readonly #store: LeaseStore;
  readonly #prefix: string;

  /** `jobs` is the queue's subspace in that store. */
  constructor(store: LeaseStore, jobs: Subspace) {
    this.#store = store;
    this.#prefix = hexEncode(jobs.prefix);
  }

  async prepare(): Promise<ReadyRenewer> {
    const times = SharedTimes.create();
    const child = fork(builtFile(import.meta.url, "lease-process.js"), {
      ...BUILT_FILE_OPTIONS,
      stdio: ["ignore", "inherit", "inherit", "ipc", times.descriptor],
    });
    let ending: LeaseEnding = "lapsed";
    let beat: Worker | undefined;
    const send = (message: ProcessLeaseMessage): void => {
      if (child.connected) child.send(message);
    };
    const ended = new Promise<LeaseEnding>((settle) => {
      child.once("error", () => settle(ending));
      child.once("exit", () => settle(ending));
    }).then(async (how) => {
      await beat?.terminate();
      times.close();
      return how;
    });
    const ready = new Promise<void>((resolve, reject) => {
      child.on("message", (answer: ProcessLeaseAnswer) => {
        if (answer.kind === "ended") ending = answer.ending;
        else resolve();
      });
      const failure = new Error("The process of the lease ended before it was ready");
      void ended.then(() => reject(failure));
    });
    send({ kind: "open", store: this.#store, prefix: this.#prefix });
    await ready;
    let isOver = false;
    void ended.then(() => {
      isOver = true;
    });
    return {
      start: ({ worker, leaseMs, ageMs }) => {
        times.setAge("renewed", ageMs);
        const data: LeaseBeatData = {
          descriptor: times.descriptor,
          intervalMs: leaseMs / BEATS_PER_LEASE,
        };
        times.setAge("alive", 0);
        beat = new Worker(builtFile(import.meta.url, "lease-beat-thread.js"), {
          ...BUILT_FILE_OPTIONS,
          workerData: data,
        });
        beat.unref();
        send({ kind: "start", worker, leaseMs });
        return {
          remainingMs: () => (isOver ? 0 : remainingMs(leaseMs, times.ageMs("renewed"))),
          ended,
        };
      },
      stop: async () => {
        send({ kind: "stop" });
        await ended;
      },
    };
  }
}

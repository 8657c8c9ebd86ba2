/**
 * The thread that shows that a process lives, to the child that renews its lease. It beats also while the event loop is
 * busy, and stops when the process is stopped or dead.
 */
import { workerData } from "node:worker_threads";
import { SharedTimes } from "./shared-times.ts";

export interface LeaseBeatData {
  readonly descriptor: number;
  readonly intervalMs: number;
}

const { descriptor, intervalMs } = workerData as LeaseBeatData;
const times = new SharedTimes(descriptor);
times.setAge("alive", 0);
setInterval(() => times.setAge("alive", 0), intervalMs);

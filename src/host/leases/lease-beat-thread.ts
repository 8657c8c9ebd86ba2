/**
 * Thread that sends the process's heartbeats to the child that renews its lease. Independent of the
 * process's event loop. The heartbeats stop if the process is suspended or has ended.
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

/**
 * Loaded into a process by `--import`, it measures that process from within, when TANDEM_METER is set. What comes over the handle 3 is
 * answered with a line of JSON:
 *
 *   turnMs                              the longest turn of the event loop since the answer before, in processor time of the main
 *                                       thread, so that whoever else uses the machine changes nothing
 *   heapBytes, heapTotalBytes,          of V8 in the main thread, in use and taken from the system; buffers beside it
 *   arrayBufferBytes
 *   liveHeapBytes, liveBufferBytes      the same after all garbage was collected; only when a "g" came
 *
 * Linux only.
 */
import { openSync, readSync } from "node:fs";
import { Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isMainThread } from "node:worker_threads";

// The program's own children and threads load this, too, and have other handles.
if (isMainThread && process.env.TANDEM_METER !== undefined) {
  delete process.env.TANDEM_METER;
  measure();
}

function measure() {
  const channel = new Socket({ fd: 3 });
  // The first number is the time that the thread has run, in nanoseconds.
  const file = openSync(`/proc/self/task/${process.pid}/schedstat`, "r");
  const text = Buffer.alloc(64);
  const usedMs = () =>
    Number.parseInt(text.toString("latin1", 0, readSync(file, text, 0, 64, 0)), 10) / 1e6;
  let longestMs = 0;
  let lastMs = usedMs();
  setInterval(() => {
    const nowMs = usedMs();
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
  }, 1).unref();
  channel.on("data", (asked) => {
    const turnMs = longestMs;
    const answer = { turnMs, ...memory(), ...(asked.includes("g") ? collected() : {}) };
    channel.write(`${JSON.stringify(answer)}\n`);
    longestMs = 0;
    lastMs = usedMs();
  });
  channel.unref();
}

function memory() {
  const { heapUsed, heapTotal, arrayBuffers } = process.memoryUsage();
  return { heapBytes: heapUsed, heapTotalBytes: heapTotal, arrayBufferBytes: arrayBuffers };
}

function collected() {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  const { heapBytes, arrayBufferBytes } = memory();
  return { liveHeapBytes: heapBytes, liveBufferBytes: arrayBufferBytes };
}

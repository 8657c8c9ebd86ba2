/**
 * Measures the process that loads this file by `--import`, if TANDEM_METER is set. Each message on
 * handle 3 is answered with a line of JSON:
 *
 *   turnMs                           longest turn of the event loop since the last answer, in CPU
 *                                    time of the main thread
 *   heapBytes, heapTotalBytes        V8's main heap: used, reserved
 *   arrayBufferBytes                 buffers
 *   liveHeapBytes, liveBufferBytes   heap and buffers after a garbage collection; only for the
 *                                    message "g"
 *
 * Linux only.
 */
import { openSync, readSync } from "node:fs";
import { Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isMainThread } from "node:worker_threads";

// The program's own children and threads load this file too, but have no handle for messages.
if (isMainThread && process.env.TANDEM_METER !== undefined) {
  delete process.env.TANDEM_METER;
  measure();
}

function measure() {
  const channel = new Socket({ fd: 3 });
  // The first number is the CPU time of the thread in nanoseconds.
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

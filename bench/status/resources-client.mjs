/**
 * Requests resources of a node from a separate thread, so that the cost of the client, including
 * its garbage, is not counted as the node's.
 */
import { performance } from "node:perf_hooks";
import { parentPort, workerData } from "node:worker_threads";

const { url, roundCount } = workerData;

/**
 * Each message is a path. Replies with the milliseconds of each round of requests, and the size of
 * a response in bytes.
 */
parentPort.on("message", async (path) => {
  const times = [];
  let bytes = 0;
  for (let round = 0; round < roundCount; round++) {
    const startMs = performance.now();
    const answer = await fetch(url + path);
    const text = await answer.text();
    times.push(performance.now() - startMs);
    if (!answer.ok) throw new Error(`GET ${path}: ${answer.status} ${text}`);
    bytes = text.length;
  }
  parentPort.postMessage({ times, bytes });
});

/** Asks a node for resources, in a thread of its own: what a client costs, its garbage included, is not the node's time. */
import { performance } from "node:perf_hooks";
import { parentPort, workerData } from "node:worker_threads";

const { url, roundCount } = workerData;

/** Told a path, answers with the milliseconds of each round, and the bytes of an answer. */
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

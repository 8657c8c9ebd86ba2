/**
 * One process of a benchmark: `process.mjs QUEUE LOCATION`, controlled by messages.
 *
 *   { add: count, lanes }   adds `count` jobs, `lanes` concurrently; replies { added: ms }
 *   { work: true }          runs jobs; replies { worked: count } periodically, and { latencyMs }
 *                           for jobs with a time in their data
 *   { hold: true }          runs jobs that never end; sends { held: 1 } for each
 *   { stop: true }          exits
 */
import { QUEUES } from "./queues.mjs";

const [name, location] = process.argv.slice(2);
const queue = await QUEUES[name](location);
const stopping = new AbortController();
let working = Promise.resolve();

/** A clock shared by all processes of a machine. */
const nowMs = () => Number(process.hrtime.bigint()) / 1e6;

async function add(count, lanes) {
  const startedMs = nowMs();
  let left = count;
  const lane = async () => {
    while (left-- > 0) await queue.add({ n: left });
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  process.send({ added: nowMs() - startedMs });
}

function work() {
  let worked = 0;
  const report = setInterval(() => {
    if (worked > 0) process.send({ worked });
    worked = 0;
  }, 20);
  const onJob = ({ addedMs }) => {
    if (addedMs === undefined) worked++;
    else process.send({ latencyMs: nowMs() - addedMs });
  };
  working = queue.work(onJob, stopping.signal).finally(() => clearInterval(report));
}

function hold() {
  const onJob = () => {
    process.send({ held: 1 });
    return new Promise(() => {});
  };
  working = queue.work(onJob, stopping.signal);
}

process.on("message", async (/** @type {any} */ message) => {
  if (message.add !== undefined) await add(message.add, message.lanes);
  else if (message.work) work();
  else if (message.hold) hold();
  else {
    stopping.abort(new Error("The benchmark is over"));
    await working.catch(() => {});
    await queue.close();
    process.exit(0);
  }
});
process.send({ ready: true });

/**
 * A process with only the queue. It accepts due jobs from an LMDB store as a worker, holds them
 * and, in mode "write", repeatedly writes their data. Runs built code.
 *
 * Arguments: folder, name, lease in milliseconds, "write" or "hold", and the place that renews the
 * lease: "thread" or "loop". The process reports events. After the message `{ blockMs }` it blocks
 * its event loop for this time, and then reports the first write of every job. On SIGTERM, its
 * worker leaves the queue.
 */
import { setMaxListeners } from "node:events";
import { LmdbLeaseRenewer } from "../../dist/host/leases/lmdb-lease-renewer.js";
import { openLmdbEngine } from "../../dist/host/lmdb/engine.js";
import { createSystemRuntime } from "../../dist/host/system/runtime.js";
import { InLoopLeaseRenewer, Jobs, JobWorker } from "../../dist/jobs/index.js";
import { KeyValueStore, Subspace } from "../../dist/kv/index.js";

const [directory, node, leaseMs, mode, renewal] = process.argv.slice(2);
const TYPE = "test";
const send = (message) => process.send?.(message);
const runtime = createSystemRuntime({ event: (event, fields) => send({ event, ...fields }) });
const { clock } = runtime;
const kv = new KeyValueStore({ runtime, engine: await openLmdbEngine({ runtime, directory }) });
const subspace = Subspace.fromTuple(["jobs"]);
const jobs = new Jobs(runtime, subspace);
const renewer =
  renewal === "loop"
    ? new InLoopLeaseRenewer({ clock, kv, workers: jobs.workers })
    : new LmdbLeaseRenewer(directory, subspace);
const worker = new JobWorker({
  runtime,
  kv,
  jobs,
  renewer,
  node,
  processId: String(process.pid),
  types: [TYPE],
  leaseMs: Number(leaseMs),
});

let blockCount = 0;
const stopping = new AbortController();
process.on("SIGTERM", () => stopping.abort(new Error("SIGTERM")));
process.on("message", ({ blockMs }) => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, blockMs);
  blockCount++;
  send({ event: "unblocked" });
});

async function hold(held, over) {
  let toldCount = blockCount;
  for (let number = 1; !over.aborted; number++) {
    try {
      await kv.transact((tx) => jobs.update(tx, held, { node, number }));
    } catch (error) {
      send({ event: "halted", id: held.id, code: error.code });
      return;
    }
    if (toldCount !== blockCount) send({ event: "wrote", id: held.id });
    toldCount = blockCount;
    await clock.sleep(20, over).catch(() => {});
  }
}

await worker.run(stopping.signal, async ({ id, expelled }) => {
  const over = AbortSignal.any([stopping.signal, expelled]);
  setMaxListeners(0, over);
  const writing = [];
  while (!over.aborted) {
    const acceptance = await kv.transact((tx) =>
      jobs.accept(tx, TYPE, { dueBySec: 0, countMax: 100, worker: id }),
    );
    if (acceptance.kind === "none-due") {
      await acceptance.enqueued.fired(over).catch(() => {});
      continue;
    }
    for (const held of acceptance.held) {
      send({ event: "accepted", id: held.id });
      if (mode === "write") writing.push(hold(held, over));
    }
  }
  await Promise.all(writing);
});
await kv.close();
process.disconnect?.();

/**
 * Thread that renews one lease on its own connection to the store, independent of the worker's
 * event loop. The thread does not renew a lease that has lapsed while the process was suspended.
 */
import { parentPort, workerData } from "node:worker_threads";
import { keepLease, Workers } from "../../jobs/index.ts";
import { KeyValueStore, Subspace } from "../../kv/index.ts";
import { openLmdbEngine } from "../lmdb/engine.ts";
import { createSystemRuntime } from "../system/runtime.ts";
import {
  type LeaseAnswer,
  type LeaseMessage,
  type LeaseThreadData,
  LeaseTime,
} from "./lmdb-lease-messages.ts";

async function run(port: NonNullable<typeof parentPort>): Promise<void> {
  const { directory, prefix, shared } = workerData as LeaseThreadData;
  const stopping = new AbortController();
  const answer = (message: LeaseAnswer): void => port.postMessage(message);
  const started = new Promise<LeaseMessage>((resolve) => {
    port.on("message", (message: LeaseMessage) => {
      if (message.kind === "stop") stopping.abort(new Error("The lease has ended"));
      resolve(message);
    });
  });
  const runtime = createSystemRuntime();
  const { clock } = runtime;
  const time = new LeaseTime(shared);
  try {
    const engine = await openLmdbEngine({ runtime, directory });
    const kv = new KeyValueStore({ runtime, engine });
    answer({ kind: "ready" });
    const message = await started;
    if (message.kind === "start") {
      const { worker, leaseMs } = message;
      const parts = { clock, kv, workers: new Workers(runtime, new Subspace(prefix)) };
      const onRenewed = (startedAtMs: number): void =>
        time.setAge(clock.monotonicMs() - startedAtMs);
      const term = { worker, leaseMs, ageMs: time.ageMs };
      answer({ kind: "ended", ending: await keepLease(parts, term, onRenewed, stopping.signal) });
    }
    await kv.close();
  } finally {
    port.close();
  }
}

if (parentPort !== null) await run(parentPort);

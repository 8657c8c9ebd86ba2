/**
 * The thread that renews one lease, on a store that it opens for itself: the event loop of the worker can be busy for as long
 * as it likes. After a pause of the whole process it looks at the clock first, and renews nothing that has lapsed.
 */
import { parentPort, workerData } from "node:worker_threads";
import { keepLease, type LeaseEnding, Workers } from "../jobs/index.ts";
import { KeyValueStore, Subspace } from "../kv/index.ts";
import { openLmdbEngine } from "./lmdb-engine.ts";
import { type LeaseAnswer, type LeaseThreadData, LeaseTime } from "./lmdb-lease-messages.ts";
import { createSystemRuntime } from "./system-runtime.ts";

async function run(port: NonNullable<typeof parentPort>): Promise<void> {
  const { directory, prefix, worker, leaseMs, shared } = workerData as LeaseThreadData;
  const stopping = new AbortController();
  port.on("message", () => stopping.abort(new Error("The lease ends")));
  const runtime = createSystemRuntime();
  const time = new LeaseTime(shared);
  let ending: LeaseEnding = "lapsed";
  try {
    const engine = await openLmdbEngine({ runtime, directory });
    const kv = new KeyValueStore({ runtime, engine });
    const { clock } = runtime;
    const parts = { clock, kv, workers: new Workers(runtime, new Subspace(prefix)) };
    const onRenewed = (startedAtMs: number): void => time.setAge(clock.monotonicMs() - startedAtMs);
    const term = { worker, leaseMs, ageMs: time.ageMs };
    ending = await keepLease(parts, term, onRenewed, stopping.signal);
    port.postMessage({ ending } satisfies LeaseAnswer);
    await kv.close();
  } finally {
    port.close();
  }
}

if (parentPort !== null) await run(parentPort);

/**
 * Child process that renews one lease of its parent, on its own connection to the store. Ends on
 * request, when the lease is lost, when the parent has exited, or when the parent sends no
 * heartbeats, because a suspended process must not keep its jobs.
 */
import { hexDecode } from "../../base/index.ts";
import { keepLease, type LeaseEnding, usedLeaseMs, Workers } from "../../jobs/index.ts";
import { type Engine, KeyValueStore, Subspace } from "../../kv/index.ts";
import { openFoundationDbEngine } from "../foundationdb/engine.ts";
import { openLmdbEngine } from "../lmdb/engine.ts";
import { createSystemRuntime } from "../system/runtime.ts";
import {
  BEATS_PER_LEASE,
  type LeaseStore,
  type ProcessLeaseAnswer,
  type ProcessLeaseMessage,
  TIMES_DESCRIPTOR,
} from "./process-lease-messages.ts";
import { SharedTimes } from "./shared-times.ts";

type Message<Kind extends ProcessLeaseMessage["kind"]> = ProcessLeaseMessage & { kind: Kind };

const runtime = createSystemRuntime();
const times = new SharedTimes(TIMES_DESCRIPTOR);
const stopping = new AbortController();
let isRenewing = false;

async function run(): Promise<void> {
  const { store, prefix } = await received("open");
  const kv = new KeyValueStore({ runtime, engine: await openEngine(store) });
  answer({ kind: "ready" });
  const { worker, leaseMs } = await received("start");
  const workers = new Workers(runtime, new Subspace(hexDecode(prefix) ?? new Uint8Array()));
  const term = { worker, leaseMs, ageMs: times.ageMs("renewed") };
  isRenewing = true;
  const watching = watchParent(leaseMs);
  const ending = await keepLease(
    { clock: runtime.clock, kv, workers },
    term,
    (startedAtMs) => times.setAge("renewed", runtime.clock.monotonicMs() - startedAtMs),
    stopping.signal,
  );
  stopping.abort(new Error("The lease ended"));
  answer({ kind: "ended", ending: (await watching) ?? ending });
  await kv.close();
}

/**
 * Ends the renewals when the parent has sent no heartbeats for so long that it must abandon its
 * jobs.
 */
async function watchParent(leaseMs: number): Promise<LeaseEnding | undefined> {
  const { clock } = runtime;
  while (!stopping.signal.aborted) {
    if (times.ageMs("alive") > usedLeaseMs(leaseMs)) {
      stopping.abort(new Error("The parent sends no heartbeats"));
      return "lapsed";
    }
    await clock.sleep(leaseMs / BEATS_PER_LEASE, stopping.signal).catch(() => {});
  }
  return undefined;
}

function openEngine(store: LeaseStore): Promise<Engine> {
  if (store.kind === "lmdb") return openLmdbEngine({ runtime, directory: store.directory });
  return openFoundationDbEngine({ runtime, ...store });
}

/** Waits for a message of this kind. Ends the process on `stop` or if the channel closes. */
function received<Kind extends ProcessLeaseMessage["kind"]>(kind: Kind): Promise<Message<Kind>> {
  return new Promise((resolve) => {
    process.on("message", (message: ProcessLeaseMessage) => {
      if (message.kind === kind) resolve(message as Message<Kind>);
    });
  });
}

function answer(message: ProcessLeaseAnswer): void {
  if (process.connected) process.send?.(message);
}

function stop(): void {
  if (!isRenewing) process.exit(0);
  stopping.abort(new Error("The lease has ended"));
}

process.on("message", (message: ProcessLeaseMessage) => {
  if (message.kind === "stop") stop();
});
process.once("disconnect", stop);
// The terminal also sends these signals to the child; the parent decides when the lease ends.
for (const signal of ["SIGINT", "SIGHUP"]) process.on(signal, () => {});

stopping.signal.addEventListener("abort", () => {
  // Exits even if open handles would keep the process alive.
  setTimeout(() => process.exit(0), 1000).unref();
});
run().then(
  () => process.exit(0),
  (error: unknown) => {
    process.stderr.write(`tandem: the lease cannot be renewed: ${String(error)}\n`);
    process.exit(1);
  },
);

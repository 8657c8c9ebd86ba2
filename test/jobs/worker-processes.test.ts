/**
 * Workers as processes on one LMDB store. Jobs of dead processes are requeued, and jobs of busy
 * processes are not.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createSystemRuntime, openLmdbEngine } from "../../src/host/index.ts";
import { type Job, Jobs } from "../../src/jobs/index.ts";
import { KeyValueStore, Subspace } from "../../src/kv/index.ts";
import { stopWhollyByPolling } from "../support/stop-process.ts";

const PROGRAM = fileURLToPath(new URL("../support/jobs-process.mjs", import.meta.url));
const TYPE = "test";
const DEFAULT_LEASE_MS = 5000;
const SHORT_LEASE_MS = 3000;

interface Message {
  readonly event: string;
  readonly id?: string;
}

interface WorkerOptions {
  readonly leaseMs: number;
  readonly mode: "write" | "hold";
  /** Whether a thread or the event loop renews the lease. */
  readonly renewal: Renewal;
}

type Renewal = "thread" | "loop";

/** A worker process and the messages that it has sent. */
class WorkerProcess {
  readonly child: ChildProcess;
  readonly messages: Message[] = [];

  constructor(directory: string, name: string, { leaseMs, mode, renewal }: WorkerOptions) {
    this.child = fork(PROGRAM, [directory, name, String(leaseMs), mode, renewal]);
    this.child.on("message", (message: Message) => this.messages.push(message));
  }

  count(event: string): number {
    return this.messages.filter((message) => message.event === event).length;
  }

  /** Resolves when the process has sent this message `count` times. */
  async said(event: string, count = 1): Promise<void> {
    while (this.count(event) < count) await once(this.child, "message");
  }

  async end(signal: NodeJS.Signals): Promise<number | null> {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      this.child.kill(signal);
      await once(this.child, "exit");
    }
    return this.child.exitCode;
  }
}

let directory: string;
let kv: KeyValueStore;
let jobs: Jobs;
let processes: WorkerProcess[];

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "tandem-jobs-"));
  const runtime = createSystemRuntime();
  kv = new KeyValueStore({ runtime, engine: await openLmdbEngine({ runtime, directory }) });
  jobs = new Jobs(runtime, Subspace.fromTuple(["jobs"]));
  await kv.transact((tx) => jobs.setTypeTimeout(tx, TYPE, 600));
  processes = [];
});

afterEach(async () => {
  for (const opened of processes) await opened.end("SIGKILL");
  await kv.close();
  rmSync(directory, { recursive: true });
});

async function open(
  name: string,
  { mode = "hold", ...options }: Omit<WorkerOptions, "mode"> & Partial<Pick<WorkerOptions, "mode">>,
): Promise<WorkerProcess> {
  const opened = new WorkerProcess(directory, name, { mode, ...options });
  processes.push(opened);
  await opened.said("jobs.worker-registered");
  return opened;
}

async function add(count: number): Promise<void> {
  await kv.transact(async (tx) => {
    for (let number = 0; number < count; number++) {
      await jobs.add(tx, { type: TYPE, id: `job-${number}` }, {});
    }
  });
}

async function all(): Promise<readonly Job[]> {
  return (await kv.read((tx) => jobs.list(tx, TYPE, { limit: 10_000 }))).entries;
}

/**
 * Suspends a process while it is not committing. During a commit it would hold LMDB's lock and
 * block all other processes until it resumes, so no process could expel its worker
 * (docs/spec/jobs.md).
 */
async function stopBetweenCommits(process: WorkerProcess): Promise<void> {
  const probe = Subspace.fromTuple(["probe"]).pack([]);
  const commit = (limits?: { timeoutMs: number }): Promise<void> =>
    kv.transact(async (tx) => tx.add(probe, 1n), limits);
  for (;;) {
    // A process that is not yet completely stopped might begin a commit after ours.
    await stopWhollyByPolling(process.child);
    const hasCommitted = await commit({ timeoutMs: 300 }).then(
      () => true,
      () => false,
    );
    if (hasCommitted) return;
    process.child.kill("SIGCONT");
    // If the process were suspended again immediately, it would never finish its commit.
    await commit();
  }
}

/** Time for which the event loop is blocked. It exceeds two leases. */
const BLOCK_MS = 12_000;

describe.each<Renewal>(["thread", "loop"])(
  "workers whose leases are renewed by a %s",
  (renewal) => {
    test("another process accepts all 1,000 jobs of a killed process", async () => {
      const victim = await open("victim", { renewal, leaseMs: DEFAULT_LEASE_MS });
      await add(1000);
      await victim.said("accepted", 1000);
      const other = await open("other", { renewal, leaseMs: DEFAULT_LEASE_MS });
      await victim.end("SIGKILL");
      await other.said("accepted", 1000);
      expect((await all()).every(({ state }) => state === "running")).toBe(true);
    });

    test("a stopping process returns its jobs before its lease ends", async () => {
      const first = await open("first", { renewal, leaseMs: DEFAULT_LEASE_MS });
      await add(50);
      await first.said("accepted", 50);
      const other = await open("other", { renewal, leaseMs: DEFAULT_LEASE_MS });
      expect(await first.end("SIGTERM")).toBe(0);
      await other.said("accepted", 50);
      // The jobs were accepted before the lease of the stopped process expired.
      expect(other.count("jobs.worker-expelled")).toBe(0);
    });

    test("a process that is suspended for longer than its lease stops when it resumes, and none of its writes is accepted", async () => {
      const sleeper = await open("sleeper", { renewal, leaseMs: SHORT_LEASE_MS, mode: "write" });
      await add(20);
      await sleeper.said("accepted", 20);
      const other = await open("other", { renewal, leaseMs: SHORT_LEASE_MS });
      await stopBetweenCommits(sleeper);
      await other.said("accepted", 20);
      const before = await all();
      const acceptedCount = sleeper.count("accepted");
      sleeper.child.kill("SIGCONT");
      await sleeper.said("jobs.worker-lost");
      await sleeper.said("jobs.worker-registered", 2);
      expect(await all()).toEqual(before);
      expect(sleeper.count("accepted")).toBe(acceptedCount);
    });
  },
);

test("a process that renews its lease in a thread keeps its jobs while its event loop is blocked", async () => {
  const lease = { renewal: "thread", leaseMs: DEFAULT_LEASE_MS } as const;
  const busy = await open("busy", { ...lease, mode: "write" });
  await add(20);
  await busy.said("accepted", 20);
  const other = await open("other", lease);
  busy.child.send({ blockMs: BLOCK_MS });
  await busy.said("unblocked");
  // The process continues to write, and has lost no job.
  await busy.said("wrote", 20);
  expect(busy.count("halted")).toBe(0);
  expect(busy.count("jobs.worker-lost")).toBe(0);
  expect(other.count("accepted")).toBe(0);
  expect(other.count("jobs.worker-expelled")).toBe(0);
});

test("a process that renews its lease in its event loop loses its jobs while the loop is blocked, and none of its writes is accepted", async () => {
  const lease = { renewal: "loop", leaseMs: SHORT_LEASE_MS } as const;
  const busy = await open("busy", { ...lease, mode: "write" });
  await add(20);
  await busy.said("accepted", 20);
  const other = await open("other", lease);
  busy.child.send({ blockMs: BLOCK_MS });
  await other.said("accepted", 20);
  const before = await all();
  await busy.said("jobs.worker-lost");
  await busy.said("jobs.worker-registered", 2);
  expect(await all()).toEqual(before);
});

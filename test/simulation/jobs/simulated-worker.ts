/** A node that runs jobs. Each job writes occasionally, and then finishes or runs again. */
import { setMaxListeners } from "node:events";
import { errorCode, waitAtMost } from "../../../src/base/index.ts";
import {
  ActivityMonitor,
  type HeldJob,
  InLoopLeaseRenewer,
  type Jobs,
  JobWorker,
  type Labels,
  type WorkerId,
} from "../../../src/jobs/index.ts";
import type { Transaction } from "../../../src/kv/index.ts";
import type { SimulatedNode } from "../kernel/simulated-node.ts";
import type { JobsKnobs } from "./knobs.ts";

/** Fraction of jobs that do not notice that their worker was expelled. Only the lock stops them. */
const DEAF_RATIO = 0.2;
const RUNNING_MAX = 8;

export interface SimulatedWorkerParts {
  readonly node: SimulatedNode;
  readonly jobs: Jobs;
  readonly type: string;
  readonly labels: Labels;
  readonly knobs: JobsKnobs;
  readonly stopping: AbortSignal;
  readonly onAccepted: (jobCount: number) => void;
  /** Called if a service ends for a reason other than a failure of the store. */
  readonly onDefect: (error: unknown) => void;
}

export class SimulatedWorker {
  readonly #parts: SimulatedWorkerParts;

  constructor(parts: SimulatedWorkerParts) {
    this.#parts = parts;
  }

  async run(): Promise<void> {
    const { node, jobs, type, labels, knobs, stopping } = this.#parts;
    const { kv, runtime } = node;
    const { clock } = runtime;
    const worker = new JobWorker({
      runtime,
      kv,
      jobs,
      renewer: new InLoopLeaseRenewer({ clock, kv, workers: jobs.workers }),
      node: node.name,
      processId: "1",
      types: [type],
      labels,
      leaseMs: knobs.leaseMs,
    });
    const monitor = new ActivityMonitor(runtime, kv, jobs, type);
    const sweep = async (tx: Transaction): Promise<unknown> =>
      jobs.idleGroups.forget(tx, type, { after: undefined, limit: 100 });
    await Promise.all([
      this.#keep(() => monitor.run(stopping)),
      this.#keep(async () => {
        await kv.transact(sweep, { signal: stopping, whenUnknown: "retry" });
      }),
      this.#keep(() =>
        worker.run(stopping, ({ id, expelled }) =>
          this.#process(id, AbortSignal.any([stopping, expelled])),
        ),
      ),
    ]);
  }

  async #keep(service: () => Promise<void>): Promise<void> {
    const { node, stopping, onDefect } = this.#parts;
    while (!stopping.aborted) {
      await service().catch((error: unknown) => {
        if (!isOfStore(error) && !stopping.aborted) onDefect(error);
      });
      await node.runtime.clock.sleep(1000, stopping).catch(() => {});
    }
  }

  /** Accepts and runs jobs until `over` aborts. */
  async #process(worker: WorkerId, over: AbortSignal): Promise<void> {
    const { node, jobs, type, knobs, stopping, onAccepted } = this.#parts;
    const { kv, random } = node;
    const { clock } = node.runtime;
    const running = new Set<Promise<void>>();
    setMaxListeners(0, over);
    while (!over.aborted) {
      const accept = async (tx: Transaction) => {
        const dueBySec = Math.floor(clock.nowMs() / 1000);
        const countMax = 1 + random.integer(knobs.acceptCountMax);
        return jobs.accept(tx, type, { dueBySec, countMax, worker });
      };
      try {
        const acceptance = await kv.transact(accept, { signal: over });
        if (acceptance.kind === "none-due") {
          await waitAtMost(clock, knobs.idleMs, over, (waited) =>
            acceptance.enqueued.fired(waited),
          );
          acceptance.enqueued.cancel();
          continue;
        }
        onAccepted(acceptance.held.length);
        for (const held of acceptance.held) {
          const run = this.#runJob(held, random.chance(DEAF_RATIO) ? stopping : over);
          running.add(run);
          void run.finally(() => running.delete(run));
        }
        while (running.size > RUNNING_MAX && !over.aborted) await Promise.race(running);
      } catch (error) {
        if (errorCode(error) === "JOBS_WORKER_EXPELLED") throw error;
        if (errorCode(error) !== "KV_UNKNOWN_COMMIT" && !over.aborted) throw error;
        // If jobs were accepted despite the error, they are found later, because they send no
        // heartbeats.
      }
    }
    await Promise.all(running);
  }

  /** Runs a job until it ends or is lost. */
  async #runJob(held: HeldJob, over: AbortSignal): Promise<void> {
    const { node, jobs } = this.#parts;
    const { kv, runtime, random } = node;
    try {
      const writeCount = random.integer(4);
      for (let number = 0; number < writeCount; number++) {
        await runtime.clock.sleep(random.between(10, 5000), over);
        await kv.transact((tx) => jobs.update(tx, held, { number }), { signal: over });
      }
      const isRepeated = random.chance(0.1);
      const finish = async (tx: Transaction): Promise<void> => {
        if (isRepeated) await jobs.resubmit(tx, held, 0);
        await jobs.finish(tx, held);
      };
      await kv.transact(finish, { signal: over });
    } catch (error) {
      if (isOfStore(error) || errorCode(error) === "JOBS_HALTED" || over.aborted) return;
      throw error;
    }
  }
}

function isOfStore(error: unknown): boolean {
  return errorCode(error)?.startsWith("KV_") === true;
}

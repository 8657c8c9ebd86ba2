/**
 * Workers that run jobs while everything goes wrong, from a seed. In the end all faults are healed, and then every job has to
 * be finished or removed within the time that the queue promises.
 */

import { setMaxListeners } from "node:events";
import { errorCode, type Runtime, waitAtMost } from "../../src/base/index.ts";
import {
  ActivityMonitor,
  type HeldJob,
  InLoopLeaseRenewer,
  Jobs,
  JobWorker,
  type WorkerId,
} from "../../src/jobs/index.ts";
import { type MemoryStorage, Subspace, type Transaction } from "../../src/kv/index.ts";
import { checkQueue } from "./check-queue.ts";
import { checkLedger, enter } from "./jobs-ledger.ts";
import type { NodeTraits, SimulatedNode } from "./kernel/simulated-node.ts";
import { World } from "./kernel/world.ts";

const TYPE = "test";
const SUBSPACE = Subspace.fromTuple(["jobs"]);
const LEASE_MS = 5000;
const TYPE_TIMEOUT_SEC = 20;
const FAULTY_MS = 30_000;
/** Usage is nothing after some seconds, so that groups without jobs are forgotten. */
const FORGETFUL = { usageCoefficient: 0.5, intervalSec: 0.2, instalmentSec: 1 };
const DEAF_RATIO = 0.2;
/** After the last fault: some rescues one after another, each by the activity timeout at worst. */
const CALM_MS = 200_000;

export interface ClusterOptions {
  /** A world whose store is not what it should be. */
  readonly storage?: MemoryStorage;
  readonly workerCount?: number;
  /** The queue as workers see it, when it is not what it should be. */
  readonly openJobs?: (runtime: Runtime, subspace: Subspace) => Jobs;
}

export interface ClusterOutcome {
  readonly problems: readonly string[];
  /** Equal for two runs of one seed. */
  readonly fingerprint: string;
  readonly expelledCount: number;
  readonly acceptedCount: number;
}

export async function runJobsCluster(
  seed: number,
  { storage, workerCount, openJobs }: ClusterOptions = {},
): Promise<ClusterOutcome> {
  const world = new World(`jobs-${seed}`, storage);
  return new JobsCluster(world, openJobs).run(workerCount);
}

class JobsCluster {
  readonly #world: World;
  readonly #openJobs: NonNullable<ClusterOptions["openJobs"]>;
  readonly #random;
  readonly #stopping = new AbortController();
  readonly #ended: Promise<void>[] = [];
  readonly #groups: (string | undefined)[];
  #acceptedCount = 0;
  #expelledCount = 0;

  constructor(
    world: World,
    openJobs: ClusterOptions["openJobs"] = (runtime, subspace) => new Jobs(runtime, subspace),
  ) {
    this.#world = world;
    this.#openJobs = openJobs;
    this.#random = world.random.fork("cluster");
    // With many groups some run empty.
    const named = this.#random.pick([[], ["a", "b", "c"], [..."abcdefghijkl"]]);
    this.#groups = [undefined, ...named];
    world.listeners.push((name) => {
      if (name === "jobs.worker-expelled") this.#expelledCount++;
    });
  }

  async run(workerCount = this.#random.chance(0.02) ? 50 : 2 + this.#random.integer(4)) {
    const world = this.#world;
    setMaxListeners(0, this.#stopping.signal);
    const client = world.openNode(this.#traits());
    const jobs = new Jobs(client.runtime, SUBSPACE);
    await world.until(
      client.kv.transact(
        async (tx) => {
          await jobs.setTypeTimeout(tx, TYPE, TYPE_TIMEOUT_SEC);
          await jobs.groups.setFairShare(tx, TYPE, FORGETFUL);
        },
        { whenUnknown: "retry" },
      ),
    );
    for (let count = 0; count < workerCount; count++) this.#openWorker();
    const creating = this.#create(client, jobs);
    this.#scheduleFaults();
    await world.time.run(FAULTY_MS);
    for (const node of world.nodes) node.heal();
    const problems: string[] = [];
    const isOver = await this.#settle(creating, client, jobs);
    if (!isOver) problems.push("after all faults were healed, some job is never finished");
    this.#stopping.abort(new Error("The simulation is over"));
    await world.until(Promise.all(this.#ended));
    problems.push(
      ...(await world.until(client.kv.read((tx) => checkQueue(tx, jobs, SUBSPACE, TYPE)))),
      ...(await world.until(client.kv.read(checkLedger))),
    );
    return {
      problems,
      fingerprint: world.fingerprint,
      expelledCount: this.#expelledCount,
      acceptedCount: this.#acceptedCount,
    };
  }

  #traits(): Partial<NodeTraits> {
    const random = this.#random;
    return {
      skewMs: random.between(-60_000, 60_000),
      clockRate: random.between(0.98, 1.02),
      delayMsMax: random.pick([0, 5, 50]),
      conflictRatio: random.pick([0, 0.05]),
      unknownRatio: random.pick([0, 0.03]),
      tooOldRatio: random.pick([0, 0.02]),
    };
  }

  /** Adds jobs, adds some again, and removes some. */
  async #create({ kv, runtime }: SimulatedNode, jobs: Jobs): Promise<void> {
    const random = this.#random.fork("creator");
    const jobCount = 5 + random.integer(25);
    const perform = (body: (tx: Transaction) => Promise<unknown>) =>
      kv.transact(body, { whenUnknown: "check" });
    for (let number = 0; number < 1.3 * jobCount; number++) {
      const name = { type: TYPE, id: `job-${random.integer(jobCount)}` };
      if (random.chance(0.1)) await perform((tx) => jobs.remove(tx, name));
      else {
        const nowSec = Math.floor(runtime.clock.nowMs() / 1000);
        const scheduledAtSec = random.chance(0.3) ? nowSec + random.integer(20) : 0;
        const group = random.pick(this.#groups);
        await perform((tx) => jobs.add(tx, name, { number }, { scheduledAtSec, group }));
      }
      await runtime.clock.sleep(random.between(0, 1000));
    }
  }

  /** Whether every job ends in time. */
  async #settle(creating: Promise<void>, { kv }: SimulatedNode, jobs: Jobs): Promise<boolean> {
    const { time } = this.#world;
    await this.#world.until(creating);
    const untilMs = time.nowMs + CALM_MS;
    while (time.nowMs < untilMs) {
      const { pending, running } = await this.#world.until(
        kv.read((tx) => jobs.counts.recount(tx, TYPE)),
      );
      if (pending + running === 0) return true;
      await time.run(time.nowMs + 5000);
    }
    return false;
  }

  #scheduleFaults(): void {
    const { time, nodes } = this.#world;
    const random = this.#random.fork("faults");
    const strike = (): void => {
      if (time.nowMs >= FAULTY_MS) return;
      // The creator is the first node: its faults are those of the store only.
      const node = random.pick(nodes.slice(1));
      const durationMs = random.between(500, 20_000);
      const end = (heal: () => void) => time.schedule(durationMs, heal);
      const draw = random.ratio();
      if (draw < 0.25) {
        node.crash();
        end(() => this.#openWorker());
      } else if (draw < 0.6) {
        node.pause();
        end(() => node.resume());
      } else {
        node.partition();
        end(() => node.reconnect());
      }
      time.schedule(random.between(500, 8000), strike);
    };
    time.schedule(random.between(500, 8000), strike);
  }

  #openWorker(): void {
    const node = this.#world.openNode(this.#traits());
    const running = this.#runWorker(node);
    this.#ended.push(Promise.race([running, node.crashed]));
  }

  async #runWorker(node: SimulatedNode): Promise<void> {
    const { kv, runtime } = node;
    const { clock } = runtime;
    const { signal } = this.#stopping;
    const jobs = this.#openJobs(runtime, SUBSPACE);
    const worker = new JobWorker({
      runtime,
      kv,
      jobs,
      renewer: new InLoopLeaseRenewer({ clock, kv, workers: jobs.workers }),
      node: node.name,
      processId: "1",
      types: [TYPE],
      leaseMs: LEASE_MS,
    });
    const monitor = new ActivityMonitor(runtime, kv, jobs, TYPE);
    const keep = async (service: () => Promise<void>): Promise<void> => {
      while (!signal.aborted) {
        await service().catch(() => {});
        await clock.sleep(1000, signal).catch(() => {});
      }
    };
    const sweep = async (tx: Transaction): Promise<unknown> =>
      jobs.idleGroups.forget(tx, TYPE, { after: undefined, limit: 100 });
    await Promise.all([
      keep(() => monitor.run(signal)),
      keep(async () => void (await kv.transact(sweep, { signal, whenUnknown: "retry" }))),
      keep(() =>
        worker.run(signal, ({ id, expelled }) =>
          this.#process(node, jobs, id, AbortSignal.any([signal, expelled])),
        ),
      ),
    ]);
  }

  /** Accepts and runs jobs until it is over. */
  async #process(
    node: SimulatedNode,
    jobs: Jobs,
    worker: WorkerId,
    over: AbortSignal,
  ): Promise<void> {
    const { kv, random } = node;
    const { clock } = node.runtime;
    const running = new Set<Promise<void>>();
    setMaxListeners(0, over);
    while (!over.aborted) {
      const accept = async (tx: Transaction) => {
        const dueBySec = Math.floor(clock.nowMs() / 1000);
        const countMax = 1 + random.integer(4);
        const acceptance = await jobs.accept(tx, TYPE, { dueBySec, countMax, worker });
        if (acceptance.kind === "accepted") {
          for (const held of acceptance.held) enter(tx, held, "accept");
        }
        return acceptance;
      };
      try {
        const acceptance = await kv.transact(accept, { signal: over });
        if (acceptance.kind === "none-due") {
          await waitAtMost(clock, 2000, over, (waited) => acceptance.enqueued.fired(waited));
          acceptance.enqueued.cancel();
          continue;
        }
        for (const held of acceptance.held) {
          this.#acceptedCount++;
          // Some do not hear that their worker was expelled: nothing but the lock stops them.
          const heard = random.chance(DEAF_RATIO) ? this.#stopping.signal : over;
          const run = this.#runJob(node, jobs, held, heard);
          running.add(run);
          void run.finally(() => running.delete(run));
        }
        while (running.size > 8 && !over.aborted) await Promise.race(running);
      } catch (error) {
        if (errorCode(error) === "JOBS_WORKER_EXPELLED") throw error;
        if (errorCode(error) !== "KV_UNKNOWN_COMMIT" && !over.aborted) throw error;
        // What was accepted all the same, if anything, is found by its silence.
      }
    }
    await Promise.all(running);
  }

  /** Writes now and then, and finishes, or runs once more; gives up when it lost the job. */
  async #runJob(
    { kv, runtime, random }: SimulatedNode,
    jobs: Jobs,
    held: HeldJob,
    over: AbortSignal,
  ): Promise<void> {
    try {
      const writeCount = random.integer(4);
      for (let number = 0; number < writeCount; number++) {
        await runtime.clock.sleep(random.between(10, 5000), over);
        const write = async (tx: Transaction): Promise<void> => {
          await jobs.update(tx, held, { number });
          enter(tx, held, "write");
        };
        await kv.transact(write, { signal: over });
      }
      const isRepeated = random.chance(0.1);
      const finish = async (tx: Transaction): Promise<void> => {
        if (isRepeated) await jobs.resubmit(tx, held, 0);
        await jobs.finish(tx, held);
        enter(tx, held, "finish");
      };
      await kv.transact(finish, { signal: over, whenUnknown: "check" });
    } catch (error) {
      if (errorCode(error)?.startsWith("KV_") || errorCode(error) === "JOBS_HALTED") return;
      if (!over.aborted) throw error;
    }
  }
}

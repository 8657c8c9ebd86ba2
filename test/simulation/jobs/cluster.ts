/**
 * Workers that run jobs under faults. A seed determines the faults. At the end all faults are
 * healed. Every job then has to be finished or removed within the time that the queue guarantees.
 */
import { setMaxListeners } from "node:events";
import type { Runtime } from "../../../src/base/index.ts";
import { Jobs, type Labels, labelSet } from "../../../src/jobs/index.ts";
import { type MemoryStorage, Subspace } from "../../../src/kv/index.ts";
import { Faults } from "../faults/faults.ts";
import { crashes, pauses } from "../faults/node-faults.ts";
import { partitionsFromStore } from "../faults/partitions.ts";
import { randomTraits } from "../faults/random-traits.ts";
import { fullStore, slowStore } from "../faults/store-faults.ts";
import { persistently } from "../kernel/persistently.ts";
import type { SimulatedNode } from "../kernel/simulated-node.ts";
import { withSmallPages } from "../kernel/simulated-store.ts";
import { World } from "../kernel/world.ts";
import { checkQueue } from "./check-queue.ts";
import { createJobs } from "./creator.ts";
import { drawKnobs, type JobsKnobs } from "./knobs.ts";
import { recordJobs } from "./ledger.ts";
import { OlderJobs } from "./older-jobs.ts";
import { checkLedger } from "./replay.ts";
import { SimulatedWorker } from "./simulated-worker.ts";

const TYPE = "test";
const SUBSPACE = Subspace.fromTuple(["jobs"]);
const FAULTY_MS = 30_000;
/**
 * Time allowed after the last fault. It suffices for several consecutive rescues of a job, each
 * after an activity timeout.
 */
const CALM_MS = 400_000;

export interface JobsClusterOptions {
  /** Sabotaged store, used instead of a correct one. */
  readonly storage?: MemoryStorage;
  readonly workerCount?: number;
  readonly knobs?: Partial<JobsKnobs>;
  /** Opens the queue that workers use. A test can return a sabotaged queue. */
  readonly openJobs?: (runtime: Runtime, subspace: Subspace) => Jobs;
}

export interface JobsOutcome {
  readonly problems: readonly string[];
  /** Hash of the run's events. Two runs with the same seed have the same hash. */
  readonly fingerprint: string;
  readonly expelledCount: number;
  readonly acceptedCount: number;
}

export function runJobsCluster(
  seed: number,
  options: JobsClusterOptions = {},
): Promise<JobsOutcome> {
  return new JobsCluster(new World(`jobs-${seed}`, options.storage), options).run();
}

class JobsCluster {
  readonly #world: World;
  readonly #options: JobsClusterOptions;
  readonly #random;
  readonly #knobs: JobsKnobs;
  readonly #stopping = new AbortController();
  readonly #ended: Promise<void>[] = [];
  readonly #problems: string[] = [];
  #acceptedCount = 0;
  #expelledCount = 0;

  constructor(world: World, options: JobsClusterOptions) {
    this.#world = world;
    this.#options = options;
    this.#random = world.random.fork("cluster");
    this.#knobs = { ...drawKnobs(world.random.fork("knobs")), ...options.knobs };
    if (this.#knobs.pageBytesMax !== undefined) {
      withSmallPages(world.storage, this.#knobs.pageBytesMax);
    }
    world.listeners.push((name) => {
      if (name === "jobs.worker-expelled") this.#expelledCount++;
    });
  }

  async run(): Promise<JobsOutcome> {
    const world = this.#world;
    setMaxListeners(0, this.#stopping.signal);
    // The observer has no faults.
    const observer = world.openNode();
    const client = world.openNode(randomTraits(this.#random));
    const jobs = this.#recorded(this.#openNewest(client.runtime), client);
    const { typeTimeoutSec, fairShare } = this.#knobs;
    await world.until(
      persistently(client, async (tx) => {
        await jobs.setTypeTimeout(tx, TYPE, typeTimeoutSec);
        await jobs.groups.setFairShare(tx, TYPE, fairShare);
      }),
    );
    const drawn = this.#random.chance(0.01) ? 20 : 2 + this.#random.integer(4);
    const { workerCount = drawn } = this.#options;
    for (let count = 0; count < workerCount; count++) this.#openWorker();
    const creating = createJobs(client, jobs, TYPE, this.#knobs, this.#random.fork("creator"));
    this.#faults(client, observer).schedule(FAULTY_MS);
    // The promise is awaited below. Until then, its rejection must not count as unhandled.
    creating.catch(() => {});
    await world.time.run(FAULTY_MS);
    for (const node of world.nodes) node.heal();
    // Opens a worker with all labels, because the last worker with a certain label might have
    // crashed.
    if (this.#knobs.labelSets.length > 1) this.#openWorker(this.#knobs.labelSets.flat());
    await world.until(creating);
    if (!(await this.#settle(observer))) {
      this.#problems.push("after all faults were healed, some job is never finished");
    }
    this.#stopping.abort(new Error("The simulation is over"));
    await world.until(Promise.all(this.#ended));
    await this.#check(observer);
    return {
      problems: this.#problems,
      fingerprint: world.fingerprint,
      expelledCount: this.#expelledCount,
      acceptedCount: this.#acceptedCount,
    };
  }

  #faults(client: SimulatedNode, observer: SimulatedNode): Faults {
    const world = this.#world;
    const workers = () => world.nodes.filter((node) => node !== client && node !== observer);
    return new Faults(world, this.#random.fork("faults"), [
      crashes(workers, () => this.#openWorker()),
      pauses(workers),
      partitionsFromStore(() => [client, ...workers()]),
      fullStore(world),
      slowStore(world),
    ]);
  }

  /** Waits for the jobs to end. Returns whether every job ended in time. */
  async #settle(observer: SimulatedNode): Promise<boolean> {
    const { time } = this.#world;
    const jobs = new Jobs(observer.runtime, SUBSPACE);
    const untilMs = time.nowMs + CALM_MS;
    while (time.nowMs < untilMs) {
      const { pending, running } = await this.#world.until(
        observer.kv.read((tx) => jobs.counts.recount(tx, TYPE)),
      );
      if (pending + running === 0) return true;
      await time.run(time.nowMs + 5000);
    }
    return false;
  }

  #openWorker(labels: Labels = this.#drawLabels()): void {
    const node = this.#world.openNode(randomTraits(this.#random));
    const worker = new SimulatedWorker({
      node,
      jobs: this.#recorded(this.#openJobs(node.runtime), node, labelSet(labels)),
      type: TYPE,
      labels: labelSet(labels),
      knobs: this.#knobs,
      stopping: this.#stopping.signal,
      onAccepted: (jobCount) => {
        this.#acceptedCount += jobCount;
      },
      onDefect: (error) => this.#problems.push(`a service of ${node.name} ended: ${error}`),
    });
    this.#ended.push(Promise.race([worker.run(), node.crashed]));
  }

  #drawLabels(): Labels {
    const { labelSets } = this.#knobs;
    return labelSets.length === 1 ? [] : this.#random.pick(labelSets);
  }

  #recorded(jobs: Jobs, node: SimulatedNode, labels: Labels = []): Jobs {
    return recordJobs(jobs, SUBSPACE, this.#world, node, labels);
  }

  #openNewest(runtime: Runtime): Jobs {
    return this.#options.openJobs?.(runtime, SUBSPACE) ?? new Jobs(runtime, SUBSPACE);
  }

  #openJobs(runtime: Runtime): Jobs {
    const isOlder = this.#random.chance(this.#knobs.olderRatio);
    if (!isOlder) return this.#openNewest(runtime);
    return new OlderJobs(runtime, SUBSPACE, this.#random.pick([1, 2]));
  }

  async #check({ kv, runtime }: SimulatedNode): Promise<void> {
    const jobs = new Jobs(runtime, SUBSPACE);
    const replayed = { types: [TYPE], calmMs: 2 * this.#knobs.leaseMs };
    this.#problems.push(
      ...(await this.#world.until(kv.read((tx) => checkQueue(tx, jobs, SUBSPACE, TYPE)))),
      ...(await this.#world.until(kv.read((tx) => checkLedger(tx, jobs, replayed)))),
    );
  }
}

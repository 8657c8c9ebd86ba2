/**
 * Complete nodes (store, databases, queue, replicator, scheduler) that replicate under faults, with
 * several concurrent workloads. A seed determines the faults. At the end all faults are healed. The
 * workloads then have to reach their goals.
 */
import { setMaxListeners } from "node:events";
import type { DatabaseHook } from "../../../src/databases/index.ts";
import type { Fetch } from "../../../src/http-client/index.ts";
import { Jobs } from "../../../src/jobs/index.ts";
import type { MemoryStorage } from "../../../src/kv/index.ts";
import { type Endpoints, JOB_TYPES } from "../../../src/replicator/index.ts";
import { composeNode, JOBS_SUBSPACE } from "../../support/compose-node.ts";
import { Faults } from "../faults/faults.ts";
import { crashes, pauses } from "../faults/node-faults.ts";
import { outages, partitionsFromServer, partitionsFromStore } from "../faults/partitions.ts";
import { randomTraits } from "../faults/random-traits.ts";
import { fullStore, slowStore } from "../faults/store-faults.ts";
import { checkQueue } from "../jobs/check-queue.ts";
import { recordJobs } from "../jobs/ledger.ts";
import { checkLedger } from "../jobs/replay.ts";
import type { SimulatedNode } from "../kernel/simulated-node.ts";
import { withSmallPages } from "../kernel/simulated-store.ts";
import { World } from "../kernel/world.ts";
import { HOSTILE_HOST, hostile } from "../network/hostile-server.ts";
import { SimulatedNetwork } from "../network/simulated-network.ts";
import { SERVER_HOST, SimulatedServer } from "../network/simulated-server.ts";
import type { Workload } from "../workload.ts";
import { Client } from "./client.ts";
import { checkCopies } from "./copies.ts";
import { checkDocumentStates, checkHistories, checkLeftovers } from "./histories.ts";
import { drawKnobs, type ReplicationKnobs } from "./knobs.ts";
import { Observations } from "./observations.ts";
import { runReplicatingNode } from "./replicating-node.ts";
import { JOBS_DATABASE, type Scene } from "./scene.ts";
import { Topology } from "./topology.ts";
import { drawWorkloads, type WorkloadName } from "./workloads/draw-workloads.ts";

const FAULTY_MS = 20_000;
const CALM_MS = 600_000;
const POLL_MS = 1000;
/** Targets refuse documents with this name until the faults end. */
const REFUSED = /^refused-/;

export interface ReplicationClusterOptions {
  readonly storage?: MemoryStorage;
  /** Workloads in addition to continuous replications. By default, they are drawn from the seed. */
  readonly workloads?: readonly WorkloadName[];
  readonly endpointsOver?: (endpoints: Endpoints) => void;
  readonly fetchOver?: (fetch: Fetch) => Fetch;
  readonly openJobs?: (...parts: ConstructorParameters<typeof Jobs>) => Jobs;
  /** Time within which the goals have to be reached. */
  readonly calmMs?: number;
}

export interface ReplicationOutcome {
  readonly problems: readonly string[];
  /** Hash of the run's events. Two runs with the same seed have the same hash. */
  readonly fingerprint: string;
  /** Number of observed events, by kind. */
  readonly counts: ReadonlyMap<string, number>;
}

export async function runReplicationCluster(
  seed: number,
  options: ReplicationClusterOptions = {},
): Promise<ReplicationOutcome> {
  return new ReplicationCluster(new World(`replication-${seed}`, options.storage), options).run();
}

class ReplicationCluster {
  readonly #world: World;
  readonly #random;
  readonly #options: ReplicationClusterOptions;
  readonly #knobs: ReplicationKnobs;
  readonly #topology: Topology;
  readonly #scene: Scene;
  readonly #observations: Observations;
  readonly #network: SimulatedNetwork;
  readonly #server: SimulatedServer;
  readonly #clientNode: SimulatedNode;
  readonly #replicating: SimulatedNode[] = [];
  readonly #stopping = new AbortController();
  readonly #ended: Promise<unknown>[] = [];
  readonly #problems = new Set<string>();
  #isRefusing = true;

  constructor(world: World, options: ReplicationClusterOptions) {
    this.#world = world;
    this.#options = options;
    this.#random = world.random.fork("cluster");
    this.#knobs = drawKnobs(world.random.fork("knobs"));
    const { config, pageBytesMax } = this.#knobs;
    if (pageBytesMax !== undefined) withSmallPages(world.storage, pageBytesMax);
    this.#observations = new Observations(world);
    this.#topology = new Topology(this.#random);
    // The observer has no faults.
    const observer = composeNode(world.openNode());
    this.#clientNode = world.openNode(randomTraits(this.#random));
    const clientNode = this.#clientNode;
    const clientJobs = recordJobs(
      new Jobs(clientNode.runtime, JOBS_SUBSPACE),
      JOBS_SUBSPACE,
      world,
      clientNode,
    );
    const { runtime, kv } = clientNode;
    const client = new Client(composeNode({ runtime, kv, config, jobs: clientJobs }));
    const serving = world.openNode();
    this.#server = new SimulatedServer(composeNode({ ...serving, hooks: [this.#refusing()] }));
    const serve = this.#server.serve.bind(this.#server);
    this.#network = new SimulatedNetwork(
      this.#random.fork("network"),
      new Map([
        [SERVER_HOST, serve],
        [HOSTILE_HOST, hostile(serve, this.#random.fork("hostility"))],
      ]),
    );
    const random = this.#random.fork("scene");
    const removed = new Set<string>();
    this.#scene = { world, random, topology: this.#topology, observer, client, removed };
    setMaxListeners(0, this.#stopping.signal);
  }

  async run(): Promise<ReplicationOutcome> {
    const world = this.#world;
    const { client, observer } = this.#scene;
    const workloads = drawWorkloads(this.#scene, this.#options.workloads);
    await world.until(client.node.replicator.prepare());
    await world.until(client.createDatabases([JOBS_DATABASE]));
    for (const workload of workloads) await world.until(workload.setup?.() ?? Promise.resolve());
    const nodeCount = 2 + this.#random.integer(2);
    for (let count = 0; count < nodeCount; count++) this.#openNode();
    this.#faults().schedule(FAULTY_MS);
    const working = Promise.all(workloads.map((workload) => workload.start?.(FAULTY_MS)));
    // The promise is awaited below. Until then, its rejection must not count as unhandled.
    working.catch(() => {});
    await this.#watch(workloads, FAULTY_MS);
    this.#heal();
    await world.until(working);
    await this.#settle(workloads);
    this.#stopping.abort(new Error("The simulation is over"));
    await world.until(Promise.all(this.#ended));
    for (const { check } of bound(workloads)) {
      this.#note(await world.until(observer.kv.read(async (tx) => (await check?.(tx)) ?? [])));
    }
    await this.#checkEnd();
    this.#observations.count("network.faults", this.#network.faultCount);
    return {
      problems: [...this.#problems, ...this.#observations.problems],
      fingerprint: world.fingerprint,
      counts: this.#observations.counts,
    };
  }

  #openNode(): void {
    const node = this.#world.openNode(randomTraits(this.#random));
    this.#replicating.push(node);
    const isOlder = this.#random.chance(this.#knobs.olderRatio);
    const { endpointsOver, openJobs, fetchOver = (fetch) => fetch } = this.#options;
    const running = runReplicatingNode(
      {
        world: this.#world,
        node,
        knobs: this.#knobs,
        jobsMax: this.#random.pick([1, 3, 10]),
        format: isOlder ? this.#random.pick([1, 2]) : undefined,
        fetch: fetchOver(this.#network.fetchFrom(node)),
        refusing: this.#refusing(),
        targets: new Set(this.#topology.links.map(({ target }) => target)),
        endpointsOver,
        openJobs,
      },
      this.#stopping.signal,
    );
    this.#ended.push(running);
  }

  #refusing(): DatabaseHook {
    return {
      appliesTo: (database) => this.#topology.isSink(database),
      beforeWrite: async (_tx, _database, edit) =>
        this.#isRefusing && REFUSED.test(edit.id)
          ? { rejected: "forbidden", reason: "not now" }
          : { edit },
    };
  }

  #faults(): Faults {
    const world = this.#world;
    const replicating = () => this.#replicating;
    const hosts = [SERVER_HOST, HOSTILE_HOST];
    return new Faults(world, this.#random.fork("faults"), [
      crashes(replicating, () => this.#openNode()),
      pauses(replicating),
      partitionsFromStore(replicating),
      partitionsFromStore(() => [this.#clientNode]),
      partitionsFromServer(replicating, hosts),
      outages(replicating, hosts),
      fullStore(world),
      slowStore(world),
    ]);
  }

  #heal(): void {
    this.#isRefusing = false;
    this.#server.heal();
    this.#network.heal();
    for (const node of this.#world.nodes) node.heal();
  }

  /** Advances time. Checks the store soon after each checkpoint. */
  async #watch(workloads: readonly Workload[], untilMs: number): Promise<void> {
    const { time } = this.#world;
    const { observer } = this.#scene;
    while (time.nowMs < untilMs) {
      const seenCount = this.#observations.checkpointCount;
      const isWritten = (): boolean => this.#observations.checkpointCount > seenCount;
      if (!(await time.run(untilMs, isWritten))) return;
      for (const { watch } of bound(workloads)) {
        this.#note(
          await this.#world.until(observer.kv.read(async (tx) => (await watch?.(tx)) ?? [])),
        );
      }
      await time.run(time.nowMs + this.#random.between(0, 400));
    }
  }

  /** Waits until all goals are reached. Reports the missing goals when the time is over. */
  async #settle(workloads: readonly Workload[]): Promise<void> {
    const world = this.#world;
    const untilMs = world.time.nowMs + (this.#options.calmMs ?? CALM_MS);
    for (;;) {
      for (const workload of workloads) await world.until(workload.tend?.() ?? Promise.resolve());
      await this.#watch(workloads, world.time.nowMs + POLL_MS);
      const lacking = await world.until(
        this.#scene.observer.kv.read(async (tx) => {
          const each = [];
          for (const { lacking: ask } of bound(workloads)) each.push(...((await ask?.(tx)) ?? []));
          return each;
        }),
      );
      if (lacking.length === 0) return;
      if (world.time.nowMs < untilMs) continue;
      this.#note(lacking.map((what) => `after all faults were healed: ${what}`));
      return;
    }
  }

  async #checkEnd(): Promise<void> {
    const { kv, jobs, databases } = this.#scene.observer;
    const { workerLeaseSec = 5 } = this.#knobs.config;
    const replayed = { types: JOB_TYPES, calmMs: 2000 * workerLeaseSec };
    const checks = [
      ...JOB_TYPES.map((type) => kv.read((tx) => checkQueue(tx, jobs, JOBS_SUBSPACE, type))),
      kv.read((tx) => checkLedger(tx, jobs, replayed)),
      kv.read((tx) => checkHistories(tx, jobs, this.#observations.crashCounts)),
      kv.read((tx) => checkDocumentStates(tx, jobs, databases)),
      kv.read((tx) => checkLeftovers(tx, jobs)),
      kv.read(checkCopies),
    ];
    for (const problems of await this.#world.until(Promise.all(checks))) this.#note(problems);
  }

  #note(problems: readonly string[]): void {
    for (const problem of problems) this.#problems.add(problem);
  }
}

/** Returns the read-only methods of each workload, bound to the workload. */
function bound(workloads: readonly Workload[]) {
  return workloads.map((workload) => ({
    check: workload.check?.bind(workload),
    watch: workload.watch?.bind(workload),
    lacking: workload.lacking?.bind(workload),
  }));
}

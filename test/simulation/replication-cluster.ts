/**
 * Whole nodes (store, databases, queue, replicator, scheduler) that replicate while everything goes wrong, from a seed. Databases
 * are edited at random, with conflicts and deletions, and some documents are refused by their targets. In the end all
 * faults are healed and all refusals over, and then every target has to hold what its source does.
 */
import { setMaxListeners } from "node:events";
import type { DatabaseHook } from "../../src/databases/index.ts";
import { ActivityMonitor } from "../../src/jobs/index.ts";
import type { MemoryStorage } from "../../src/kv/index.ts";
import {
  type Endpoints,
  parseReplication,
  REPLICATION_JOB_TYPE,
  type ReplicatorConfig,
  replicationId,
} from "../../src/replicator/index.ts";
import { composeNode, JOBS_SUBSPACE } from "../support/compose-node.ts";
import { checkQueue } from "./check-queue.ts";
import {
  type CheckedPair,
  checkCheckpoints,
  checkCounters,
  checkOwners,
  contentOf,
  type Pair,
} from "./check-replications.ts";
import { checkLedger } from "./jobs-ledger.ts";
import type { NodeTraits } from "./kernel/simulated-node.ts";
import { World } from "./kernel/world.ts";
import { RandomEditor } from "./random-editor.ts";
import {
  type Copier,
  checkCopies,
  RecordedJobs,
  recordCopies,
  TWIN,
} from "./replication-ledger.ts";
import { SERVER_URL, SimulatedServer } from "./simulated-server.ts";

const FAULTY_MS = 20_000;
const CALM_MS = 180_000;
const JOBS_DATABASE = "_replicator";
/** Documents of this name are refused by targets until the end. */
const REFUSED = /^refused-/;

const CONFIG: Partial<ReplicatorConfig> = {
  intervalSec: 5,
  runSecMin: 5,
  penaltySecMin: 1,
  penaltySecMax: 4,
  healthThresholdSec: 20,
  activityTimeoutSec: 20,
  stallTimeoutSec: 30,
};

/** Who copies from where; each database is the target of one job at most. */
const TOPOLOGIES: readonly (readonly Pair[])[] = [
  [{ source: "a", target: "b" }],
  [
    { source: "a", target: "b" },
    { source: "c", target: "d" },
    { source: "a", target: "e" },
  ],
  [
    { source: "a", target: "b" },
    { source: "b", target: "c" },
  ],
  [
    { source: "a", target: "b" },
    { source: "b", target: "a" },
  ],
  [
    { source: "a", target: "b" },
    { source: "b", target: "c" },
    { source: "c", target: "a" },
  ],
];

export interface ReplicationClusterOptions {
  readonly storage?: MemoryStorage;
  /** What a node copies with, in place of the program's own. */
  readonly endpointsOver?: (endpoints: Endpoints) => void;
}

export interface ReplicationOutcome {
  readonly problems: readonly string[];
  /** Equal for two runs of one seed. */
  readonly fingerprint: string;
  readonly checkpointCount: number;
  readonly takeoverCount: number;
  readonly refusedCount: number;
  /** Documents that were listed because the server failed over them. */
  readonly passedOverCount: number;
  /** Requests to which the network did something. */
  readonly faultCount: number;
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
  readonly #pairs: readonly Pair[];
  readonly #checked: CheckedPair[] = [];
  readonly #stopping = new AbortController();
  readonly #ended: Promise<unknown>[] = [];
  readonly #copiers: Copier[] = [];
  readonly #problems = new Set<string>();
  readonly #counts = { checkpointCount: 0, takeoverCount: 0, refusedCount: 0, passedOverCount: 0 };
  #server: SimulatedServer | undefined;
  #isRefusing = true;

  constructor(world: World, options: ReplicationClusterOptions) {
    this.#world = world;
    this.#random = world.random.fork("cluster");
    this.#options = options;
    this.#pairs = this.#random.pick(TOPOLOGIES);
    world.listeners.push((name, fields) => {
      if (name === "replication.checkpoint") this.#counts.checkpointCount++;
      if (name === "replication.refused") this.#counts.refusedCount++;
      if (name === "replication.refused" && fields?.status === 500) this.#counts.passedOverCount++;
      if (name === "jobs.worker-expelled") this.#counts.takeoverCount++;
    });
  }

  async run(): Promise<ReplicationOutcome> {
    const world = this.#world;
    setMaxListeners(0, this.#stopping.signal);
    // Nothing happens to this one: it only looks.
    const observer = composeNode(world.openNode());
    const client = composeNode(world.openNode(this.#traits()));
    const serving = composeNode({ ...world.openNode(), hooks: [this.#refusing()] });
    this.#server = new SimulatedServer(serving, this.#random.fork("server"));
    const editor = new RandomEditor(client, this.#random.fork("editor"));
    await world.until(client.replicator.prepare());
    await world.until(editor.createDatabases([JOBS_DATABASE, ...this.#databases()]));
    for (const [number, pair] of this.#pairs.entries()) {
      const body = this.#jobBody(pair);
      const { baseId } = replicationId(client.ids, parseReplication(body), undefined);
      this.#checked.push({ ...pair, baseId });
      await world.until(editor.putJob(JOBS_DATABASE, `job-${number}`, body));
      // The same replication once more: only one of the two may run.
      if (this.#random.chance(0.5)) {
        await world.until(editor.putJob(JOBS_DATABASE, `${TWIN}-${number}`, body));
      }
    }
    const nodeCount = 2 + this.#random.integer(2);
    for (let count = 0; count < nodeCount; count++) this.#openWorker();
    const editing = Promise.all(
      this.#editable().map((database) => editor.edit(database, FAULTY_MS * 0.9)),
    );
    this.#scheduleFaults();
    await this.#watch(observer, FAULTY_MS);
    this.#isRefusing = false;
    this.#server.heal();
    for (const node of world.nodes) node.heal();
    await world.until(editing);
    if (!(await this.#settle(observer))) {
      this.#problems.add("after all faults were healed, some target is not what its source is");
    }
    this.#stopping.abort(new Error("The simulation is over"));
    await world.until(Promise.all(this.#ended));
    await this.#checkEnd(observer);
    return {
      problems: [...this.#problems],
      fingerprint: world.fingerprint,
      faultCount: this.#server.faultCount,
      ...this.#counts,
    };
  }

  #databases(): string[] {
    return [...new Set(this.#pairs.flatMap(({ source, target }) => [source, target]))];
  }

  /** Databases that nobody copies into, and those of a ring. */
  #editable(): string[] {
    const targets = new Set(this.#pairs.map(({ target }) => target));
    const sources = new Set(this.#pairs.map(({ source }) => source));
    const isRing = [...targets].every((target) => sources.has(target));
    return this.#databases().filter((name) => isRing || !targets.has(name));
  }

  /** Nobody copies from it: what it refuses, nobody else lacks. */
  #isSink(database: string): boolean {
    return !this.#pairs.some(({ source }) => source === database);
  }

  #jobBody({ source, target }: Pair): Record<string, unknown> {
    const random = this.#random;
    const place = (database: string): string =>
      random.chance(0.4) ? `${SERVER_URL}/${database}` : database;
    return {
      source: place(source),
      target: place(target),
      retries_per_request: 2,
      continuous: true,
      checkpoint_interval: random.pick([200, 1000, 4000]),
      worker_batch_size: random.pick([1, 3, 20]),
      worker_processes: 1 + random.integer(4),
      failure_retry_sec: 3,
      use_bulk_get: random.chance(0.8),
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

  #openWorker(): void {
    const node = this.#world.openNode(this.#traits());
    const copier: Copier = { node, strikeCount: 0 };
    this.#copiers.push(copier);
    const { runtime, kv, name } = node;
    const composed = composeNode({
      runtime,
      kv,
      nodeName: name,
      config: { ...CONFIG, jobsMax: this.#random.pick([1, 10]) },
      jobs: new RecordedJobs(copier),
      fetch: (this.#server as SimulatedServer).fetchFrom(node),
      hooks: [recordCopies(copier), this.#refusing()],
    });
    this.#options.endpointsOver?.(composed.endpoints);
    const monitor = new ActivityMonitor(runtime, kv, composed.jobs, REPLICATION_JOB_TYPE);
    const { signal } = this.#stopping;
    const keep = async (service: () => Promise<void>): Promise<void> => {
      while (!signal.aborted) {
        await service().catch(() => {});
        await runtime.clock.sleep(1000, signal).catch(() => {});
      }
    };
    const running = Promise.all([
      keep(() => composed.scheduler.run(signal)),
      keep(() => monitor.run(signal)),
    ]);
    this.#ended.push(Promise.race([running, node.crashed]));
  }

  #refusing(): DatabaseHook {
    return {
      appliesTo: (database) => this.#isSink(database),
      beforeWrite: async (_tx, _database, edit) =>
        this.#isRefusing && REFUSED.test(edit.id)
          ? { rejected: "forbidden", reason: "not now" }
          : { edit },
    };
  }

  #scheduleFaults(): void {
    const { time } = this.#world;
    const random = this.#random.fork("faults");
    const strike = (): void => {
      if (time.nowMs >= FAULTY_MS) return;
      const copier = random.pick(this.#copiers);
      const { node } = copier;
      const durationMs = random.between(500, 15_000);
      copier.strikeCount++;
      const draw = random.ratio();
      if (draw < 0.25) {
        node.crash();
        time.schedule(durationMs, () => this.#openWorker());
      } else if (draw < 0.6) {
        node.pause();
        time.schedule(durationMs, () => node.resume());
      } else {
        node.partition();
        time.schedule(durationMs, () => node.reconnect());
      }
      time.schedule(random.between(500, 8000), strike);
    };
    time.schedule(random.between(500, 8000), strike);
  }

  /** Lets time pass, and looks at the checkpoints soon after one was written. */
  async #watch(observer: ReturnType<typeof composeNode>, untilMs: number): Promise<void> {
    const { time } = this.#world;
    const random = this.#random.fork("observer");
    while (time.nowMs < untilMs) {
      const seenCount = this.#counts.checkpointCount;
      const isWritten = (): boolean => this.#counts.checkpointCount > seenCount;
      if (!(await time.run(untilMs, isWritten))) return;
      const found = await this.#world.until(
        observer.kv.read(async (tx) => [
          ...(await checkCheckpoints(tx, observer, this.#checked)),
          ...(await checkOwners(tx, observer.jobs)),
        ]),
      );
      for (const problem of found) this.#problems.add(problem);
      await time.run(time.nowMs + random.between(0, 400));
    }
  }

  /** Whether all targets are what their sources are, in time. */
  async #settle(observer: ReturnType<typeof composeNode>): Promise<boolean> {
    const { time } = this.#world;
    const untilMs = time.nowMs + CALM_MS;
    while (time.nowMs < untilMs) {
      await this.#watch(observer, time.nowMs + 1000);
      const isSettled = await this.#world.until(
        observer.kv.read(async (tx) => {
          const contents = new Map<string, string>();
          for (const name of this.#databases()) {
            contents.set(name, await contentOf(tx, await observer.databases.open(tx, name)));
          }
          return this.#pairs.every(
            ({ source, target }) => contents.get(source) === contents.get(target),
          );
        }),
      );
      if (isSettled) return true;
    }
    return false;
  }

  async #checkEnd({ kv, jobs, databases }: ReturnType<typeof composeNode>): Promise<void> {
    const checks = [
      kv.read((tx) => checkQueue(tx, jobs, JOBS_SUBSPACE, REPLICATION_JOB_TYPE)),
      kv.read(checkLedger),
      kv.read(checkCopies),
      ...this.#databases().map((name) =>
        kv.read(async (tx) => checkCounters(tx, await databases.open(tx, name))),
      ),
    ];
    for (const problems of await this.#world.until(Promise.all(checks))) {
      for (const problem of problems) this.#problems.add(problem);
    }
  }
}

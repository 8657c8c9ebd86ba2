/**
 * Nodes with mostly idle databases, whose jobs are therefore parked. A seed determines the faults
 * of watchers: watchers die, and servers announce changes in unusual ways, late or not at all.
 * Databases are deleted and re-created, and clocks are changed.
 *
 * A server is either honest or lying. With an honest server, each change arrives within seconds,
 * long before the audit of jobs, which finds changes that watchers missed. With a lying server, or
 * after a target is lost, a change arrives within the audit interval.
 */
import { setMaxListeners } from "node:events";
import { JOB_TYPES } from "../../../src/replicator/index.ts";
import { composeNode, JOBS_SUBSPACE } from "../../support/compose-node.ts";
import { Faults } from "../faults/faults.ts";
import { clockSteps, crashes, pauses } from "../faults/node-faults.ts";
import { outages, partitionsFromServer, partitionsFromStore } from "../faults/partitions.ts";
import { slowStore } from "../faults/store-faults.ts";
import { checkQueue } from "../jobs/check-queue.ts";
import type { SimulatedNode } from "../kernel/simulated-node.ts";
import { World } from "../kernel/world.ts";
import { SimulatedNetwork } from "../network/simulated-network.ts";
import { SERVER_HOST, SimulatedServer } from "../network/simulated-server.ts";
import { UnreliableUpdates } from "../network/unreliable-updates.ts";
import { Client } from "../replication/client.ts";
import type { ReplicationKnobs } from "../replication/knobs.ts";
import { Observations } from "../replication/observations.ts";
import { runReplicatingNode } from "../replication/replicating-node.ts";
import { JOBS_DATABASE } from "../replication/scene.ts";
import { place } from "../replication/topology.ts";
import { Arrivals } from "./arrivals.ts";

const FAULTY_MS = 50_000;
const POLL_MS = 2000;
const PAIRS = Array.from({ length: 4 }, (_, number) => ({
  // The first two pairs have the same source.
  source: `source-${Math.max(1, number)}`,
  target: `target-${number}`,
}));

const STEP_MS_MAX = 30_000;
const SKEW_MS_MAX = 3000;
/**
 * Time within which a change arrives after the faults have ended. A lease of ten seconds has to
 * expire, and a watcher that could not reach its source then retries within a minute.
 */
const HEALED_MS = 100_000;
/** Time within which changes are noticed and copied if everything works. */
const PROMPT_MS = 20_000;
/** Time during which documents are edited without faults. */
const CALM_EDITS_MS = 40_000;
const AUDIT_SEC_NEVER = 1_000_000;

export interface WatchingClusterOptions {
  /** Whether the server sends false responses. By default, this is drawn from the seed. */
  readonly lies?: boolean;
  /** Whether the audit wakes no jobs, so that jobs stay parked until a watcher wakes them. */
  readonly neverAudits?: boolean;
}

export interface WatchingOutcome {
  readonly problems: readonly string[];
  readonly fingerprint: string;
  readonly counts: ReadonlyMap<string, number>;
  /** The longest delay of a document during times without faults. */
  readonly longestMs: number;
}

export async function runWatchingCluster(
  seed: number,
  options: WatchingClusterOptions = {},
): Promise<WatchingOutcome> {
  return new WatchingCluster(new World(`watching-${seed}`), options).run();
}

class WatchingCluster {
  readonly #world: World;
  readonly #random;
  readonly #lies: boolean;
  readonly #knobs: ReplicationKnobs;
  readonly #observations: Observations;
  readonly #arrivals: Arrivals;
  readonly #observer;
  readonly #client: Client;
  readonly #updates: UnreliableUpdates;
  readonly #network: SimulatedNetwork;
  readonly #replicating: SimulatedNode[] = [];
  readonly #stopping = new AbortController();
  readonly #ended: Promise<unknown>[] = [];
  /**
   * Targets that are local databases of the nodes. Only these are re-created: a checkpoint for a
   * target on the server might reach the server just after the target was re-created.
   */
  readonly #ownTargets = new Set<string>();
  #documentCount = 0;
  /** Called for each checkpoint, with the name of the checkpoint's source. */
  #onCheckpoint: (source: string) => void = () => {};

  constructor(world: World, options: WatchingClusterOptions) {
    this.#world = world;
    this.#random = world.random.fork("watching");
    this.#lies = options.lies ?? this.#random.chance(0.5);
    const expectedSec = this.#random.pick([30, 120]);
    const audits = this.#lies && options.neverAudits !== true;
    const auditIntervalSec = audits ? expectedSec : AUDIT_SEC_NEVER;
    this.#knobs = drawKnobs(this.#random.fork("knobs"), auditIntervalSec);
    this.#observations = new Observations(world);
    // Clocks differ, and the audit can be up to a tenth of its interval late or early.
    const auditMs = 1100 * expectedSec + 2 * (SKEW_MS_MAX + STEP_MS_MAX);
    this.#arrivals = new Arrivals(PAIRS, {
      healedMs: HEALED_MS + (this.#lies ? auditMs : 0),
      calmMs: PROMPT_MS + (this.#lies ? auditMs : 0),
    });
    // The observer has no faults.
    this.#observer = composeNode(world.openNode());
    this.#client = new Client(composeNode(world.openNode()));
    const server = new SimulatedServer(composeNode(world.openNode()));
    this.#updates = new UnreliableUpdates(
      server.serve.bind(server),
      this.#random.fork("updates"),
      world.time,
      this.#lies,
    );
    const serve = this.#updates.serve.bind(this.#updates);
    this.#network = new SimulatedNetwork(
      this.#random.fork("network"),
      new Map([[SERVER_HOST, serve]]),
    );
    world.listeners.push((name, { source }) => {
      if (name === "replication.checkpoint") this.#onCheckpoint(nameOf(String(source)));
    });
    setMaxListeners(0, this.#stopping.signal);
  }

  async run(): Promise<WatchingOutcome> {
    const world = this.#world;
    await world.until(this.#setUp());
    for (let count = 2 + this.#random.integer(2); count > 0; count--) this.#openNode();
    this.#faults().schedule(FAULTY_MS);
    await this.#watch(FAULTY_MS, this.#edit(FAULTY_MS));
    this.#heal();
    const healedAtMs = world.time.nowMs;
    this.#arrivals.healed(healedAtMs);
    const calmFromMs = healedAtMs + HEALED_MS;
    const calmUntilMs = calmFromMs + CALM_EDITS_MS;
    await this.#watch(calmFromMs);
    if (this.#arrivals.problems.length === 0)
      await this.#watch(calmUntilMs, this.#edit(calmUntilMs));
    while (!this.#arrivals.isOver) await this.#watch(world.time.nowMs + POLL_MS);
    this.#stopping.abort(new Error("The simulation is over"));
    await world.until(Promise.all(this.#ended));
    for (const [fault, count] of this.#updates.counts) this.#observations.count(fault, count);
    return {
      problems: [
        ...this.#arrivals.problems,
        ...this.#observations.problems,
        ...(await this.#queueProblems()),
      ],
      fingerprint: world.fingerprint,
      counts: this.#observations.counts,
      longestMs: this.#arrivals.longestMs,
    };
  }

  async #setUp(): Promise<void> {
    const client = this.#client;
    await client.node.replicator.prepare();
    await client.createDatabases([JOBS_DATABASE]);
    const random = this.#random.fork("jobs");
    for (const [number, { source, target }] of PAIRS.entries()) {
      await client.createDatabases([source, target]);
      const from = place(random, source);
      const to = place(random, target);
      if (to === target) this.#ownTargets.add(target);
      const body = {
        source: from,
        target: to,
        continuous: true,
        create_target: true,
        retries_per_request: 2,
        connection_timeout: 5000,
        checkpoint_interval: random.pick([200, 4000]),
      };
      await client.put(JOBS_DATABASE, `job-${number}`, body);
    }
  }

  #openNode(): void {
    const random = this.#random;
    const node = this.#world.openNode({
      skewMs: random.between(-SKEW_MS_MAX, SKEW_MS_MAX),
      clockRate: random.between(0.99, 1.01),
      delayMsMax: random.pick([0, 20]),
    });
    this.#replicating.push(node);
    const running = runReplicatingNode(
      {
        world: this.#world,
        node,
        knobs: this.#knobs,
        jobsMax: 10,
        format: undefined,
        fetch: this.#network.fetchFrom(node),
        refusing: { appliesTo: () => false },
        targets: new Set(),
      },
      this.#stopping.signal,
    );
    this.#ended.push(running);
  }

  #faults(): Faults {
    const replicating = () => this.#replicating;
    return new Faults(this.#world, this.#random.fork("faults"), [
      crashes(replicating, () => this.#openNode()),
      crashes(replicating, () => this.#openNode()),
      pauses(replicating),
      clockSteps(replicating, STEP_MS_MAX),
      partitionsFromStore(replicating),
      partitionsFromServer(replicating, [SERVER_HOST]),
      outages(replicating, [SERVER_HOST]),
      slowStore(this.#world),
    ]);
  }

  #heal(): void {
    this.#updates.heal();
    this.#network.heal();
    for (const node of this.#world.nodes) node.heal();
  }

  /**
   * Advances time to `untilMs`, or until a document is overdue. Checks which documents have
   * arrived.
   */
  async #watch(untilMs: number, working: Promise<void> = Promise.resolve()): Promise<void> {
    const { time } = this.#world;
    while (time.nowMs < untilMs && this.#arrivals.problems.length === 0) {
      await time.run(Math.min(untilMs, time.nowMs + POLL_MS));
      await this.#look();
    }
    await this.#world.until(working);
  }

  #look(): Promise<void> {
    const { kv, databases } = this.#observer;
    const { nowMs } = this.#world.time;
    return this.#world.until(kv.read((tx) => this.#arrivals.check(tx, databases, nowMs)));
  }

  /** Writes documents at random times, and re-creates databases. */
  async #edit(untilMs: number): Promise<void> {
    const { time } = this.#world;
    const random = this.#random.fork(`edits until ${untilMs}`);
    while (time.nowMs < untilMs - POLL_MS) {
      const pair = random.pick(PAIRS);
      const pauseMs = Math.min(random.between(100, 8000), untilMs - time.nowMs - POLL_MS);
      // A change is easily missed when a run that is about to park writes its checkpoint: the run
      // has queried its source for the last time, and the source is not watched yet.
      if (random.chance(0.5)) await this.#checkpoint(pair.source, pauseMs);
      else await time.sleep(pauseMs);
      const draw = random.ratio();
      if (draw < 0.1) await this.#remakeSource(pair.source, random.between(0, 3000));
      else if (draw < 0.2 && this.#lies && this.#ownTargets.has(pair.target)) {
        await this.#remakeTarget(pair.target);
      } else await this.#write(pair.source);
    }
  }

  /** Settles when a job with this source has written a checkpoint, or at the time limit. */
  #checkpoint(source: string, limitMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#world.time.schedule(limitMs, resolve);
      this.#onCheckpoint = (written) => {
        if (written === source) resolve();
      };
    });
  }

  async #write(source: string): Promise<void> {
    const id = `doc-${this.#documentCount++}`;
    await this.#client.putOnce(source, id, {});
    this.#arrivals.written(source, id, this.#world.time.nowMs);
  }

  /**
   * Re-creates a source with different documents. The source has as many documents as at the
   * beginning.
   */
  async #remakeSource(source: string, pauseMs: number): Promise<void> {
    await this.#client.removeDatabase(source);
    this.#arrivals.sourceRemoved(source);
    await this.#world.time.sleep(pauseMs);
    await this.#client.createDatabases([source]);
    await this.#write(source);
  }

  async #remakeTarget(target: string): Promise<void> {
    await this.#client.removeDatabase(target);
    this.#arrivals.targetRemoved(target, this.#world.time.nowMs);
    await this.#client.createDatabases([target]);
  }

  async #queueProblems(): Promise<readonly string[]> {
    const { kv, jobs } = this.#observer;
    const checks = JOB_TYPES.map((type) =>
      kv.read((tx) => checkQueue(tx, jobs, JOBS_SUBSPACE, type)),
    );
    return (await this.#world.until(Promise.all(checks))).flat();
  }
}

/** Returns the database name in a URL. */
function nameOf(shownUrl: string): string {
  return shownUrl.split("/").findLast((part) => part !== "") ?? "";
}

function drawKnobs(random: World["random"], auditIntervalSec: number): ReplicationKnobs {
  return {
    config: {
      auditIntervalSec,
      parkAfterSec: random.pick([1, 3]),
      intervalSec: 5,
      runSecMin: 2,
      penaltySecMin: 1,
      penaltySecMax: 4,
      workerLeaseSec: random.pick([2, 10]),
      activityTimeoutSec: random.pick([10, 30]),
      stallTimeoutSec: 20,
    },
    failuresMax: undefined,
    pageBytesMax: undefined,
    olderRatio: 0,
  };
}

/**
 * A very large cluster on the real queue under virtual time. Like a node's scheduler, each
 * simulated node charges, accepts and preempts jobs, concurrently with the others. Each access to
 * the store takes some milliseconds. Nothing is copied: the jobs are continuous, and always have
 * changes.
 */
import { EMPTY_BYTES } from "../../src/base/index.ts";
import { type HeldJob, type Job, Jobs, RunMeter } from "../../src/jobs/index.ts";
import { jobKeys } from "../../src/jobs/job-keys.ts";
import { encodeWaiting } from "../../src/jobs/job-record.ts";
import { Subspace, type Transaction } from "../../src/kv/index.ts";
import {
  chooseStops,
  type RunningJob,
  waitingCountMax,
} from "../../src/replicator/scheduling/choose-stops.ts";
import { countKeys, type KeyCounts } from "../support/kv/counting-engine.ts";
import type { SimulatedNode } from "./kernel/simulated-node.ts";
import { World } from "./kernel/world.ts";

const TYPE = "replication";
const SUBSPACE = Subspace.fromTuple(["jobs"]);
const ACCEPT_ROWS_MAX = 20;
const LOAD_ROWS_MAX = 5000;
/**
 * Pause between two transactions that load jobs. In the pause, the store drops old conflict ranges.
 */
const LOAD_PAUSE_MS = 100;
/** Maximum delay to the store in one direction. */
const DELAY_MS_MAX = 4;
const CYCLE_SEC = 15;
const TURN_SEC = 60;
const CHURN_MAX = 100;
const SHARES = [50, 100, 200];
/**
 * Fraction of the jobs that are in the largest group. Each subsequent group has half as many jobs
 * as the previous one, but at least one job.
 */
const LARGEST_GROUP_RATIO = 0.2;

export interface ScaleOptions {
  readonly nodeCount: number;
  readonly jobCount: number;
  readonly groupCount: number;
  readonly slotsPerNode: number;
  /** Virtual time for which the cluster runs after all jobs are loaded. */
  readonly durationSec: number;
}

/** Load on a store. Each attempt of a transaction is counted. */
export interface StoreLoad extends KeyCounts {
  transactions: number;
  /** Number of attempts that had to be repeated. */
  conflicts: number;
}

export interface GroupOutcome {
  readonly name: string;
  readonly shares: number;
  readonly jobCount: number;
  readonly ranSec: number;
}

export interface ScaleOutcome {
  readonly groups: readonly GroupOutcome[];
  /**
   * Waiting times of groups. A group waits while at least one of its jobs is due and none of its
   * jobs runs.
   */
  readonly groupWaitsSec: readonly number[];
  /** Waiting times of jobs. A job waits from the time when it is due until it runs. */
  readonly jobWaitsSec: readonly number[];
  readonly acceptedCount: number;
  readonly load: StoreLoad;
  readonly durationSec: number;
}

interface Run extends RunningJob {
  readonly id: string;
  readonly held: HeldJob;
  readonly group: string;
  isStopping: boolean;
}

interface Group {
  readonly shares: number;
  readonly jobCount: number;
  ranSec: number;
  runningCount: number;
  waitingSinceSec: number | undefined;
}

export class ScaleCluster {
  readonly #world: World;
  readonly #options: ScaleOptions;
  readonly #groups = new Map<string, Group>();
  readonly #dueSinceSec = new Map<string, number>();
  readonly #groupWaitsSec: number[] = [];
  readonly #jobWaitsSec: number[] = [];
  readonly load: StoreLoad = { transactions: 0, conflicts: 0, readCount: 0, writtenCount: 0 };
  #acceptedCount = 0;
  #startedAtSec = 0;

  constructor(seed: string, options: ScaleOptions) {
    this.#world = new World(seed);
    this.#options = options;
  }

  async run(): Promise<ScaleOutcome> {
    await this.#fill();
    const { nodeCount, durationSec } = this.#options;
    const startedAtSec = this.#nowSec;
    this.#startedAtSec = startedAtSec;
    const nodes = Array.from(
      { length: nodeCount },
      () =>
        new ScaleNode(
          this,
          this.#world.openNode({ delayMsMax: DELAY_MS_MAX }),
          this.#options.slotsPerNode,
        ),
    );
    for (const group of this.#groups.values()) group.waitingSinceSec = startedAtSec;
    await this.#world.until(
      Promise.all(nodes.map((node) => node.run(startedAtSec + durationSec))),
      durationSec * 2000,
    );
    return {
      groups: [...this.#groups].map(([name, { shares, jobCount, ranSec }]) => ({
        name,
        shares,
        jobCount,
        ranSec,
      })),
      groupWaitsSec: this.#groupWaitsSec,
      jobWaitsSec: this.#jobWaitsSec,
      acceptedCount: this.#acceptedCount,
      load: this.load,
      durationSec,
    };
  }

  get #nowSec(): number {
    return this.#world.time.nowMs / 1000;
  }

  /** Adds the jobs. All of them are due when the simulation begins. */
  async #fill(): Promise<void> {
    const node = this.#world.openNode();
    const jobs = new Jobs(node.runtime, SUBSPACE);
    const keys = jobKeys(SUBSPACE);
    const fairShare = { usageCoefficient: 0.5, intervalSec: 600, instalmentSec: CYCLE_SEC };
    await this.#world.until(
      node.kv.transact(async (tx) => {
        await jobs.setTypeTimeout(tx, TYPE, 60);
        await jobs.groups.setFairShare(tx, TYPE, fairShare);
      }),
    );
    for (const [number, jobCount] of this.#groupSizes().entries()) {
      const name = `group-${number}`;
      const shares = SHARES[number % SHARES.length] as number;
      const group = { shares, jobCount, ranSec: 0, runningCount: 0, waitingSinceSec: undefined };
      this.#groups.set(name, group);
      for (let start = 0; start < jobCount; start += LOAD_ROWS_MAX) {
        await this.#world.until(
          node.kv.transact(async (tx) => {
            if (start === 0) {
              await jobs.groups.setShares(tx, TYPE, name, shares);
              await jobs.add(tx, { type: TYPE, id: `${number}-0` }, {}, { group: name });
            }
            // Writes the same rows as `add`, but without its reads. With these reads, adding a
            // million jobs would take minutes.
            for (let job = start || 1; job < Math.min(jobCount, start + LOAD_ROWS_MAX); job++) {
              const waiting = { type: TYPE, id: `${number}-${job}` };
              const terms = { scheduledAtSec: 0, group: name, labels: [], hasRequest: false };
              tx.set(keys.job.key(waiting), encodeWaiting("pending", terms));
              tx.set(
                keys.groupPending.key({ ...waiting, queue: TYPE, group: name, scheduledAtSec: 0 }),
                EMPTY_BYTES,
              );
            }
          }),
        );
        await this.#world.time.run(this.#world.time.nowMs + LOAD_PAUSE_MS);
      }
    }
  }

  #groupSizes(): number[] {
    const { jobCount, groupCount } = this.#options;
    const sizes: number[] = [];
    let left = jobCount;
    for (let number = 0; number < groupCount; number++) {
      const others = groupCount - number - 1;
      const halved = Math.floor(jobCount * LARGEST_GROUP_RATIO * 0.5 ** number);
      const fair = Math.ceil(left / (others + 1));
      const size = Math.max(1, Math.min(left - others, Math.max(halved, fair)));
      sizes.push(size);
      left -= size;
    }
    return sizes;
  }

  // Simulated nodes call `started` and `stopped` to report the start and end of runs.

  started(id: string, group: string): void {
    const nowSec = this.#nowSec;
    this.#acceptedCount++;
    this.#jobWaitsSec.push(nowSec - (this.#dueSinceSec.get(id) ?? this.#startedAtSec));
    const state = this.#groups.get(group) as Group;
    if (state.waitingSinceSec !== undefined) {
      this.#groupWaitsSec.push(nowSec - state.waitingSinceSec);
      state.waitingSinceSec = undefined;
    }
    state.runningCount++;
  }

  stopped(id: string, group: string, ranSec: number): void {
    this.#dueSinceSec.set(id, this.#nowSec);
    const state = this.#groups.get(group) as Group;
    state.ranSec += ranSec;
    state.runningCount--;
    if (state.runningCount === 0) state.waitingSinceSec = this.#nowSec;
  }
}

/** The scheduler of a node, without runs of replications. */
class ScaleNode {
  readonly #cluster: ScaleCluster;
  readonly #node: SimulatedNode;
  readonly #jobs: Jobs;
  readonly #slotCount: number;
  readonly #meter: RunMeter;
  readonly #running = new Set<Run>();

  constructor(cluster: ScaleCluster, node: SimulatedNode, slotCount: number) {
    this.#cluster = cluster;
    this.#node = node;
    this.#jobs = new Jobs(node.runtime, SUBSPACE);
    this.#slotCount = slotCount;
    this.#meter = new RunMeter(node.runtime.clock, CYCLE_SEC);
  }

  async run(untilSec: number): Promise<void> {
    const { clock, random } = this.#node.runtime;
    const untilMs = untilSec * 1000;
    // The nodes of a real cluster do not start at the same moment.
    await clock.sleep(random.ratio() * CYCLE_SEC * 1000);
    while (clock.monotonicMs() < untilMs) {
      await this.#charge();
      await this.#accept();
      await this.#giveWay();
      await this.#accept();
      await clock.sleep(CYCLE_SEC * 1000 * (1 + random.ratio() / 3));
    }
    for (const run of this.#running) this.#cluster.stopped(run.id, run.group, this.#ranSec(run));
  }

  async #transact<T>(body: (tx: Transaction) => Promise<T>): Promise<T> {
    const { load } = this.#cluster;
    load.transactions++;
    let isRepeated = false;
    return this.#node.kv.transact((tx) => {
      if (isRepeated) load.conflicts++;
      isRepeated = true;
      countKeys(tx, load);
      return body(tx);
    });
  }

  async #charge(): Promise<void> {
    const bill = this.#meter.takeBill();
    if (bill.size > 0) await this.#transact((tx) => this.#jobs.groups.charge(tx, TYPE, bill));
  }

  async #accept(): Promise<void> {
    for (;;) {
      const room = this.#slotCount - this.#running.size;
      if (room === 0) return;
      const countMax = Math.min(room, ACCEPT_ROWS_MAX);
      const acceptance = await this.#transact((tx) =>
        this.#jobs.accept(tx, TYPE, { dueBySec: this.#wallSec(), countMax }),
      );
      if (acceptance.kind === "none-due") {
        acceptance.enqueued.cancel();
        return;
      }
      for (const [index, held] of acceptance.held.entries()) {
        this.#start(held, acceptance.jobs[index] as Job);
      }
    }
  }

  #start(held: HeldJob, { id, group = "" }: Job): void {
    this.#meter.start(held, group);
    this.#cluster.started(id, group);
    const startedAtMs = this.#node.runtime.clock.monotonicMs();
    const run = { id, held, group, startedAtMs, isContinuous: true, weight: 100, labels: [] };
    this.#running.add({ ...run, isStopping: false });
  }

  async #giveWay(): Promise<void> {
    const dueBySec = this.#wallSec();
    const slots = {
      jobsMax: this.#slotCount,
      churnMax: CHURN_MAX,
      cycleMs: CYCLE_SEC * 1000,
      runMsMin: TURN_SEC * 1000,
      nowMs: this.#node.runtime.clock.monotonicMs(),
    };
    const running = [...this.#running];
    const limit = waitingCountMax(running, slots);
    const waiting = await this.#transact(async (tx) => ({
      count: (await this.#jobs.due(tx.snapshot, TYPE, { dueBySec, limit })).length,
      givingWay: await this.#jobs.groups.givingWay(tx, TYPE, this.#meter.groups().keys(), dueBySec),
    }));
    for (const run of chooseStops(running, slots, waiting)) await this.#stop(run);
  }

  async #stop(run: Run): Promise<void> {
    run.isStopping = true;
    await this.#transact(async (tx) => {
      await this.#jobs.resubmit(tx, run.held, this.#wallSec());
      await this.#jobs.finish(tx, run.held);
    });
    this.#running.delete(run);
    this.#meter.end(run.held);
    this.#cluster.stopped(run.id, run.group, this.#ranSec(run));
  }

  #ranSec({ startedAtMs }: Run): number {
    return (this.#node.runtime.clock.monotonicMs() - startedAtMs) / 1000;
  }

  #wallSec(): number {
    return Math.floor(this.#node.runtime.clock.nowMs() / 1000);
  }
}

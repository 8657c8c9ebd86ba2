/**
 * Slots that groups share, on the real queue under virtual time. Once per cycle, like the scheduler
 * of a node, each node charges usage, accepts jobs into free slots and, if no slot is free,
 * preempts jobs.
 */
import {
  type HeldJob,
  type Job,
  Jobs,
  type Labels,
  RunMeter,
  type WorkerId,
} from "../../src/jobs/index.ts";
import { Subspace, type Transaction } from "../../src/kv/index.ts";
import { chooseStops, type RunningJob } from "../../src/replicator/scheduling/choose-stops.ts";
import type { SimulatedNode } from "./kernel/simulated-node.ts";
import { World } from "./kernel/world.ts";

const TYPE = "test";

export interface SlotOptions {
  /** Slots of each node. */
  readonly slotCount: number;
  /** Labels of each node. Default: one node without labels. */
  readonly nodes?: readonly Labels[];
  readonly cycleSec: number;
  /** Maximum number of jobs that are stopped per cycle. */
  readonly churnMax: number;
  readonly minRunSec: number;
}

export const SLOTS: SlotOptions = { slotCount: 20, cycleSec: 15, churnMax: 10, minRunSec: 60 };

interface Run extends RunningJob {
  readonly id: string;
  readonly group: string;
  readonly held: HeldJob;
}

/** A node, with the jobs in its slots. */
interface SlotNode {
  readonly labels: Labels;
  readonly meter: RunMeter;
  worker: WorkerId | undefined;
  running: Run[];
}

/**
 * A slot that a group acquired. The group had been waiting for the slot, with a due job, since
 * `sinceSec`.
 */
export interface Turn {
  readonly group: string;
  readonly sinceSec: number;
  readonly waitedSec: number;
}

export class SlotCluster {
  readonly #world: World;
  readonly #node: SimulatedNode;
  readonly #options: SlotOptions;
  readonly #nodes: readonly SlotNode[];
  readonly jobs: Jobs;
  /** Run time of one-shot jobs. All other jobs run until they are preempted. */
  readonly #oneShotSec = new Map<string, number>();
  readonly #waitingSinceSec = new Map<string, number>();
  /** Run time of each group so far. */
  readonly ranSec = new Map<string, number>();
  readonly turns: Turn[] = [];

  private constructor(seed: string, options: SlotOptions) {
    this.#world = new World(seed);
    this.#node = this.#world.openNode();
    this.#options = options;
    this.jobs = new Jobs(this.#node.runtime, Subspace.fromTuple(["jobs"]));
    const { clock } = this.#node.runtime;
    const { nodes = [[]], cycleSec } = options;
    this.#nodes = nodes.map((labels) => {
      return { labels, meter: new RunMeter(clock, cycleSec), worker: undefined, running: [] };
    });
  }

  static async open(seed: string, options: SlotOptions = SLOTS): Promise<SlotCluster> {
    const cluster = new SlotCluster(seed, options);
    const fairShare = {
      usageCoefficient: 0.5,
      intervalSec: 600,
      instalmentSec: options.cycleSec,
    };
    await cluster.transact(async (tx) => {
      await cluster.jobs.setTypeTimeout(tx, TYPE, 60);
      await cluster.jobs.groups.setFairShare(tx, TYPE, fairShare);
      if (options.nodes === undefined) return;
      for (const [index, node] of cluster.#nodes.entries()) {
        const facts = { node: `n${index}`, processId: "1", types: [TYPE], leaseMs: 5000 };
        const { labels } = node;
        node.worker = cluster.jobs.workers.register(tx, { ...facts, labels }).id;
      }
    });
    return cluster;
  }

  get nowSec(): number {
    return this.#world.time.nowMs / 1000;
  }

  transact<T>(body: (tx: Transaction) => Promise<T>): Promise<T> {
    return this.#world.until(this.#node.kv.transact(body));
  }

  async setShares(group: string, shares: number): Promise<void> {
    await this.transact((tx) => this.jobs.groups.setShares(tx, TYPE, group, shares));
  }

  /** Returns the current decayed usage of a group, per share. */
  async standing(group: string) {
    return this.transact((tx) => this.jobs.groups.standing(tx, TYPE, group));
  }

  /** Adds continuous jobs or, if `oneShotSec` is given, one-shot jobs with this run time. */
  async add(
    group: string,
    jobCount: number,
    oneShotSec?: number,
    labels: Labels = [],
  ): Promise<void> {
    await this.transact(async (tx) => {
      for (let number = 0; number < jobCount; number++) {
        const id = `${group}-${this.nowSec}-${labels}-${number}`;
        if (oneShotSec !== undefined) this.#oneShotSec.set(id, oneShotSec);
        await this.jobs.add(tx, { type: TYPE, id }, {}, { group, labels });
      }
    });
    this.#startWaiting(group);
  }

  async run(durationSec: number): Promise<void> {
    const untilSec = this.nowSec + durationSec;
    while (this.nowSec < untilSec) {
      for (const node of this.#nodes) await this.#cycle(node);
      await this.#world.time.run((this.nowSec + this.#options.cycleSec) * 1000);
    }
  }

  async #cycle(node: SlotNode): Promise<void> {
    const { slotCount, cycleSec, churnMax, minRunSec } = this.#options;
    const isOver = (run: Run): boolean =>
      this.#ranSec(run) >= (this.#oneShotSec.get(run.id) ?? Infinity);
    for (const run of node.running.filter(isOver)) await this.#stop(node, run, false);
    await this.#charge(node);
    await this.#accept(node);
    if (node.running.length < slotCount) return;
    const dueBySec = this.#wallSec();
    const { labels, meter } = node;
    const groups = meter.groups().keys();
    const waiting = await this.transact(async (tx) => ({
      count: (await this.jobs.due(tx, TYPE, { dueBySec, limit: churnMax, labels })).length,
      givingWay: await this.jobs.groups.givingWay(tx, TYPE, groups, dueBySec, labels),
    }));
    const slots = {
      jobsMax: slotCount,
      churnMax,
      cycleMs: cycleSec * 1000,
      runMsMin: minRunSec * 1000,
      nowMs: this.nowSec * 1000,
    };
    for (const run of chooseStops(node.running, slots, waiting)) {
      await this.#stop(node, run, true);
    }
    await this.#charge(node);
    await this.#accept(node);
  }

  async #charge({ meter }: SlotNode): Promise<void> {
    const bill = meter.takeBill();
    await this.transact((tx) => this.jobs.groups.charge(tx, TYPE, bill));
  }

  async #accept(node: SlotNode): Promise<void> {
    const { worker } = node;
    const holder = worker === undefined ? {} : { worker };
    for (;;) {
      const countMax = this.#options.slotCount - node.running.length;
      if (countMax === 0) return;
      const acceptance = await this.transact((tx) =>
        this.jobs.accept(tx, TYPE, { dueBySec: this.#wallSec(), countMax, ...holder }),
      );
      if (acceptance.kind === "none-due") {
        acceptance.enqueued.cancel();
        this.#waitingSinceSec.clear();
        return;
      }
      for (const [index, held] of acceptance.held.entries()) {
        const { group, labels } = acceptance.jobs[index] as Job & { readonly group: string };
        node.meter.start(held, group);
        node.running.push({
          id: held.id,
          group,
          held,
          isContinuous: !this.#oneShotSec.has(held.id),
          startedAtMs: this.nowSec * 1000,
          weight: 100,
          labels,
          isStopping: false,
        });
        await this.#noteTurn(group);
      }
    }
  }

  async #noteTurn(group: string): Promise<void> {
    const sinceSec = this.#waitingSinceSec.get(group) ?? this.nowSec;
    this.turns.push({ group, sinceSec, waitedSec: this.nowSec - sinceSec });
    this.#waitingSinceSec.delete(group);
    const { pending } = await this.transact((tx) => this.jobs.counts.read(tx, TYPE, group));
    if (pending > 0) this.#startWaiting(group);
  }

  #startWaiting(group: string): void {
    if (!this.#waitingSinceSec.has(group)) this.#waitingSinceSec.set(group, this.nowSec);
  }

  async #stop(node: SlotNode, run: Run, isRepeated: boolean): Promise<void> {
    await this.transact(async (tx) => {
      if (isRepeated) await this.jobs.resubmit(tx, run.held, this.#wallSec());
      await this.jobs.finish(tx, run.held);
    });
    node.meter.end(run.held);
    node.running = node.running.filter((other) => other !== run);
    this.ranSec.set(run.group, (this.ranSec.get(run.group) ?? 0) + this.#ranSec(run));
    if (isRepeated) this.#startWaiting(run.group);
  }

  #ranSec({ startedAtMs }: Run): number {
    return this.nowSec - startedAtMs / 1000;
  }

  #wallSec(): number {
    return Math.floor(this.#node.runtime.clock.nowMs() / 1000);
  }
}

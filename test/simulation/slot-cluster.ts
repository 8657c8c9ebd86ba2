/**
 * Slots that groups share, on the real queue under virtual time. Once per cycle, like the scheduler
 * of a node, the cluster charges usage, accepts jobs into free slots and, if no slot is free,
 * preempts jobs.
 */
import { type HeldJob, Jobs, RunMeter } from "../../src/jobs/index.ts";
import { Subspace, type Transaction } from "../../src/kv/index.ts";
import { chooseStops, type RunningJob } from "../../src/replicator/scheduling/choose-stops.ts";
import type { SimulatedNode } from "./kernel/simulated-node.ts";
import { World } from "./kernel/world.ts";

const TYPE = "test";

export interface SlotOptions {
  readonly slotCount: number;
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

/**
 * A slot that a group got. The group had been waiting for the slot, with a due job, since
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
  readonly #meter: RunMeter;
  readonly jobs: Jobs;
  #running: Run[] = [];
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
    this.#meter = new RunMeter(this.#node.runtime.clock, options.cycleSec);
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
  async add(group: string, jobCount: number, oneShotSec?: number): Promise<void> {
    await this.transact(async (tx) => {
      for (let number = 0; number < jobCount; number++) {
        const id = `${group}-${this.nowSec}-${number}`;
        if (oneShotSec !== undefined) this.#oneShotSec.set(id, oneShotSec);
        await this.jobs.add(tx, { type: TYPE, id }, {}, { group });
      }
    });
    this.#startWaiting(group);
  }

  async run(durationSec: number): Promise<void> {
    const untilSec = this.nowSec + durationSec;
    while (this.nowSec < untilSec) {
      await this.#cycle();
      await this.#world.time.run((this.nowSec + this.#options.cycleSec) * 1000);
    }
  }

  async #cycle(): Promise<void> {
    const { slotCount, cycleSec, churnMax, minRunSec } = this.#options;
    const isOver = (run: Run): boolean =>
      this.#ranSec(run) >= (this.#oneShotSec.get(run.id) ?? Infinity);
    for (const run of this.#running.filter(isOver)) await this.#stop(run, false);
    await this.#charge();
    await this.#accept();
    if (this.#running.length < slotCount) return;
    const dueBySec = this.#wallSec();
    const waiting = await this.transact(async (tx) => ({
      count: (await this.jobs.due(tx, TYPE, { dueBySec, limit: churnMax })).length,
      givingWay: await this.jobs.groups.givingWay(tx, TYPE, this.#meter.groups().keys(), dueBySec),
    }));
    const slots = {
      jobsMax: slotCount,
      churnMax,
      cycleMs: cycleSec * 1000,
      runMsMin: minRunSec * 1000,
      nowMs: this.nowSec * 1000,
    };
    for (const run of chooseStops(this.#running, slots, waiting)) await this.#stop(run, true);
    await this.#charge();
    await this.#accept();
  }

  async #charge(): Promise<void> {
    const bill = this.#meter.takeBill();
    await this.transact((tx) => this.jobs.groups.charge(tx, TYPE, bill));
  }

  async #accept(): Promise<void> {
    for (;;) {
      const countMax = this.#options.slotCount - this.#running.length;
      if (countMax === 0) return;
      const acceptance = await this.transact((tx) =>
        this.jobs.accept(tx, TYPE, { dueBySec: this.#wallSec(), countMax }),
      );
      if (acceptance.kind === "none-due") {
        acceptance.enqueued.cancel();
        this.#waitingSinceSec.clear();
        return;
      }
      for (const [index, held] of acceptance.held.entries()) {
        const group = acceptance.jobs[index]?.group as string;
        this.#meter.start(held, group);
        this.#running.push({
          id: held.id,
          group,
          held,
          isContinuous: !this.#oneShotSec.has(held.id),
          startedAtMs: this.nowSec * 1000,
          weight: 100,
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

  async #stop(run: Run, isRepeated: boolean): Promise<void> {
    await this.transact(async (tx) => {
      if (isRepeated) await this.jobs.resubmit(tx, run.held, this.#wallSec());
      await this.jobs.finish(tx, run.held);
    });
    this.#meter.end(run.held);
    this.#running = this.#running.filter((other) => other !== run);
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

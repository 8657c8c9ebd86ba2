/**
 * Scheduler of a node. As a worker of the queue, it accepts due jobs while slots are free. It runs
 * each job until the job ends, its time slice is used, or the node stops (RFC 016, "Job server").
 * If the worker is expelled, all runs end immediately without further writes.
 *
 * Free slots are filled immediately. Once per cycle, `choose-stops.ts` chooses the jobs that yield,
 * using the current settings. In between, the scheduler sleeps until a job is enqueued or due, a
 * run ends, settings change, or groups must be charged. An idle node does not access the store.
 */
import {
  currentSec,
  errorCode,
  Notifier,
  type Runtime,
  runTogether,
  waitAtMost,
  Yielder,
} from "../../base/index.ts";
import {
  type Job,
  type Jobs,
  type JobWorker,
  LOOK_AGAIN_SEC,
  type Membership,
  type NothingDue,
  type WorkerId,
} from "../../jobs/index.ts";
import type { KeyValueStore, Watch } from "../../kv/index.ts";
import type { HaltedRuns } from "../job-watching/halted-runs.ts";
import { REPLICATION_JOB_TYPE } from "../jobs/job-data.ts";
import type { NodeStore } from "../nodes/node-store.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import { StopRequest } from "../run/replication-run.ts";
import {
  chooseCycle,
  type DueJobs,
  NOBODY,
  type OtherNode,
  waitingCount,
  waitingCountMax,
} from "./choose-stops.ts";
import { type OpenJob, RunningJobs } from "./running-jobs.ts";

/**
 * Limits for the number of jobs accepted per transaction. A nearly full node accepts few, so that
 * other nodes get a share of new jobs. A node with many free slots accepts more, because a dead
 * node can leave hundreds of jobs, and each transaction is a round trip.
 */
const ACCEPT_ROWS = { min: 20, max: 100, partOfRoom: 0.1 };
/**
 * Delay for charging groups after a job has ended. Running jobs are charged every `instalmentSec`.
 */
const CHARGE_MS_MIN = 1000;
/**
 * Maximum random extension of a cycle, so that nodes started at the same time do not stay in step
 * (CouchDB 4).
 */
const CYCLE_JITTER = 1 / 3;
/**
 * Time between the two checks for waiting jobs at the end of a full node's cycle, as a fraction of
 * the cycle. Only jobs that wait at both checks count: no node had a free slot for them.
 */
const LOOK_AHEAD = 1 / 3;

/** Time during which slots stay free so that other nodes accept the jobs yielded to them. */
const YIELD_MS = 5000;

/**
 * Result of a check that found no due job. No job becomes due until `untilMs` (monotonic), unless
 * the watch fires.
 */
interface EmptyQueue {
  readonly enqueued: Watch;
  readonly untilMs: number;
}

export interface SchedulerParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly halted: Pick<HaltedRuns, "serve">;
  readonly nodes: Pick<NodeStore, "list">;
  /** Settings of the replicator. Read at each use, so that changed settings apply. */
  readonly config: ReplicatorConfig;
}

/** A service that runs jobs without slots. It uses the scheduler's registration as a worker. */
export interface SlotlessJobsRunner {
  /** Runs the jobs. Settles when the signal aborts or the worker is expelled. */
  run(membership: Membership, signal: AbortSignal): Promise<void>;
  setDraining(isDraining: boolean): void;
}

export class Scheduler {
  readonly name = "replicator.scheduler";
  readonly #runtime: Runtime;
  readonly #kv: KeyValueStore;
  readonly #jobs: Jobs;
  readonly #config: ReplicatorConfig;
  readonly #worker: JobWorker;
  readonly #slotlessJobs: SlotlessJobsRunner;
  readonly #halted: Pick<HaltedRuns, "serve">;
  readonly #nodes: Pick<NodeStore, "list">;
  readonly #running: RunningJobs;
  readonly #settingsChanged = new Notifier();
  /** Notified when the scheduler has registered as a new worker. */
  readonly registered = new Notifier();
  #member: WorkerId | undefined;
  #isDraining = false;
  #chargedAtMs = 0;
  /** Time of the last cycle, and the relative length of the current cycle. */
  #cycle = { atMs: 0, stretch: 1 };
  /** Jobs waiting at the first check; undefined if there was no first check in this cycle. */
  #waitedBefore: DueJobs | undefined;
  /**
   * Reduced maximum number of running jobs. Applies for a while after jobs were yielded to other
   * nodes.
   */
  #yielding = { untilMs: 0, jobsMax: 0 };
  /** Result of the last check if it found no due job; undefined once a job might be due. */
  #empty: EmptyQueue | undefined;

  constructor(
    { runtime, kv, jobs, halted, nodes, config }: SchedulerParts,
    worker: JobWorker,
    slotlessJobs: SlotlessJobsRunner,
    openJob: OpenJob,
  ) {
    this.#runtime = runtime;
    this.#kv = kv;
    this.#jobs = jobs;
    this.#config = config;
    this.#worker = worker;
    this.#slotlessJobs = slotlessJobs;
    this.#halted = halted;
    this.#nodes = nodes;
    this.#running = new RunningJobs(runtime, config, openJob);
  }

  /** Runs jobs until aborted. Then stops them, each with a last checkpoint. */
  run(signal: AbortSignal): Promise<void> {
    return this.#worker.run(signal, (membership) =>
      runTogether(signal, [
        () => this.#runAs(membership, signal),
        (taskSignal) => this.#slotlessJobs.run(membership, taskSignal),
        (taskSignal) => this.#haltRemoved(membership, taskSignal),
      ]),
    );
  }

  /** Makes changed settings take effect immediately, rather than within a cycle. */
  settingsChanged(): void {
    this.#settingsChanged.notify();
  }

  /** Id of the scheduler's worker; undefined while not registered. */
  get worker(): WorkerId | undefined {
    return this.#member;
  }

  get runningCount(): number {
    return this.#running.count;
  }

  /** Maximum number of running jobs on this node. */
  get slots(): number {
    return this.#config.jobsMax;
  }

  /**
   * Sets whether the node is draining. A draining node accepts no jobs, and stops running jobs with
   * a checkpoint.
   */
  setDraining(isDraining: boolean): void {
    if (isDraining === this.#isDraining) return;
    this.#isDraining = isDraining;
    this.#slotlessJobs.setDraining(isDraining);
    this.#settingsChanged.notify();
  }

  /** Ends the runs of jobs whose database or rule was deleted. */
  haltJobs(idPrefix: string): void {
    this.#running.halt(idPrefix);
  }

  async #runAs({ id, expelled }: Membership, signal: AbortSignal): Promise<void> {
    const { trace } = this.#runtime;
    this.#member = id;
    this.registered.notify();
    const over = AbortSignal.any([signal, expelled]);
    const onExpelled = (): void => void this.#running.end(expelled.reason);
    expelled.addEventListener("abort", onExpelled, { once: true });
    this.#planCycle();
    let reason: unknown = new StopRequest();
    try {
      while (!over.aborted) {
        await this.#charge();
        if (this.#isDraining) this.#stopAll();
        await this.#rotate();
        if (this.#room > 0 && this.#empty === undefined) await this.#acceptDue(id);
        else await this.#wait(over);
      }
    } catch (error) {
      if (errorCode(error) === "JOBS_WORKER_EXPELLED") reason = error;
      throw error;
    } finally {
      this.#member = undefined;
      this.#forgetEmpty();
      // Jobs that are already stopping are not affected by this call.
      await this.#running.end(expelled.aborted ? expelled.reason : reason);
      await this.#sendBill().catch((error: unknown) => {
        // Log this error instead of throwing it: the caller needs to know why the runs ended. Some
        // run time is then not charged.
        trace.event("replication.not-charged", { error: String(error) });
      });
    }
  }

  /** Ends runs whose jobs were removed. */
  #haltRemoved({ id, expelled }: Membership, signal: AbortSignal): Promise<void> {
    const over = AbortSignal.any([signal, expelled]);
    return this.#halted.serve(id, (run) => this.#running.haltRun(run), over);
  }

  #stopAll(): void {
    this.#running.stop(this.#running.list().filter(({ isStopping }) => !isStopping));
  }

  #planCycle(): void {
    const { clock, random } = this.#runtime;
    this.#cycle = { atMs: clock.monotonicMs(), stretch: 1 + random.ratio() * CYCLE_JITTER };
    this.#waitedBefore = undefined;
  }

  /**
   * Time of the next cycle. Computed at each use, so that a changed interval applies immediately.
   */
  get #cycleAtMs(): number {
    const { atMs, stretch } = this.#cycle;
    return atMs + this.#config.intervalSec * 1000 * stretch;
  }

  /** Time of the next check for waiting jobs. */
  get #lookAtMs(): number {
    if (this.#waitedBefore !== undefined) return this.#cycleAtMs;
    return this.#cycleAtMs - this.#config.intervalSec * 1000 * LOOK_AHEAD;
  }

  /**
   * Once per cycle, stops jobs that have used their time slice, or that exceed the number of slots.
   */
  async #rotate(): Promise<void> {
    const { clock, trace } = this.#runtime;
    const nowMs = clock.monotonicMs();
    if (nowMs < this.#lookAtMs) return;
    if (this.#isDraining) {
      this.#planCycle();
      return;
    }
    const { jobsMax, churnMax, intervalSec, runSecMin } = this.#config;
    const slots = {
      jobsMax,
      churnMax,
      cycleMs: intervalSec * 1000,
      runMsMin: runSecMin * 1000,
      nowMs,
    };
    const running = this.#running.list();
    const limit = waitingCountMax(running, slots);
    const waiting = running.length >= jobsMax ? await this.#waiting(limit) : NOBODY;
    const before = this.#waitedBefore ?? NOBODY;
    if (nowMs < this.#cycleAtMs) {
      this.#waitedBefore = waiting;
      return;
    }
    this.#planCycle();
    const count = waitingCount(before, waiting);
    const givingWay = count === 0 ? [] : await this.#givingWay();
    const { forWaiting, surplus } = chooseCycle(running, slots, {
      waiting: { count, givingWay },
      crowded: await this.#crowded(),
      others: running.length < 2 ? [] : await this.#others(),
    });
    if (surplus.length > 0) {
      // Leave the slots of these jobs free for a while, so that less busy nodes accept the jobs.
      this.#yielding = { untilMs: nowMs + YIELD_MS, jobsMax: running.length - surplus.length };
    }
    const stops = [...forWaiting, ...surplus];
    if (stops.length === 0) return;
    this.#running.stop(stops);
    trace.event("replication.rotated", { stopped: stops.length, waiting: count });
  }

  /** Returns the other nodes that run jobs, from their last reports. */
  async #others(): Promise<readonly OtherNode[]> {
    const found = await this.#kv.read(async (tx) => {
      const members = await this.#jobs.workers.members(tx.snapshot);
      return { members, nodes: await this.#nodes.list(tx.snapshot) };
    });
    const members = new Map(found.members.map((member) => [member.id, member]));
    return found.nodes.flatMap(
      ({ report: { worker, slots, runningCount = slots }, isDraining }) => {
        const member = members.get(worker);
        if (member === undefined || isDraining || worker === this.#member) return [];
        return [{ slots, runningCount, labels: member.labels }];
      },
    );
  }

  async #waiting(limit: number): Promise<DueJobs> {
    const wanted = { dueBySec: this.#nowSec(), limit, labels: this.#worker.labels };
    const due = await this.#kv.read((tx) => this.#jobs.due(tx, REPLICATION_JOB_TYPE, wanted));
    return { ids: new Set(due.map(({ id }) => id)), isPart: due.length >= limit };
  }

  /**
   * Returns the groups at or above their limit that have jobs on this node, and how many of these
   * jobs should stop.
   */
  #crowded(): Promise<ReadonlyMap<string, number>> {
    const held = this.#running.meter.groups();
    const { labels } = this.#worker;
    const due = { dueBySec: this.#nowSec(), limit: this.#config.churnMax, labels };
    return this.#kv.read((tx) => this.#jobs.groups.crowded(tx, REPLICATION_JOB_TYPE, held, due));
  }

  #givingWay(): Promise<readonly string[]> {
    const dueBySec = this.#nowSec();
    return this.#kv.read((tx) =>
      this.#jobs.groups.givingWay(
        tx,
        REPLICATION_JOB_TYPE,
        this.#running.meter.groups().keys(),
        dueBySec,
        this.#worker.labels,
      ),
    );
  }

  /**
   * Charges groups for run time: after a job has ended, and every `instalmentSec` while jobs are
   * running.
   */
  async #charge(): Promise<void> {
    const nowMs = this.#runtime.clock.monotonicMs();
    if (nowMs < this.#chargeAtMs) return;
    this.#chargedAtMs = nowMs;
    await this.#sendBill();
  }

  /** Returns when groups have to be charged next; infinite if nothing is owed. */
  get #chargeAtMs(): number {
    if (this.#running.meter.hasEnded) return this.#chargedAtMs + CHARGE_MS_MIN;
    if (this.#running.count === 0) return Number.POSITIVE_INFINITY;
    return this.#chargedAtMs + this.#config.fairShare.instalmentSec * 1000;
  }

  async #sendBill(): Promise<void> {
    const bill = this.#running.meter.takeBill();
    if (bill.size === 0) return;
    await this.#kv.transact((tx) => this.#jobs.groups.charge(tx, REPLICATION_JOB_TYPE, bill));
  }

  get #room(): number {
    if (this.#isDraining) return 0;
    const { jobsMax } = this.#config;
    const isYielding = this.#runtime.clock.monotonicMs() < this.#yielding.untilMs;
    return (isYielding ? Math.min(jobsMax, this.#yielding.jobsMax) : jobsMax) - this.#running.count;
  }

  /** Starts as many due jobs as there are free slots, or records that none is due. */
  async #acceptDue(worker: WorkerId): Promise<void> {
    let isRepeated = false;
    const acceptance = await this.#kv.transact(async (tx) => {
      // Another node has accepted the same jobs. Immediate attempts would only conflict again.
      if (isRepeated) await this.#runtime.clock.sleep(this.#jobs.acceptDelayMs());
      isRepeated = true;
      return this.#jobs.accept(tx, REPLICATION_JOB_TYPE, {
        dueBySec: this.#nowSec(),
        countMax: acceptCountMax(this.#room),
        worker,
        watchesRest: true,
      });
    });
    const nothingDue = acceptance.kind === "none-due" ? acceptance : acceptance.rest;
    if (nothingDue !== undefined) this.#empty = this.#emptyUntil(nothingDue);
    if (acceptance.kind === "none-due") return;
    // Starting many jobs can block the event loop for a long time, so yield between jobs. If the
    // worker is expelled meanwhile, all jobs are halted after the loop.
    const yielder = new Yielder(this.#runtime.clock);
    for (const [index, held] of acceptance.held.entries()) {
      this.#running.start(held, acceptance.jobs[index] as Job);
      if (yielder.isDue) await yielder.yield();
    }
  }

  #emptyUntil({ enqueued, firstDueSec = Number.POSITIVE_INFINITY }: NothingDue): EmptyQueue {
    const { clock } = this.#runtime;
    const dueInMs = Math.max(0, firstDueSec * 1000 - clock.nowMs());
    return { enqueued, untilMs: clock.monotonicMs() + Math.min(LOOK_AGAIN_SEC * 1000, dueInMs) };
  }

  /** Waits until there is something to do. */
  async #wait(signal: AbortSignal): Promise<void> {
    const { clock } = this.#runtime;
    const emptyUntilMs = this.#empty?.untilMs ?? Number.POSITIVE_INFINITY;
    const { untilMs } = this.#yielding;
    const yieldedAtMs = untilMs > clock.monotonicMs() ? untilMs : Number.POSITIVE_INFINITY;
    const wakeAtMs = Math.min(this.#lookAtMs, this.#chargeAtMs, emptyUntilMs, yieldedAtMs);
    const waitMs = Math.max(0, wakeAtMs - clock.monotonicMs());
    await waitAtMost(clock, waitMs, signal, (over) => this.#anyEvent(over));
    if (clock.monotonicMs() >= emptyUntilMs) this.#forgetEmpty();
  }

  /** Settles when a job is enqueued, a run ends, or settings change. */
  async #anyEvent(over: AbortSignal): Promise<void> {
    const empty = this.#empty;
    const heard = async (enqueued: Watch): Promise<void> => {
      try {
        await enqueued.fired(over);
        // Other nodes were woken at the same time. Delay acceptance so that the jobs are shared.
        const acceptDelayMs = this.#jobs.acceptDelayMs();
        if (acceptDelayMs > 0) await this.#runtime.clock.sleep(acceptDelayMs, over);
      } finally {
        // The watch has fired or is broken, so jobs might be due again.
        if (!over.aborted) this.#forgetEmpty();
      }
    };
    const enqueued = empty && heard(empty.enqueued);
    const events = [this.#running.ended.notified(over), this.#settingsChanged.notified(over)];
    await Promise.race(enqueued === undefined ? events : [enqueued, ...events]);
  }

  #forgetEmpty(): void {
    this.#empty?.enqueued.cancel();
    this.#empty = undefined;
  }

  #nowSec(): number {
    return currentSec(this.#runtime.clock);
  }
}

function acceptCountMax(room: number): number {
  const { min, max, partOfRoom } = ACCEPT_ROWS;
  return Math.min(room, max, Math.max(min, Math.ceil(room * partOfRoom)));
}

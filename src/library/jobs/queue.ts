/**
 * The queue of RFC 007 for job types of the caller. Methods that receive a transaction run inside
 * it, so a job and other data of the store change together or not at all.
 */
import { abortWith, currentSec, runTogether } from "../../base/index.ts";
import {
  ActivityMonitor,
  type Job,
  type JobData,
  type JobName,
  JobSubscriptions,
  Jobs,
  JobWorker,
  type LeaseRenewer,
  SHARES_MAX,
  SHARES_MIN,
  SlotlessJobs,
} from "../../jobs/index.ts";
import { type ReadTransaction, Subspace, type Transaction, type Watch } from "../../kv/index.ts";
import { partsOf, type Store, type StoreParts } from "../kv/open-store.ts";
import { type JobHandler, TypeRunner } from "./type-runner.ts";

/** Default lease of a worker: the time after which another worker takes over its jobs. */
const LEASE_SEC = 10;
const TIMEOUT_SEC = 60;
const LIST_ROWS = 100;
/** Default subspace of a queue in a store of the caller. */
const QUEUE = Subspace.fromTuple(["couch-tandem", "jobs"]);

export interface AddOptions {
  /** Due time in seconds since the epoch. Default: now. */
  readonly scheduledAtSec?: number;
  /** Group whose share of the workers' time the job uses. Default: none. */
  readonly group?: string;
  /** Constant part of the job, stored separately from its data. A node stores it sealed. */
  readonly request?: JobData;
}

/** A job held by the worker that accepted it. `lock` proves ownership. */
export interface HeldJob extends JobName {
  readonly lock: string;
}

export interface AcceptedJobs {
  readonly jobs: readonly (Job & { readonly held: HeldJob })[];
  /** Set if no job was due. Fires when a job enters the queue. Cancel it if it is not needed. */
  readonly enqueued: Watch | undefined;
  /** Time at which the first queued job becomes due, in seconds since the epoch. */
  readonly firstDueSec: number | undefined;
}

/** A change of a job. The subscription ends when the job has finished or was removed. */
export type JobChange =
  | { readonly kind: "changed"; readonly job: Job }
  | { readonly kind: "removed"; readonly name: JobName };

export interface RunOptions {
  /** Stops the worker when the signal aborts. Jobs that have not finished return to the queue. */
  readonly signal: AbortSignal;
  /** Name of the worker, for operators. Default: `worker`. */
  readonly name?: string;
  /** Time after which other workers take over the jobs of a worker that has died. Default: 10. */
  readonly leaseSec?: number;
}

export interface JobCountsOfState {
  readonly pending: number;
  readonly running: number;
  readonly finished: number;
}

/** Opens the queue in a store. Queues with different subspaces are independent. */
export function openQueue(store: Store, subspace: Subspace = QUEUE): JobQueue {
  const parts = partsOf(store);
  const jobs = new Jobs(parts.runtime, new Subspace(subspace.prefix));
  return new StoredJobQueue({
    ...parts,
    jobs,
    renewer: parts.renewerOf(subspace),
    isReserved: () => false,
  });
}

export interface QueueParts extends StoreParts {
  readonly jobs: Jobs;
  readonly renewer: LeaseRenewer;
  /** Whether the type belongs to the node. Callers cannot change the jobs of such types. */
  readonly isReserved: (type: string) => boolean;
}

/** The queue in a store. */
export interface JobQueue {
  /**
   * Registers a type, which `add` requires. A running job without a heartbeat for `timeoutSec`
   * (default: 60) returns to the queue.
   */
  register(tx: Transaction, type: string, timeoutSec?: number): Promise<void>;
  /** Unregisters a type. Its jobs are kept. */
  unregister(tx: Transaction, type: string): Promise<void>;
  /**
   * Adds a job, or requests another run of an existing one. A pending job gets these values. A
   * running job runs again afterwards, with these values.
   */
  add(tx: Transaction, name: JobName, data: JobData, options?: AddOptions): Promise<void>;
  get(tx: ReadTransaction, name: JobName): Promise<Job | undefined>;
  /**
   * Returns up to `limit` (default: 100) jobs of a type in id order, starting after `afterId`
   * (default: with the first job).
   */
  list(
    tx: ReadTransaction,
    type: string,
    page?: { readonly afterId?: string; readonly limit?: number },
  ): Promise<readonly Job[]>;
  /** Counts the jobs of a type, or of one of its groups. */
  counts(tx: ReadTransaction, type: string, group?: string): Promise<JobCountsOfState>;
  /**
   * Removes a job in any state. A worker that runs the job loses the lock. Returns whether the job
   * existed.
   */
  remove(tx: Transaction, name: JobName): Promise<boolean>;
  /**
   * Assigns up to `limit` jobs (default: 1) due at `dueBySec` (default: now) to the caller, which
   * need not be a worker. To keep a job, the caller must call `update` at intervals shorter than
   * the timeout of the type. `run` does all this.
   */
  accept(
    tx: Transaction,
    type: string,
    options?: { readonly limit?: number; readonly dueBySec?: number },
  ): Promise<AcceptedJobs>;
  /** Rejects with a JobHaltedError if the job is no longer held. */
  verify(tx: ReadTransaction, held: HeldJob): Promise<void>;
  /** Sends a heartbeat, and writes data if given. Rejects like `verify`. */
  update(tx: Transaction, held: HeldJob, data?: JobData): Promise<void>;
  /**
   * Requests another run at `scheduledAtSec`. To return a held job to the queue, call this and
   * then `finish`. Returns whether the job exists.
   */
  resubmit(
    tx: Transaction,
    name: JobName,
    scheduledAtSec: number,
    data?: JobData,
  ): Promise<boolean>;
  /**
   * Ends the run: the job is finished, or pending again if another run was requested. Rejects like
   * `verify`.
   */
  finish(tx: Transaction, held: HeldJob, data?: JobData): Promise<void>;
  /**
   * Sets the shares of a group, from 1 to 1000 (default: 100). The time of workers is divided among
   * groups in proportion to their shares.
   */
  setShares(tx: Transaction, type: string, group: string, shares: number): Promise<void>;
  /**
   * Limits the running jobs of a group, for all workers together. If `countMax` is undefined, there
   * is no limit.
   */
  setGroupLimit(
    tx: Transaction,
    type: string,
    group: string,
    countMax: number | undefined,
  ): Promise<void>;
  /**
   * Yields the job, and then its changes until it has finished or was removed. Several changes
   * between two reads are combined into one. Yields nothing if the job does not exist.
   */
  subscribe(name: JobName, options?: { readonly signal?: AbortSignal }): AsyncIterable<JobChange>;
  /**
   * Registers the types, and runs their jobs as a worker until the signal aborts. Also requeues
   * jobs of these types whose workers send no heartbeats.
   */
  run(types: readonly JobHandler[], options: RunOptions): Promise<void>;
}

/** Implements `JobQueue` on top of the job layer. */
export class StoredJobQueue implements JobQueue {
  readonly #parts: QueueParts;
  readonly #jobs: Jobs;
  readonly #subscriptions: JobSubscriptions;

  constructor(parts: QueueParts) {
    this.#parts = parts;
    this.#jobs = parts.jobs;
    this.#subscriptions = new JobSubscriptions(parts.runtime, parts.kv, parts.jobs);
  }

  async register(tx: Transaction, type: string, timeoutSec = TIMEOUT_SEC): Promise<void> {
    await this.#jobs.setTypeTimeout(tx, this.#own(type), timeoutSec);
  }

  async unregister(tx: Transaction, type: string): Promise<void> {
    await this.#jobs.clearTypeTimeout(tx, this.#own(type));
  }

  async add(
    tx: Transaction,
    name: JobName,
    data: JobData,
    options: AddOptions = {},
  ): Promise<void> {
    this.#own(name.type);
    await this.#jobs.add(tx, name, data, options);
  }

  get(tx: ReadTransaction, name: JobName): Promise<Job | undefined> {
    return this.#jobs.get(tx, name);
  }

  async list(
    tx: ReadTransaction,
    type: string,
    { afterId, limit = LIST_ROWS }: { readonly afterId?: string; readonly limit?: number } = {},
  ): Promise<readonly Job[]> {
    const page = { limit, ...(afterId === undefined ? {} : { afterId }) };
    return (await this.#jobs.list(tx, type, page)).entries;
  }

  async counts(tx: ReadTransaction, type: string, group?: string): Promise<JobCountsOfState> {
    const { pending, running, finished } = await this.#jobs.counts.read(tx, type, group);
    return { pending, running, finished };
  }

  async remove(tx: Transaction, name: JobName): Promise<boolean> {
    this.#own(name.type);
    return this.#jobs.remove(tx, name);
  }

  async accept(
    tx: Transaction,
    type: string,
    { limit = 1, dueBySec }: { readonly limit?: number; readonly dueBySec?: number } = {},
  ): Promise<AcceptedJobs> {
    const nowSec = currentSec(this.#parts.runtime.clock);
    const options = { dueBySec: dueBySec ?? nowSec, countMax: limit };
    const acceptance = await this.#jobs.accept(tx, this.#own(type), options);
    if (acceptance.kind === "none-due") {
      const { enqueued, firstDueSec } = acceptance;
      return { jobs: [], enqueued, firstDueSec };
    }
    const { held, jobs } = acceptance;
    return {
      jobs: jobs.map((job, index) => ({ ...job, held: held[index] as HeldJob })),
      enqueued: undefined,
      firstDueSec: undefined,
    };
  }

  verify(tx: ReadTransaction, held: HeldJob): Promise<void> {
    return this.#jobs.verify(tx, held);
  }

  update(tx: Transaction, held: HeldJob, data?: JobData): Promise<void> {
    return this.#jobs.update(tx, held, data);
  }

  async resubmit(
    tx: Transaction,
    name: JobName,
    scheduledAtSec: number,
    data?: JobData,
  ): Promise<boolean> {
    this.#own(name.type);
    return this.#jobs.resubmit(tx, name, scheduledAtSec, data);
  }

  finish(tx: Transaction, held: HeldJob, data?: JobData): Promise<void> {
    return this.#jobs.finish(tx, held, data);
  }

  async setShares(tx: Transaction, type: string, group: string, shares: number): Promise<void> {
    if (!Number.isInteger(shares) || shares < SHARES_MIN || shares > SHARES_MAX) {
      throw new RangeError(
        `shares ${shares}: expected an integer of ${SHARES_MIN} to ${SHARES_MAX}`,
      );
    }
    await this.#jobs.groups.setShares(tx, this.#own(type), group, shares);
  }

  async setGroupLimit(
    tx: Transaction,
    type: string,
    group: string,
    countMax: number | undefined,
  ): Promise<void> {
    await this.#jobs.setGroupLimit(tx, this.#own(type), group, countMax);
  }

  async *subscribe(
    name: JobName,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<JobChange, void, undefined> {
    const subscription = await this.#subscriptions.subscribe(name);
    if (subscription === undefined) return;
    try {
      yield { kind: "changed", job: subscription.job };
      while (!subscription.ended.aborted) {
        const options = signal === undefined ? {} : { signal };
        const event = await this.#subscriptions.wait([subscription], options);
        if (event === undefined) return;
        yield event;
      }
    } finally {
      subscription.unsubscribe();
    }
  }

  async run(
    types: readonly JobHandler[],
    { signal, name = "worker", leaseSec = LEASE_SEC }: RunOptions,
  ): Promise<void> {
    const { runtime, kv, jobs, renewer } = this.#parts;
    if (types.length === 0) return;
    await kv.transact(
      async (tx) => {
        for (const { type, timeoutSec } of types) await this.register(tx, type, timeoutSec);
      },
      { signal },
    );
    const runners = types.map((type) => new TypeRunner(this.#parts, type, TIMEOUT_SEC));
    const worker = new JobWorker({
      runtime,
      kv,
      jobs,
      renewer,
      node: name,
      processId: String(process.pid),
      types: types.map(({ type }) => type),
      leaseMs: leaseSec * 1000,
    });
    const running = new SlotlessJobs({ runtime, kv, jobs }, runners);
    const stopping = new AbortController();
    const unfollow = abortWith(signal, stopping);
    try {
      await runTogether(new AbortController().signal, [
        () =>
          worker
            .run(stopping.signal, (membership) => running.run(membership, stopping.signal))
            .finally(() => stopping.abort(new Error("The worker has ended"))),
        ...types.map(({ type }) => () => {
          return new ActivityMonitor(runtime, kv, jobs, type).run(stopping.signal);
        }),
        ...runners.map((runner) => () => runner.charge(stopping.signal)),
      ]);
    } finally {
      unfollow();
    }
  }

  /** Returns `type`. Throws a TypeError if the type is reserved for the node. */
  #own(type: string): string {
    if (!this.#parts.isReserved(type)) return type;
    throw new TypeError(`job type ${type} is reserved for the node`);
  }
}

/**
 * The transactional queue of background jobs (RFC 007). Any number of nodes add jobs and accept
 * them. Every call runs inside the caller's transaction, so a job and related data change
 * atomically.
 *
 * Fencing: acceptance generates a random lock, and every write of the holder verifies the lock in
 * the same transaction. A holder that lost its job gets a JobHaltedError, which aborts the whole
 * transaction.
 */
import { assert, currentSec, type Page, type Runtime, randomHex } from "../base/index.ts";
import {
  keyAfter,
  type ReadTransaction,
  type Subspace,
  type Transaction,
  type Versionstamp,
  type Watch,
} from "../kv/index.ts";
import { GroupIndex } from "./group-index.ts";
import { GroupQueue } from "./group-queue.ts";
import { type DueWanted, Groups } from "./groups.ts";
import { IdleGroups } from "./idle-groups.ts";
import type {
  HeldJob,
  Job,
  JobData,
  JobFacts,
  JobName,
  JobPlan,
  JobSigns,
  JobTerms,
  JobType,
  Observation,
  RunningFacts,
  TypeTimeout,
} from "./job.ts";
import { JobCounts } from "./job-counts.ts";
import { JobDataStore, type RequestForm, type Stored } from "./job-data-store.ts";
import { type JobKeys, jobKeys, jobsBelow } from "./job-keys.ts";
import { JobNotes } from "./job-notes.ts";
import type { JobObserver } from "./job-observer.ts";
import {
  decodeFacts,
  decodeJobId,
  decodeTypeTimeout,
  encodeJobId,
  encodeRunning,
  encodeStillRunning,
  encodeTypeTimeout,
  encodeWaiting,
  type RunningFactsAtCommit,
} from "./job-record.ts";
import { JobHaltedError, UnknownJobTypeError } from "./jobs-errors.ts";
import { areSameLabels, hasLabels, type Labels, labelSet, NO_LABELS } from "./labels.ts";
import { PendingQueue, type UnplacedWanted, type Wanted } from "./pending-queue.ts";
import type { RequeuedBatch } from "./requeue.ts";
import type { WorkerId } from "./worker.ts";
import { Workers } from "./workers.ts";

/** Result of an acceptance if no job is due. */
export interface NothingDue {
  /** Watch that fires when a job enters the queue. */
  readonly enqueued: Watch;
  /**
   * Time at which the first queued job becomes due, in seconds since the epoch. Acceptors must try
   * again at this time, because no watch fires. Undefined if the queue is empty.
   */
  readonly firstDueSec: number | undefined;
}

/**
 * Result of an acceptance. `rest` is set if all due jobs were accepted and the acceptor requested
 * notification of additional jobs (`watchesRest`).
 */
export type Acceptance =
  | {
      readonly kind: "accepted";
      readonly held: readonly HeldJob[];
      readonly jobs: readonly Job[];
      readonly rest: NothingDue | undefined;
    }
  | ({ readonly kind: "none-due" } & NothingDue);

export interface AddOptions extends Partial<JobPlan> {
  /** Request of the job, stored separately from its data. */
  readonly request?: JobData;
}

/** Selects the page of ids to read. */
export interface IdsWanted {
  /** Prefix of the ids; "" for all ids. */
  readonly prefix: string;
  readonly afterId: string | undefined;
  readonly reverse: boolean;
  readonly limit: number;
}

export interface AcceptOptions extends Wanted {
  /**
   * The worker that will hold the jobs; undefined for a processor supervised only by the activity
   * monitor.
   */
  readonly worker?: WorkerId;
  /**
   * Whether to return a watch and the time of the next attempt if fewer than `countMax` jobs were
   * due. The caller must cancel the watch.
   */
  readonly watchesRest?: boolean;
}

/**
 * Number of random bytes in a notification of a worker. Each notification must differ from the
 * previous one.
 */
const CALL_BYTES = 8;

/**
 * Values that a transaction wrote for a job, and whether the job's worker was lost. Reported to
 * observers.
 */
type Announced = Stored & { readonly isLost?: boolean };

const NOT_WRITTEN: Announced = { data: undefined, request: undefined };
const LOST: Announced = { ...NOT_WRITTEN, isLost: true };

export class Jobs {
  readonly #runtime: Runtime;
  readonly #keys: JobKeys;
  readonly #queue: PendingQueue;
  readonly #data: JobDataStore;
  /** The registered workers. They are stored among the keys of the queue. */
  readonly workers: Workers;
  /** The groups of jobs, with shares and usage. */
  readonly groups: Groups;
  readonly counts: JobCounts;
  /** Bytes that observers store with jobs. */
  readonly notes: JobNotes;
  readonly #observers = new Map<JobType, JobObserver>();
  readonly idleGroups: IdleGroups;

  /** `requestForm` converts requests for storage. Default: requests are stored unchanged. */
  constructor(runtime: Runtime, subspace: Subspace, requestForm?: RequestForm) {
    this.#runtime = runtime;
    this.#keys = jobKeys(subspace);
    this.workers = new Workers(runtime, subspace);
    const index = new GroupIndex(this.#keys);
    this.counts = new JobCounts(this.#keys);
    this.notes = new JobNotes(this.#keys);
    this.groups = new Groups(runtime, { keys: this.#keys, index, counts: this.counts });
    this.idleGroups = new IdleGroups(runtime, this.#keys, this.counts);
    const grouped = new GroupQueue(runtime, { keys: this.#keys, groups: this.groups, index });
    this.#queue = new PendingQueue(runtime, this.#keys, grouped);
    this.#data = new JobDataStore(this.#keys, requestForm);
  }

  /**
   * Registers the observer of a type, to be called in each transaction that changes one of its
   * jobs. At most one per type.
   */
  setObserver(type: JobType, observer: JobObserver): void {
    this.#observers.set(type, observer);
  }

  /**
   * Registers a type, or changes its timeout: a running job without a heartbeat for `timeoutSec`
   * returns to the queue. The former timeout is stored as well, because a worker learns the new one
   * only with its next heartbeat.
   */
  async setTypeTimeout(tx: Transaction, type: JobType, timeoutSec: number): Promise<void> {
    assert(timeoutSec > 0, "The timeout of a type must be positive");
    const key = this.#keys.typeTimeout.key({ type });
    const value = await tx.get(key);
    const former = value && decodeTypeTimeout(value);
    if (former?.timeoutSec === timeoutSec) return;
    const formerTimeoutSec = former?.timeoutSec ?? timeoutSec;
    tx.set(key, encodeTypeTimeout({ timeoutSec, formerTimeoutSec }));
  }

  /** Returns the timeout of a type, or `undefined` if it is not registered. A snapshot read. */
  async typeTimeout(tx: ReadTransaction, type: JobType): Promise<TypeTimeout | undefined> {
    const value = await tx.snapshot.get(this.#keys.typeTimeout.key({ type }));
    return value && decodeTypeTimeout(value);
  }

  /** Returns the maximum time between two heartbeats of a job of the type, in seconds. */
  async getTypeTimeout(tx: ReadTransaction, type: JobType): Promise<number | undefined> {
    return (await this.typeTimeout(tx, type))?.timeoutSec;
  }

  /**
   * Unregisters a type. Existing jobs are kept, but no jobs can be added, and no monitor supervises
   * running jobs.
   */
  async clearTypeTimeout(tx: Transaction, type: JobType): Promise<void> {
    tx.clear(this.#keys.typeTimeout.key({ type }));
  }

  /**
   * Adds a job, or requests another run of an existing one. The effect depends on its state:
   *
   *   absent, finished   becomes pending with this data, time, group and labels
   *   pending            receives these values; nothing is written if they are unchanged
   *   running            runs again afterwards, with these values; its group changes immediately
   *
   * If a request is passed, it replaces the existing request.
   *
   * CouchDB drops the new data if the job is running, or pending with the same due time; Tandem
   * keeps the new data.
   */
  async add(
    tx: Transaction,
    job: JobName,
    data: JobData,
    { scheduledAtSec = 0, group, labels = NO_LABELS, request }: AddOptions = {},
  ): Promise<void> {
    const typeTimeout = await tx.get(this.#keys.typeTimeout.key({ type: job.type }));
    if (typeTimeout === undefined) throw new UnknownJobTypeError(job.type);
    const stored = { data, request };
    const facts = await this.#facts(tx, job);
    const hasRequest = hasRequestAfter(facts, request);
    const terms = { scheduledAtSec, group, labels: labelSet(labels), hasRequest };
    if (facts?.state === "running") {
      this.#data.setNext(tx, job, stored);
      this.#write(tx, job, facts, { ...facts, ...terms, resubmitted: true });
      await this.#announce(tx, job, { ...facts, ...terms });
      return;
    }
    if (facts?.state === "pending" && areSameTerms(facts, terms)) {
      if (await this.#data.has(tx, job, stored)) return;
      this.#data.set(tx, job, stored);
      await this.#announce(tx, job, facts, stored);
      return;
    }
    if (facts === undefined) this.#data.setFirst(tx, job, stored);
    else this.#data.set(tx, job, stored);
    if (facts?.state === "pending") await this.#queue.leave(tx, job, facts);
    await this.#enqueue(tx, job, facts, terms);
    await this.#announce(tx, job, { ...terms, state: "pending" }, stored);
  }

  /**
   * Adds a job that has ended elsewhere, in the state "finished". It does not run until it is added
   * again or resubmitted.
   */
  async addFinished(
    tx: Transaction,
    job: JobName,
    data: JobData,
    { group, labels = NO_LABELS, request }: Omit<AddOptions, "scheduledAtSec"> = {},
  ): Promise<void> {
    assert(
      (await this.#facts(tx, job)) === undefined,
      "A job added as finished must not exist yet",
    );
    const hasRequest = request !== undefined;
    const terms = { scheduledAtSec: 0, group, labels: labelSet(labels), hasRequest };
    const finished = { ...terms, state: "finished" } as const;
    this.#data.setFirst(tx, job, { data, request });
    tx.set(this.#keys.job.key(job), encodeWaiting("finished", terms));
    // Creates the counter of pending jobs, because these counters also serve as the list of groups.
    this.counts.change(tx, job.type, undefined, { state: "pending", group });
    this.counts.change(tx, job.type, { state: "pending", group }, finished);
    await this.#announce(tx, job, finished, { data, request });
  }

  /**
   * Removes a job in any state. The worker that holds the job is halted. Returns whether the job
   * existed.
   */
  async remove(tx: Transaction, job: JobName): Promise<boolean> {
    const facts = await this.#facts(tx, job);
    if (facts === undefined) return false;
    if (facts.state === "pending") await this.#queue.leave(tx, job, facts);
    if (facts.state === "running") await this.#clearRunning(tx, job, facts);
    tx.clear(this.#keys.job.key(job));
    this.#data.clear(tx, job, facts);
    this.counts.change(tx, job.type, facts, undefined);
    await this.#announce(tx, job, undefined);
    return true;
  }

  async get(tx: ReadTransaction, job: JobName): Promise<Job | undefined> {
    return (await this.observe(tx, job))?.job;
  }

  /** Returns the given jobs that exist, in the order of `ids`. Reads them concurrently. */
  async getMany(
    tx: ReadTransaction,
    type: JobType,
    ids: readonly string[],
  ): Promise<readonly Job[]> {
    const names = ids.map((id) => ({ type, id }));
    const records = await tx.getMany(names.map((name) => this.#keys.job.key(name)));
    const found = names.flatMap((name, index) => {
      const record = records[index];
      return record === undefined ? [] : [{ name, facts: decodeFacts(record) }];
    });
    const stored = await this.#data.getMany(tx, found);
    return found.map(({ name, facts }, index) => jobOf(name, facts, stored[index] as Stored));
  }

  /**
   * Returns the worker and lock of a job's current run, or `undefined` if the job is not running,
   * or runs without a worker.
   */
  async runOf(
    tx: ReadTransaction,
    job: JobName,
  ): Promise<{ readonly worker: WorkerId; readonly lock: string } | undefined> {
    const facts = await this.#facts(tx, job);
    if (facts?.state !== "running" || facts.worker === undefined) return undefined;
    return { worker: facts.worker, lock: facts.lock };
  }

  /**
   * Returns state and due time of a job, without its data, or `undefined` if the job does not
   * exist.
   */
  async schedule(
    tx: ReadTransaction,
    job: JobName,
  ): Promise<Pick<Job, "state" | "scheduledAtSec"> | undefined> {
    return this.#facts(tx, job);
  }

  /** Returns a page of a type's jobs in id order, after `afterId`, with state and due time only. */
  async schedules(
    tx: ReadTransaction,
    type: JobType,
    { afterId, limit }: { readonly afterId?: string; readonly limit: number },
  ): Promise<Page<Pick<Job, "id" | "state" | "scheduledAtSec">>> {
    const page = await this.#page(tx, type, afterId, limit);
    const entries = page.entries.map(({ key, value }) => {
      const { state, scheduledAtSec } = decodeFacts(value);
      return { id: this.#keys.job.unpack(key).id, state, scheduledAtSec };
    });
    return { entries, stoppedBy: page.stoppedBy };
  }

  /** Like `observe`, without the job's data. */
  async signs(tx: ReadTransaction, job: JobName): Promise<JobSigns | undefined> {
    const facts = await this.#facts(tx, job);
    if (facts === undefined) return undefined;
    const { state, scheduledAtSec } = facts;
    return { state, scheduledAtSec, activity: activityOf(facts) };
  }

  /** Returns a job, and its position in the activity order, which changes with each heartbeat. */
  async observe(tx: ReadTransaction, { type, id }: JobName): Promise<Observation | undefined> {
    const name = { type, id };
    const [facts, data] = await Promise.all([this.#facts(tx, name), this.#data.get(tx, name)]);
    if (facts === undefined) return undefined;
    const requestLater = await this.#requestLater(tx, name, facts);
    return {
      job: withRequestLater(jobOf(name, facts, { data, request: undefined }), requestLater),
      activity: activityOf(facts),
    };
  }

  async #requestLater(
    tx: ReadTransaction,
    name: JobName,
    { hasRequest }: JobFacts,
  ): Promise<() => JobData | undefined> {
    return hasRequest ? this.#data.getRequestLater(tx, name) : () => undefined;
  }

  /** Returns a page of a type's jobs in id order, after `afterId`. */
  async list(
    tx: ReadTransaction,
    type: JobType,
    { afterId, limit }: { readonly afterId?: string; readonly limit: number },
  ): Promise<Page<Job>> {
    const page = await this.#page(tx, type, afterId, limit);
    const entries = await Promise.all(
      page.entries.map(async ({ key, value }): Promise<Job> => {
        const name = { type, id: this.#keys.job.unpack(key).id };
        const facts = decodeFacts(value);
        const [data, request] = await Promise.all([
          this.#data.get(tx, name),
          facts.hasRequest ? this.#data.getRequest(tx, name) : undefined,
        ]);
        return jobOf(name, facts, { data, request });
      }),
    );
    return { entries, stoppedBy: page.stoppedBy };
  }

  #page(
    tx: ReadTransaction,
    type: JobType,
    afterId: string | undefined,
    limit: number,
  ): ReturnType<ReadTransaction["getRangePage"]> {
    const { begin, end } = this.#keys.job.range({ type });
    const from =
      afterId === undefined ? begin : keyAfter(this.#keys.job.key({ type, id: afterId }));
    return tx.getRangePage({ begin: from, end }, { limit });
  }

  /**
   * Returns up to `limit` ids of a type's jobs with the given prefix, after `afterId`, ascending or
   * descending.
   */
  async ids(
    tx: ReadTransaction,
    type: JobType,
    { prefix, afterId, reverse, limit }: IdsWanted,
  ): Promise<readonly string[]> {
    const all = jobsBelow(this.#keys, type, prefix);
    const after = afterId === undefined ? undefined : this.#keys.job.key({ type, id: afterId });
    const begin = after === undefined || reverse ? all.begin : keyAfter(after);
    const end = after === undefined || !reverse ? all.end : after;
    const ids: string[] = [];
    for await (const { key } of tx.getRange({ begin, end }, { limit, reverse })) {
      ids.push(this.#keys.job.unpack(key).id);
    }
    return ids;
  }

  /**
   * Returns up to `limit` pending jobs that are due at `dueBySec`, in no particular order. A
   * snapshot read.
   */
  due(tx: ReadTransaction, type: JobType, wanted: DueWanted): Promise<readonly JobName[]> {
    return this.#queue.due(tx, type, wanted);
  }

  /**
   * Returns the number of due jobs that have a group, but that no worker is allowed to run. Reads
   * at most `rowsMax` rows. A snapshot read.
   */
  unplacedCount(tx: ReadTransaction, type: JobType, wanted: UnplacedWanted): Promise<number> {
    return this.#queue.unplacedCount(tx, type, wanted);
  }

  /**
   * Accepts up to `countMax` jobs due at `dueBySec`, either jobs without a group or jobs of one
   * group. Acceptors conflict only if they choose the same jobs. With `noSchedule`, for types whose
   * jobs have no due times, `dueBySec` is 0.
   *
   * Jobs accepted under a `worker` return to the queue when the worker is expelled. An expelled
   * worker cannot accept jobs. A worker accepts only jobs for its labels; without a worker, only
   * jobs that require no labels are accepted.
   */
  async accept(tx: Transaction, type: JobType, options: AcceptOptions): Promise<Acceptance> {
    const { worker, noSchedule, dueBySec, countMax, watchesRest = false } = options;
    assert(countMax >= 1, "An acceptor must request at least one job");
    assert(!noSchedule || dueBySec === 0, "Jobs without a schedule must be due at 0");
    const { labels } =
      worker === undefined ? { labels: NO_LABELS } : await this.workers.verifyMember(tx, worker);
    const taken = await this.#queue.take(tx, type, options, labels);
    const looksOn = taken.length === 0 || (watchesRest && taken.length < countMax);
    const firstDueSec = looksOn ? await this.#queue.firstDueSec(tx, type, labels) : undefined;
    const enqueued = this.#keys.enqueued.key({ type });
    if (taken.length === 0) return { kind: "none-due", enqueued: tx.watch(enqueued), firstDueSec };
    const jobs = await Promise.all(taken.map((name) => this.#hold(tx, name, { worker, labels })));
    const isAll = looksOn && (firstDueSec ?? Number.POSITIVE_INFINITY) > dueBySec;
    return {
      kind: "accepted",
      held: jobs.map(({ held }) => held),
      jobs: jobs.map(({ job }) => job),
      rest: isAll ? { enqueued: tx.watch(enqueued), firstDueSec } : undefined,
    };
  }

  /** Returns a random delay in milliseconds before accepting a job that woke all acceptors. */
  acceptDelayMs(): number {
    return this.#queue.acceptDelayMs();
  }

  /** Marks a job as running after it was removed from the queue. */
  async #hold(
    tx: Transaction,
    name: JobName,
    { worker, labels: own }: { readonly worker: WorkerId | undefined; readonly labels: Labels },
  ): Promise<{ readonly held: HeldJob; readonly job: Job }> {
    const [facts, data = {}] = await Promise.all([this.#facts(tx, name), this.#data.get(tx, name)]);
    assert(facts?.state === "pending", "A job in the queue must be pending");
    assert(hasLabels(own, facts.labels), "A worker must have the labels that its job requires");
    const requestLater = await this.#requestLater(tx, name, facts);
    const lock = randomHex(this.#runtime.random);
    const { type, id } = name;
    const { scheduledAtSec, group, labels, hasRequest } = facts;
    const terms = { scheduledAtSec, group, labels, hasRequest };
    const running = { lock, ...terms, resubmitted: false, worker };
    this.#markActive(tx, name, running);
    this.#call(tx, name, worker);
    this.counts.change(tx, type, facts, { state: "running", group });
    return {
      held: { type, id, lock },
      job: withRequestLater(
        { type, id, state: "running", worker, scheduledAtSec, group, labels, data },
        requestLater,
      ),
    };
  }

  /**
   * Sets the maximum number of concurrently running jobs of a group, cluster-wide; undefined for no
   * limit. `labels` are the labels that the group's jobs require.
   */
  async setGroupLimit(
    tx: Transaction,
    type: JobType,
    group: string,
    countMax: number | undefined,
    labels: Labels = NO_LABELS,
  ): Promise<void> {
    this.groups.setLimit(tx, type, group, countMax);
    await this.#queue.released(tx, type, { group, labels });
  }

  /** Returns the ids of a type's running jobs, in order of their last heartbeats. */
  async runningIds(tx: ReadTransaction, type: JobType): Promise<readonly string[]> {
    const ids: string[] = [];
    for await (const { value } of tx.getRange(this.#keys.activity.range({ type }))) {
      ids.push(decodeJobId(value));
    }
    return ids;
  }

  /** Verifies that the job is still held, for transactions that write other data on its behalf. */
  async verify(tx: ReadTransaction, held: HeldJob): Promise<void> {
    await this.#heldFacts(tx, held);
  }

  /**
   * Sends a heartbeat, and writes new data if given. Must be called well within the type's timeout.
   * As in `resubmit` and `finish`, if `request` is passed, it replaces the existing request.
   */
  async update(tx: Transaction, held: HeldJob, data?: JobData, request?: JobData): Promise<void> {
    const facts = await this.#heldFacts(tx, held);
    tx.clear(this.#keys.activity.key({ type: held.type, versionstamp: facts.activity }));
    this.#markActive(tx, held, withRequest(facts, request));
    const stored = { data, request };
    this.#data.set(tx, held, stored);
    await this.#announce(tx, held, withRequest(facts, request), stored);
  }

  /** Whether another run was requested during the current run. */
  async isResubmitted(tx: ReadTransaction, held: HeldJob): Promise<boolean> {
    return (await this.#heldFacts(tx, held)).resubmitted;
  }

  /**
   * Requests another run at `scheduledAtSec`, with `data` if given. The caller need not hold the
   * job. To return a running job to the queue for a later run, call this and then `finish`. If the
   * job is running, CouchDB drops `data`; Tandem keeps it for the next run.
   */
  async resubmit(
    tx: Transaction,
    job: JobName,
    scheduledAtSec: number,
    data?: JobData,
    request?: JobData,
  ): Promise<boolean> {
    const facts = await this.#facts(tx, job);
    if (facts === undefined) return false;
    const hasRequest = hasRequestAfter(facts, request);
    const terms = { scheduledAtSec, group: facts.group, labels: facts.labels, hasRequest };
    if (facts.state === "running") {
      this.#data.setNext(tx, job, { data, request });
      this.#write(tx, job, facts, { ...facts, ...terms, resubmitted: true });
      await this.#announce(tx, job, { ...facts, ...terms });
      return true;
    }
    this.#data.set(tx, job, { data, request });
    const isMoved = facts.state !== "pending" || !areSameTerms(facts, terms);
    if (isMoved && facts.state === "pending") await this.#queue.leave(tx, job, facts);
    if (isMoved) await this.#enqueue(tx, job, facts, terms);
    await this.#announce(tx, job, { ...terms, state: "pending" }, { data, request });
    return true;
  }

  /**
   * Fires the watch of the worker that holds the job (`watchHeld`), without changing the job. No
   * effect if the job is not running or has no worker.
   */
  async callHolder(tx: Transaction, job: JobName): Promise<void> {
    const facts = await this.#facts(tx, job);
    if (facts?.state === "running") this.#call(tx, job, facts.worker);
  }

  /** Ends the run: the job is finished, or pending again if it was resubmitted. */
  async finish(tx: Transaction, held: HeldJob, data?: JobData, request?: JobData): Promise<void> {
    const before = await this.#heldFacts(tx, held);
    const facts = withRequest(before, request);
    await this.#clearRunning(tx, held, facts);
    const stored = { data, request };
    this.#data.set(tx, held, stored);
    if (facts.resubmitted) {
      await this.#requeue(tx, held, facts, stored);
      return;
    }
    tx.set(this.#keys.job.key(held), encodeWaiting("finished", facts));
    this.counts.change(tx, held.type, facts, { state: "finished", group: facts.group });
    await this.#announce(tx, held, { ...facts, state: "finished" }, stored);
  }

  /**
   * Converts the job's stored requests to the current form, even if a worker holds the job. Returns
   * whether a request was in another form. If a job has no stored request, `split` divides its data
   * into data and a request.
   */
  async renewRequest(
    tx: Transaction,
    job: JobName,
    split?: (data: JobData) => { readonly data: JobData; readonly request: JobData },
  ): Promise<boolean> {
    const facts = await this.#facts(tx, job);
    if (facts === undefined) return false;
    if (facts.hasRequest) return this.#data.renewRequests(tx, job);
    const data = await this.#data.get(tx, job);
    if (split === undefined || data === undefined) return false;
    this.#data.set(tx, job, split(data));
    const after = { ...facts, hasRequest: true };
    const record =
      after.state === "running" ? encodeStillRunning(after) : encodeWaiting(after.state, after);
    tx.set(this.#keys.job.key(job), record);
    return true;
  }

  /** Replaces the request of a job that is not running. The job's state does not change. */
  async setRequest(tx: Transaction, job: JobName, request: JobData): Promise<void> {
    const facts = await this.#facts(tx, job);
    assert(
      facts?.hasRequest === true && facts.state !== "running",
      "The job must have a request and must not be running",
    );
    this.#data.set(tx, job, { data: undefined, request });
  }

  /**
   * Replaces the request of a job in any state, without affecting its schedule or its run. Meant
   * for values that the holder does not use. Has no effect on a job without a request.
   */
  async amendRequest(tx: Transaction, job: JobName, request: JobData): Promise<void> {
    const facts = await this.#facts(tx, job);
    if (facts?.hasRequest !== true) return;
    const stored = { data: undefined, request };
    this.#data.set(tx, job, stored);
    if (facts.state === "running" && facts.resubmitted) this.#data.setNext(tx, job, stored);
    await this.#announce(tx, job, facts, stored);
  }

  /**
   * Sets the labels that a job in any state requires. Returns whether the labels changed. If a
   * worker holds the job, the worker is notified, and should return the job to the queue
   * (`labelsOf`).
   */
  async setLabels(tx: Transaction, job: JobName, labels: Labels): Promise<boolean> {
    const facts = await this.#facts(tx, job);
    if (facts === undefined || areSameLabels(facts.labels, labelSet(labels))) return false;
    const after = { ...facts, labels: labelSet(labels) };
    if (after.state === "running" && facts.state === "running") {
      this.#write(tx, job, facts, after);
      return true;
    }
    if (facts.state !== "pending") {
      tx.set(this.#keys.job.key(job), encodeWaiting("finished", after));
      return true;
    }
    await this.#queue.leave(tx, job, facts);
    await this.#enqueue(tx, job, facts, after);
    return true;
  }

  /**
   * Returns the labels that a held job requires now. They might have changed since a worker
   * accepted the job.
   */
  async labelsOf(tx: ReadTransaction, held: HeldJob): Promise<Labels> {
    return (await this.#heldFacts(tx, held)).labels;
  }

  /** Returns a watch that fires when the job changes in any way after this transaction's commit. */
  watch(tx: Transaction, job: JobName): Watch {
    return tx.watch(this.#keys.job.key(job));
  }

  /**
   * Returns a watch that fires when the holder loses the job or another run is requested. The
   * holder's own heartbeats do not fire it, unless the holder has no worker.
   */
  async watchHeld(tx: Transaction, held: HeldJob): Promise<Watch> {
    const { worker } = await this.#heldFacts(tx, held);
    return tx.watch(
      worker === undefined ? this.#keys.job.key(held) : this.#keys.held.key({ worker, ...held }),
    );
  }

  /** Returns the position of a type's latest heartbeat in the activity order. */
  async lastActivity(tx: ReadTransaction, type: JobType): Promise<Versionstamp | undefined> {
    const range = this.#keys.activity.range({ type });
    const page = await tx.snapshot.getRangePage(range, { limit: 1, reverse: true });
    const [row] = page.entries;
    return row && this.#keys.activity.unpack(row.key).versionstamp;
  }

  /**
   * Requeues up to `limit` jobs whose last heartbeat is not after `until`. A worker that still
   * holds one of these jobs is halted at its next write.
   */
  async requeueSilent(
    tx: Transaction,
    type: JobType,
    until: Versionstamp,
    limit: number,
  ): Promise<RequeuedBatch> {
    const page = await tx.getRangePage(
      this.#keys.activity.rangeUntil({ type, versionstamp: until }),
      { limit },
    );
    const ids = page.entries.map(({ value }) => decodeJobId(value));
    await Promise.all(ids.map((id) => this.#requeueRunning(tx, { type, id })));
    return { jobCount: ids.length, isDone: page.stoppedBy === "exhausted" };
  }

  /** Returns the number of jobs that a worker holds. A snapshot read. */
  async heldCount(tx: ReadTransaction, worker: WorkerId): Promise<number> {
    let count = 0;
    for await (const _ of tx.snapshot.getRange(this.#keys.held.range({ worker }))) count++;
    return count;
  }

  /** Requeues up to `limit` jobs of an expelled worker. */
  async requeueHeldBy(tx: Transaction, worker: WorkerId, limit: number): Promise<RequeuedBatch> {
    const page = await tx.getRangePage(this.#keys.held.range({ worker }), { limit });
    const jobs = page.entries.map(({ key }) => this.#keys.held.unpack(key));
    await Promise.all(jobs.map((job) => this.#requeueRunning(tx, job, worker)));
    return { jobCount: jobs.length, isDone: page.stoppedBy === "exhausted" };
  }

  async #requeueRunning(tx: Transaction, job: JobName, worker?: WorkerId): Promise<void> {
    const facts = await this.#facts(tx, job);
    assert(
      facts?.state === "running",
      "A job in the activity order or in a worker's list must be running",
    );
    assert(
      worker === undefined || facts.worker === worker,
      "A worker must hold the jobs in its list",
    );
    await this.#clearRunning(tx, job, facts);
    // The job was due when it was accepted. If the clock was set back since then, the due time can
    // be in the future again; the job must not wait for it.
    const nowSec = currentSec(this.#runtime.clock);
    const wasDueSec = Math.min(facts.scheduledAtSec, nowSec);
    const scheduledAtSec = facts.resubmitted ? facts.scheduledAtSec : wasDueSec;
    await this.#requeue(tx, job, { ...facts, scheduledAtSec }, LOST);
  }

  async #facts(tx: ReadTransaction, job: JobName): Promise<JobFacts | undefined> {
    const value = await tx.get(this.#keys.job.key(job));
    return value && decodeFacts(value);
  }

  async #heldFacts(tx: ReadTransaction, held: HeldJob): Promise<RunningFacts> {
    const facts = await this.#facts(tx, held);
    if (facts?.state !== "running" || facts.lock !== held.lock) throw new JobHaltedError(held);
    return facts;
  }

  /** Writes a job that continues to run. */
  #write(tx: Transaction, job: JobName, from: RunningFacts, to: RunningFacts): void {
    tx.set(this.#keys.job.key(job), encodeStillRunning(to));
    this.#call(tx, job, to.worker);
    this.counts.change(tx, job.type, from, to);
  }

  /**
   * Fires the watch of the job's worker: writes a new random value for the job to the worker's
   * list.
   */
  #call(tx: Transaction, job: JobName, worker: WorkerId | undefined): void {
    if (worker === undefined) return;
    tx.set(this.#keys.held.key({ worker, ...job }), this.#runtime.random.bytes(CALL_BYTES));
  }

  #markActive(tx: Transaction, job: JobName, facts: RunningFactsAtCommit): void {
    const userVersion = tx.nextUserVersion();
    tx.setVersionstampedValue(this.#keys.job.key(job), encodeRunning(facts, userVersion));
    tx.setVersionstampedKey(
      this.#keys.activity.newKey({ type: job.type }, userVersion),
      encodeJobId(job.id),
    );
  }

  /** Removes a job that stops running from the activity order and from its worker's list. */
  async #clearRunning(tx: Transaction, { type, id }: JobName, facts: RunningFacts): Promise<void> {
    tx.clear(this.#keys.activity.key({ type, versionstamp: facts.activity }));
    if (facts.worker !== undefined)
      tx.clear(this.#keys.held.key({ worker: facts.worker, type, id }));
    const { group } = facts;
    const isLimited = group !== undefined && (await this.groups.isLimited(tx, type, group));
    if (isLimited) await this.#queue.released(tx, type, facts);
  }

  async #enqueue(
    tx: Transaction,
    job: JobName,
    from: JobFacts | undefined,
    terms: JobTerms,
  ): Promise<void> {
    tx.set(this.#keys.job.key(job), encodeWaiting("pending", terms));
    this.counts.change(tx, job.type, from, { state: "pending", group: terms.group });
    await this.#queue.enter(tx, job, terms);
  }

  /**
   * Returns a job to the queue after a run. Values set for the next run replace the current values.
   */
  async #requeue(
    tx: Transaction,
    job: JobName,
    facts: RunningFacts,
    written: Announced,
  ): Promise<void> {
    await this.#enqueue(tx, job, facts, facts);
    const { data = written.data, request = written.request } = await this.#data.takeNext(
      tx,
      job,
      facts,
    );
    const after = { ...facts, state: "pending" } as const;
    await this.#announce(tx, job, after, { ...written, data, request });
  }

  /** Notifies the observer of the type. `facts` is undefined for a removed job. */
  async #announce(
    tx: Transaction,
    { type, id }: JobName,
    facts: (JobTerms & Pick<JobFacts, "state">) | undefined,
    { data, request, isLost = false }: Announced = NOT_WRITTEN,
  ): Promise<void> {
    const name = { type, id };
    const load = async () => ({
      data: data ?? (await this.#data.get(tx, name)) ?? {},
      request: request ?? (facts?.hasRequest ? await this.#data.getRequest(tx, name) : undefined),
    });
    await this.#observers.get(type)?.changed(tx, name, { facts, data, request, isLost, load });
  }
}

/** Returns the position of a running job in the activity order. */
function activityOf(facts: JobFacts): string | undefined {
  return facts.state === "running" ? facts.activity.toString() : undefined;
}

function jobOf({ type, id }: JobName, facts: JobFacts, { data = {}, request }: Stored): Job {
  const { state, scheduledAtSec, group, labels } = facts;
  const worker = facts.state === "running" ? facts.worker : undefined;
  return { type, id, state, worker, scheduledAtSec, group, labels, data, request };
}

/**
 * Returns a job whose request is decoded on demand, because it might be long, and subscriptions
 * read the job repeatedly.
 */
function withRequestLater(job: Omit<Job, "request">, requestLater: () => JobData | undefined): Job {
  return {
    ...job,
    get request() {
      return requestLater();
    },
  };
}

/** Whether a job has a request after a change: a new one (`request`), or else the stored one. */
function hasRequestAfter(facts: JobFacts | undefined, request: JobData | undefined): boolean {
  return request !== undefined || facts?.hasRequest === true;
}

function withRequest(facts: RunningFacts, request: JobData | undefined): RunningFacts {
  return request === undefined ? facts : { ...facts, hasRequest: true };
}

function areSameTerms(left: JobTerms, right: JobTerms): boolean {
  return (
    left.scheduledAtSec === right.scheduledAtSec &&
    left.group === right.group &&
    areSameLabels(left.labels, right.labels) &&
    left.hasRequest === right.hasRequest
  );
}

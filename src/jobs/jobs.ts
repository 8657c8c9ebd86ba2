/**
 * The transactional queue of background jobs (RFC 007). Any number of nodes add to it and take from it; every call composes
 * inside the caller's transaction, so that a job and what it is about change together.
 *
 * Fencing: acceptance draws a lock, and every write of the holder verifies it in the same transaction. A holder that lost
 * its job gets a JobHaltedError, which aborts the whole transaction, and with it whatever else stood in it.
 */
import {
  assert,
  EMPTY_BYTES,
  equalBytes,
  type Page,
  type Runtime,
  randomHex,
} from "../base/index.ts";
import type { ReadTransaction, Subspace, Transaction, Versionstamp, Watch } from "../kv/index.ts";
import type { HeldJob, Job, JobData, JobFacts, JobName, JobType } from "./job.ts";
import { JobKeys } from "./job-keys.ts";
import {
  decodeData,
  decodeFacts,
  decodeJobId,
  decodeTypeTimeout,
  encodeData,
  encodeJobId,
  encodeRunning,
  encodeStillRunning,
  encodeTypeTimeout,
  encodeWaiting,
  type RunningFactsAtCommit,
} from "./job-record.ts";
import type { Observation } from "./job-subscriptions.ts";
import { JobHaltedError, UnknownJobTypeError } from "./jobs-errors.ts";
import type { RequeuedBatch } from "./requeue.ts";
import type { WorkerId } from "./worker.ts";
import { Workers } from "./workers.ts";

/** Among so many due jobs an acceptor chooses at random, so that acceptors seldom want the same one (CouchDB: 1024). */
const DUE_ROWS_MAX = 256;

type RunningFacts = JobFacts & { state: "running" };

/** What an acceptance found. `enqueued` fires when a job enters the queue. */
export type Acceptance =
  | { readonly kind: "accepted"; readonly held: readonly HeldJob[]; readonly jobs: readonly Job[] }
  | { readonly kind: "none-due"; readonly enqueued: Watch };

export class Jobs {
  readonly #runtime: Runtime;
  readonly #keys: JobKeys;
  /** Who may accept jobs and what became of them: the same keys, the same transactions. */
  readonly workers: Workers;

  constructor(runtime: Runtime, subspace: Subspace) {
    this.#runtime = runtime;
    this.#keys = new JobKeys(subspace);
    this.workers = new Workers(runtime, subspace);
  }

  /** Registers a type: a running job of it that is silent for `timeoutSec` goes back to the queue. */
  async setTypeTimeout(tx: Transaction, type: JobType, timeoutSec: number): Promise<void> {
    assert(timeoutSec > 0, "A type's timeout is positive");
    tx.set(this.#keys.typeTimeout(type), encodeTypeTimeout(timeoutSec));
  }

  async getTypeTimeout(tx: ReadTransaction, type: JobType): Promise<number | undefined> {
    const value = await tx.snapshot.get(this.#keys.typeTimeout(type));
    return value && decodeTypeTimeout(value);
  }

  /** Ends a type. Its jobs stay; none can be added and nobody watches over them. */
  async clearTypeTimeout(tx: Transaction, type: JobType): Promise<void> {
    tx.clear(this.#keys.typeTimeout(type));
  }

  /**
   * Adds a job, or asks for one more run of an existing one.
   *
   *   absent, finished   pending with this data and time
   *   pending            takes this data and time; nothing is written when both are the same already
   *   running            runs again after this run, at this time and with this data
   *
   * CouchDB: drops the data when the job is pending at the same time, and when it is running. We keep it.
   */
  async add(tx: Transaction, job: JobName, data: JobData, scheduledAtSec = 0): Promise<void> {
    const typeTimeout = await tx.get(this.#keys.typeTimeout(job.type));
    if (typeTimeout === undefined) throw new UnknownJobTypeError(job.type);
    const facts = await this.#facts(tx, job);
    if (facts?.state === "running") {
      this.#write(tx, job, { ...facts, scheduledAtSec, resubmitted: true });
      this.#setNextData(tx, job, data);
      return;
    }
    if (facts?.state === "pending") {
      const sameTime = facts.scheduledAtSec === scheduledAtSec;
      if (sameTime && (await this.#hasData(tx, job, data))) return;
      if (!sameTime) tx.clear(this.#keys.pending(job, facts.scheduledAtSec));
    }
    this.#enqueue(tx, job, scheduledAtSec);
    this.#setData(tx, job, data);
  }

  /** Removes a job in any state; its holder is halted. False when there is none. */
  async remove(tx: Transaction, job: JobName): Promise<boolean> {
    const facts = await this.#facts(tx, job);
    if (facts === undefined) return false;
    if (facts.state === "pending") tx.clear(this.#keys.pending(job, facts.scheduledAtSec));
    if (facts.state === "running") this.#clearRunning(tx, job, facts);
    tx.clear(this.#keys.job(job));
    tx.clearRange(this.#keys.dataChunks(job));
    tx.clearRange(this.#keys.nextDataChunks(job));
    return true;
  }

  async get(tx: ReadTransaction, job: JobName): Promise<Job | undefined> {
    return (await this.observe(tx, job))?.job;
  }

  /** The job, and its place in the activity order, which tells a later sign of life from an earlier one. */
  async observe(tx: ReadTransaction, { type, id }: JobName): Promise<Observation | undefined> {
    const name = { type, id };
    const [facts, data] = await Promise.all([this.#facts(tx, name), this.#data(tx, name)]);
    if (facts === undefined) return undefined;
    const { state, scheduledAtSec } = facts;
    return {
      job: { ...name, state, scheduledAtSec, data },
      activity: facts.state === "running" ? facts.activity.toString() : undefined,
    };
  }

  /** One page of a type's jobs in order of id, beginning behind `afterId`. */
  async list(
    tx: ReadTransaction,
    type: JobType,
    { afterId, limit }: { readonly afterId?: string; readonly limit: number },
  ): Promise<Page<Job>> {
    const range = this.#keys.jobsOfType(type);
    const begin =
      afterId === undefined ? range.begin : after(this.#keys.job({ type, id: afterId }));
    const page = await tx.getRangePage({ begin, end: range.end }, { limit });
    const entries = await Promise.all(
      page.entries.map(async ({ key, value }): Promise<Job> => {
        const id = this.#keys.lastElement(key) as string;
        const { state, scheduledAtSec } = decodeFacts(value);
        return { type, id, state, scheduledAtSec, data: await this.#data(tx, { type, id }) };
      }),
    );
    return { entries, stoppedBy: page.stoppedBy };
  }

  /** How many jobs are due at `dueBySec`, counted up to `limit`. A snapshot: nothing conflicts with it. */
  async pendingCount(
    tx: ReadTransaction,
    type: JobType,
    { dueBySec, limit }: { readonly dueBySec: number; readonly limit: number },
  ): Promise<number> {
    const range = this.#keys.pendingUntil(type, dueBySec);
    const page = await tx.snapshot.getRangePage(range, { limit });
    return page.entries.length;
  }

  /**
   * Takes up to `countMax` jobs that are due at `dueBySec`. The queue is read as a snapshot and the jobs are chosen at random
   * among the first due, with a conflict key each: acceptors conflict only when they chose the same one (RFC 007).
   *
   * Jobs accepted under a `worker` go back to the queue when it is expelled. A worker that was, accepts nothing.
   */
  async accept(
    tx: Transaction,
    type: JobType,
    {
      dueBySec,
      countMax,
      worker,
    }: { readonly dueBySec: number; readonly countMax: number; readonly worker?: WorkerId },
  ): Promise<Acceptance> {
    if (worker !== undefined) await this.workers.verifyMember(tx, worker);
    const range = this.#keys.pendingUntil(type, dueBySec);
    const due = await tx.snapshot.getRangePage(range, { limit: DUE_ROWS_MAX });
    if (due.entries.length === 0) {
      return { kind: "none-due", enqueued: tx.watch(this.#keys.enqueued(type)) };
    }
    const chosen = this.#choose(due.entries, countMax);
    const accepted = await Promise.all(
      chosen.map(async ({ key }) => {
        tx.addReadConflictKey(key);
        tx.clear(key);
        const name = { type, id: this.#keys.lastElement(key) as string };
        const facts = await this.#facts(tx, name);
        assert(facts?.state === "pending", "A job in the queue is pending");
        const lock = randomHex(this.#runtime.random);
        const { scheduledAtSec } = facts;
        this.#markActive(tx, name, { lock, scheduledAtSec, resubmitted: false, worker });
        if (worker !== undefined) tx.set(this.#keys.held(worker, name), EMPTY_BYTES);
        const data = await this.#data(tx, name);
        return {
          held: { ...name, lock },
          job: { ...name, state: "running" as const, scheduledAtSec, data },
        };
      }),
    );
    return {
      kind: "accepted",
      held: accepted.map(({ held }) => held),
      jobs: accepted.map(({ job }) => job),
    };
  }

  /** Verifies that the job is still held; for transactions that write something else on its behalf. */
  async verify(tx: ReadTransaction, held: HeldJob): Promise<void> {
    await this.#heldFacts(tx, held);
  }

  /** A sign of life, with new data if given. Call it well within the type's timeout. */
  async update(tx: Transaction, held: HeldJob, data?: JobData): Promise<void> {
    const facts = await this.#heldFacts(tx, held);
    tx.clear(this.#keys.activity(held.type, facts.activity));
    this.#markActive(tx, held, facts);
    if (data !== undefined) this.#setData(tx, held, data);
  }

  /** Whether somebody asked for one more run while this one lasts. */
  async isResubmitted(tx: ReadTransaction, held: HeldJob): Promise<boolean> {
    return (await this.#heldFacts(tx, held)).resubmitted;
  }

  /**
   * Asks for one more run at `scheduledAtSec`, whoever holds the job; with `data` if given. With `finish`: "run again later".
   * CouchDB: drops the data when the job is running. We keep it for the next run.
   */
  async resubmit(
    tx: Transaction,
    job: JobName,
    scheduledAtSec: number,
    data?: JobData,
  ): Promise<boolean> {
    const facts = await this.#facts(tx, job);
    if (facts === undefined) return false;
    if (facts.state === "running") {
      this.#write(tx, job, { ...facts, scheduledAtSec, resubmitted: true });
      if (data !== undefined) this.#setNextData(tx, job, data);
      return true;
    }
    if (data !== undefined) this.#setData(tx, job, data);
    if (facts.state === "pending") {
      if (facts.scheduledAtSec === scheduledAtSec) return true;
      tx.clear(this.#keys.pending(job, facts.scheduledAtSec));
    }
    this.#enqueue(tx, job, scheduledAtSec);
    return true;
  }

  /** Ends the run: the job is finished, or pending again when it was resubmitted. */
  async finish(tx: Transaction, held: HeldJob, data?: JobData): Promise<void> {
    const facts = await this.#heldFacts(tx, held);
    this.#clearRunning(tx, held, facts);
    if (data !== undefined) this.#setData(tx, held, data);
    if (facts.resubmitted) await this.#requeue(tx, held, facts.scheduledAtSec);
    else tx.set(this.#keys.job(held), encodeWaiting("finished", facts.scheduledAtSec));
  }

  /** Fires when the job changes in any way, after this transaction's commit. */
  watch(tx: Transaction, job: JobName): Watch {
    return tx.watch(this.#keys.job(job));
  }

  /** Every type with its timeout in seconds. */
  async types(tx: ReadTransaction): Promise<{ type: JobType; timeoutSec: number }[]> {
    const page = await tx.snapshot.getRangePage(this.#keys.typeTimeouts());
    return page.entries.map(({ key, value }) => ({
      type: this.#keys.lastElement(key) as string,
      timeoutSec: decodeTypeTimeout(value),
    }));
  }

  /** Where the activity order of a type ends: the latest sign of life. */
  async lastActivity(tx: ReadTransaction, type: JobType): Promise<Versionstamp | undefined> {
    const range = this.#keys.activities(type);
    const page = await tx.snapshot.getRangePage(range, { limit: 1, reverse: true });
    const [row] = page.entries;
    return row && (this.#keys.lastElement(row.key) as Versionstamp);
  }

  /** Puts up to `limit` jobs back into the queue whose last sign of life is not later than `until`. Their holders are halted. */
  async requeueSilent(
    tx: Transaction,
    type: JobType,
    until: Versionstamp,
    limit: number,
  ): Promise<RequeuedBatch> {
    const page = await tx.getRangePage(this.#keys.activitiesUntil(type, until), { limit });
    const ids = page.entries.map(({ value }) => decodeJobId(value));
    await Promise.all(ids.map((id) => this.#requeueRunning(tx, { type, id })));
    return { jobCount: ids.length, isDone: page.stoppedBy === "exhausted" };
  }

  /** How many jobs a worker holds. A snapshot: nothing conflicts with it. */
  async heldCount(tx: ReadTransaction, worker: WorkerId): Promise<number> {
    let count = 0;
    for await (const _ of tx.snapshot.getRange(this.#keys.heldBy(worker))) count++;
    return count;
  }

  /** Puts up to `limit` jobs that an expelled worker held back into the queue. Their holder is halted. */
  async requeueHeldBy(tx: Transaction, worker: WorkerId, limit: number): Promise<RequeuedBatch> {
    const page = await tx.getRangePage(this.#keys.heldBy(worker), { limit });
    const jobs = page.entries.map(({ key }) => this.#keys.heldJob(key));
    await Promise.all(jobs.map((job) => this.#requeueRunning(tx, job, worker)));
    return { jobCount: jobs.length, isDone: page.stoppedBy === "exhausted" };
  }

  async #requeueRunning(tx: Transaction, job: JobName, worker?: WorkerId): Promise<void> {
    const facts = await this.#facts(tx, job);
    assert(facts?.state === "running", "A job in the activity order or a worker's list is running");
    assert(worker === undefined || facts.worker === worker, "A worker lists what it holds");
    this.#clearRunning(tx, job, facts);
    await this.#requeue(tx, job, facts.scheduledAtSec);
  }

  #choose<Row>(rows: readonly Row[], countMax: number): Row[] {
    const left = [...rows];
    const chosen: Row[] = [];
    while (chosen.length < countMax && left.length > 0) {
      chosen.push(...left.splice(this.#runtime.random.integer(left.length), 1));
    }
    return chosen;
  }

  async #facts(tx: ReadTransaction, job: JobName): Promise<JobFacts | undefined> {
    const value = await tx.get(this.#keys.job(job));
    return value && decodeFacts(value);
  }

  async #heldFacts(tx: ReadTransaction, held: HeldJob): Promise<RunningFacts> {
    const facts = await this.#facts(tx, held);
    if (facts?.state !== "running" || facts.lock !== held.lock) throw new JobHaltedError(held);
    return facts;
  }

  async #data(tx: ReadTransaction, job: JobName): Promise<JobData> {
    const page = await tx.getRangePage(this.#keys.dataChunks(job));
    return page.entries.length === 0 ? {} : decodeData(page.entries.map(({ value }) => value));
  }

  async #hasData(tx: ReadTransaction, job: JobName, data: JobData): Promise<boolean> {
    const stored = (await tx.getRangePage(this.#keys.dataChunks(job))).entries;
    const wanted = encodeData(data);
    return (
      stored.length === wanted.length &&
      stored.every(({ value }, index) => equalBytes(value, wanted[index] as Uint8Array))
    );
  }

  #write(tx: Transaction, job: JobName, facts: RunningFacts): void {
    tx.set(this.#keys.job(job), encodeStillRunning(facts));
  }

  #markActive(tx: Transaction, job: JobName, facts: RunningFactsAtCommit): void {
    const userVersion = tx.nextUserVersion();
    tx.setVersionstampedValue(this.#keys.job(job), encodeRunning(facts, userVersion));
    tx.setVersionstampedKey(this.#keys.newActivity(job.type, userVersion), encodeJobId(job.id));
  }

  /** A job that stops running leaves the activity order and its worker's index. */
  #clearRunning(tx: Transaction, { type, id }: JobName, facts: RunningFacts): void {
    tx.clear(this.#keys.activity(type, facts.activity));
    if (facts.worker !== undefined) tx.clear(this.#keys.held(facts.worker, { type, id }));
  }

  #enqueue(tx: Transaction, job: JobName, scheduledAtSec: number): void {
    tx.set(this.#keys.job(job), encodeWaiting("pending", scheduledAtSec));
    tx.set(this.#keys.pending(job, scheduledAtSec), EMPTY_BYTES);
    tx.add(this.#keys.enqueued(job.type), 1n);
  }

  /** Back into the queue after a run; data that was given during the run takes its place. */
  async #requeue(tx: Transaction, job: JobName, scheduledAtSec: number): Promise<void> {
    this.#enqueue(tx, job, scheduledAtSec);
    const next = (await tx.getRangePage(this.#keys.nextDataChunks(job))).entries;
    if (next.length === 0) return;
    tx.clearRange(this.#keys.nextDataChunks(job));
    this.#setData(tx, job, decodeData(next.map(({ value }) => value)));
  }

  #setData(tx: Transaction, job: JobName, data: JobData): void {
    this.#setChunks(tx, this.#keys.dataChunks(job), data, (chunk) => this.#keys.data(job, chunk));
  }

  #setNextData(tx: Transaction, job: JobName, data: JobData): void {
    this.#setChunks(tx, this.#keys.nextDataChunks(job), data, (n) => this.#keys.nextData(job, n));
  }

  #setChunks(
    tx: Transaction,
    range: { begin: Uint8Array; end: Uint8Array },
    data: JobData,
    keyOf: (chunk: number) => Uint8Array,
  ): void {
    tx.clearRange(range);
    for (const [chunk, bytes] of encodeData(data).entries()) tx.set(keyOf(chunk), bytes);
  }
}

/** The first key behind `key`. */
function after(key: Uint8Array): Uint8Array {
  const next = new Uint8Array(key.length + 1);
  next.set(key);
  return next;
}

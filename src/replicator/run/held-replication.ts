/**
 * A replication job held by this node, with the job data and all writes of the job. Each write
 * verifies the job's lock in the queue, and throws `JOBS_HALTED` if the lock is lost.
 */
import { assert, currentSec, errorCode, Notifier, type Runtime } from "../../base/index.ts";
import type { DatabaseRegistry } from "../../databases/index.ts";
import {
  areSameLabels,
  type HeldJob,
  type Job,
  type JobData,
  JobHaltedError,
  NO_LABELS,
} from "../../jobs/index.ts";
import type { KeyValueStore, ReadTransaction, Transaction, Watch } from "../../kv/index.ts";
import type { RemovedDatabases } from "../documents/removed-databases.ts";
import {
  clearDocumentState,
  removeReplicationDocuments,
  writeDocumentState,
} from "../documents/replication-document.ts";
import type { FailureLists } from "../failures/failure-lists.ts";
import { SCHEDULED_RETRY } from "../failures/run-failures.ts";
import { type RemoveJobParts, removeJob } from "../job-changes/remove-job.ts";
import { type Claim, UNPROVEN_MS_MAX } from "../job-changes/replication-ownership.ts";
import { type Backlog, isUnread } from "../job-lists/backlog.ts";
import type { JobRun } from "../job-log/job-run.ts";
import type { Outages } from "../job-watching/outages.ts";
import {
  type Disposition,
  decideDue,
  decideList,
  decideParked,
  decideRun,
  type RunEnding,
} from "../jobs/decide.ts";
import { type JobControl, UNTOUCHED } from "../jobs/job-control.ts";
import {
  baseIdsOf,
  directionsRun,
  ended,
  hasEnded,
  isProven,
  type Observed,
  observed,
  type ReplicationJobData,
  type RunIds,
  replicationIdsOf,
  retried,
  started,
  withChangesPending,
} from "../jobs/job-data.ts";
import { decodeJob, encodeProgress, requestToStore } from "../jobs/job-data-record.ts";
import { describeJob, jobTrace } from "../jobs/job-trace.ts";
import { penaltySec } from "../jobs/penalty.ts";
import {
  addStatistics,
  NO_STATISTICS,
  type ReplicationStatistics,
} from "../jobs/replication-statistics.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import { directionsOf } from "../request/pair.ts";
import { watchedPlace } from "../request/watched-place.ts";
import { BacklogTracker } from "./backlog-tracker.ts";
import { HazardRecord } from "./hazard-record.ts";
import type { TargetOrigin } from "./replication-run.ts";
import { StopRequest } from "./replication-run.ts";
import {
  isCheckpointed,
  isStartStored,
  isStartUnstored,
  type PhaseEvent,
  phaseAfter,
  type RunPhase,
} from "./run-phase.ts";

/** Pause between attempts to return a job to the queue while the store rejects writes. */
const REFUSED_PAUSE_MS = 1000;

export interface HeldReplicationParts extends RemoveJobParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly failureLists: FailureLists;
  readonly outages: Outages;
  readonly removedDatabases: Pick<RemovedDatabases, "has" | "removeHalted">;
  readonly config: ReplicatorConfig;
}

/** Heartbeats per activity timeout. */
export const UPDATES_PER_TIMEOUT = 4;

type Parking = Extract<RunEnding, { kind: "caught-up" }>;

export class HeldReplication {
  /** Dependencies. Their runtime adds the identity of the job to each event. */
  readonly parts: HeldReplicationParts;
  readonly held: HeldJob;
  readonly #called: Notifier[] = [];
  readonly hazards: HazardRecord;
  #data: ReplicationJobData;
  /** Request migrated from the old record format; saved by the next write. */
  #requestToStore: JobData | undefined;
  /** Operators' decisions that applied at the start of this run. */
  #control: JobControl = UNTOUCHED;
  readonly #backlog = new BacklogTracker();
  #counts: NonNullable<JobRun["counts"]> = { ...NO_STATISTICS, bytes: 0 };
  #phase: RunPhase = "accepted";
  readonly #acceptedMs: number;
  /**
   * The previous run, if its node crashed or lost the job before the run ended. It is recorded
   * together with the start of this run.
   */
  readonly #lostRun: JobRun | undefined;
  /** Whether this run has woken the jobs that wait for this job to catch up (`after`). */
  #hasNotedReached = false;
  /** Whether other jobs wanted the same replication when the run began. */
  #hasRivals = false;
  #stored: ReplicationJobData;
  #storedAtMs: number;
  /**
   * Activity timeout stored with the job type in the queue. It applies to all nodes, regardless of
   * their configuration.
   */
  #activityTimeoutSec: number;

  /**
   * `job` is the job accepted from the queue. Throws if a newer version stored it in an unknown
   * format.
   */
  constructor(parts: HeldReplicationParts, held: HeldJob, job: Pick<Job, "data" | "request">) {
    this.held = held;
    this.#data = decodeJob(job);
    const { runtime } = parts;
    const trace = jobTrace(runtime.trace, describeJob(held.id, this.#data));
    this.parts = { ...parts, runtime: { ...runtime, trace } };
    this.#requestToStore = requestToStore(job, this.#data);
    this.#stored = this.#data;
    this.#storedAtMs = parts.runtime.clock.monotonicMs();
    this.#acceptedMs = parts.runtime.clock.nowMs();
    this.#lostRun = lostRun(this.#data);
    this.hazards = new HazardRecord({
      kv: parts.kv,
      write: async (tx, hazard) => {
        await this.verify(tx);
        parts.controls.setHazard(tx, held.id, hazard);
      },
    });
    this.#activityTimeoutSec = parts.config.activityTimeoutSec;
  }

  /** The current job data, including changes that the next write will store. */
  get data(): ReplicationJobData {
    return this.#data;
  }

  verify(tx: ReadTransaction): Promise<void> {
    return this.parts.jobs.verify(tx, this.held);
  }

  /**
   * Verifies that the job is held, and throws if it is lost. Used before writes to servers, because
   * servers do not check the lock.
   */
  verifyNow(): Promise<void> {
    return this.parts.kv.read((tx) => this.verify(tx));
  }

  /**
   * Reads operators' decisions. Called once, before the run begins. If the job's database was
   * deleted, throws a JobHaltedError, because the job is about to be removed.
   */
  async readControl(): Promise<JobControl> {
    const { kv, controls, backlogs, removedDatabases } = this.parts;
    const { id } = this.held;
    const [control, hazard, backlog, isGone] = await kv.read((tx) =>
      Promise.all([
        controls.get(tx, id),
        controls.hazard(tx, id),
        backlogs.get(tx, id),
        removedDatabases.has(tx, id),
      ]),
    );
    if (isGone) throw new JobHaltedError(this.held);
    this.#control = control;
    this.hazards.load(hazard, control.decision);
    this.#backlog.noteStored(isUnread(backlog, this.#data.failing) ? undefined : backlog);
    // Ignore a number of pending changes that was determined before the end of the last run.
    if (backlog !== undefined && backlog.seenMs >= this.#data.lastUpdatedMs) {
      this.noteChangesPending(backlog.pending);
    }
    return this.#control;
  }

  /** Changes that were already known to be pending before this run, if any. */
  get earlierLag(): { readonly sinceMs: number; readonly pending: number | undefined } | undefined {
    const { sinceMs, pending } = this.#backlog.stored ?? {};
    if (sinceMs === undefined) return undefined;
    // The stored number of changes cannot be used after a restart at another position. It cannot be
    // used for a pair either, because the number includes both directions.
    const isOfRun = this.restartAt === undefined && this.#data.replication?.pair !== true;
    return { sinceMs, pending: isOfRun ? pending : undefined };
  }

  /**
   * Returns a watch that fires when the job is lost, or when another node notifies the worker, for
   * example because of an operator's decision. After the watch has fired, a new one must be
   * created. Throws a StopRequest if an operator has made a decision since the start of the run, or
   * if `run_on` has changed.
   */
  async watch(): Promise<Watch> {
    const { kv, jobs, controls } = this.parts;
    const { watch, labels, decision, timeoutSec } = await kv.transact(async (tx) => ({
      watch: await jobs.watchHeld(tx, this.held),
      labels: await jobs.labelsOf(tx, this.held),
      decision: (await controls.get(tx, this.held.id)).decision,
      timeoutSec: await jobs.getTypeTimeout(tx, this.held.type),
    }));
    this.#learnTimeout(timeoutSec);
    for (const called of this.#called) called.notify();
    const isMoved = !areSameLabels(labels, this.#data.replication?.runOn ?? NO_LABELS);
    if (decision === this.#control.decision && !isMoved) return watch;
    watch.cancel();
    throw new StopRequest({ awaitsWrites: true });
  }

  /**
   * Returns a notifier. It fires when another node notifies the worker about this job, and on the
   * first call of `watch`.
   */
  openCalled(): Notifier {
    const called = new Notifier();
    this.#called.push(called);
    return called;
  }

  /** Start sequence requested by an operator. Overrides checkpoints. */
  get restartAt(): JobControl["restartAt"] {
    return this.#control.restartAt;
  }

  /**
   * Records that the run has started, unless another job owns one of the job's replications. If
   * `isShort`, the start is stored only with the next write, usually at the end of the run. Returns
   * `halting` while a run of a removed job is still copying one of the job's replications.
   */
  async begin(
    runIds: RunIds,
    { isShort = false }: { readonly isShort?: boolean } = {},
  ): Promise<Claim | { readonly kind: "halting" }> {
    const { runtime, kv, ownership, halted, config } = this.parts;
    const before = this.#data;
    const { historyLengthMax } = config;
    const idsBefore = replicationIdsOf(before);
    const begun = started(before, runIds, {
      nowMs: runtime.clock.nowMs(),
      historyLengthMax,
    });
    const ids = replicationIdsOf(begun);
    const isSame = idsBefore.join() === ids.join();
    const { userName, vouched } = before;
    const job = { jobId: this.held.id, userName, vouched };
    // A job owns no replication before its first start.
    const mayOwn = before.lastStartMs > 0 && isSame;
    if (isShort && before.state !== "parked" && mayOwn) {
      const isOwner = await kv.read(async (tx) => {
        await this.verify(tx);
        if (await halted.isUnderWay(tx, ids)) return false;
        return ownership.isOwner(tx, ids, this.held.id);
      });
      if (isOwner) {
        this.#noteBegun(begun, "begin");
        return { kind: "owner" };
      }
    }
    let hasRivals = false;
    const claim = await kv.transact(async (tx) => {
      await this.verify(tx);
      if (await halted.isUnderWay(tx, ids)) return { kind: "halting" } as const;
      const released = idsBefore.filter((id) => !ids.includes(id));
      await ownership.release(tx, released, job);
      const claimed = await ownership.claim(tx, ids, job, { nowMs: begun.lastStartMs });
      if (claimed.kind === "owner") {
        hasRivals = await ownership.isWantedByOthers(tx, ids, job.jobId);
        await this.#write(tx, begun);
        await this.#recordStart(tx);
        if (before.state === "parked") await this.parts.parked.remove(tx, this.held.id);
      }
      return claimed;
    });
    if (claim.kind === "owner") {
      this.#hasRivals = hasRivals;
      this.#noteBegun(begun, "begin-stored");
      this.#noteStored(begun);
    }
    return claim;
  }

  /**
   * Removes the job if its database or rule was deleted. The removal shows other nodes that the run
   * has ended.
   */
  async removeIfDoomed(): Promise<void> {
    await this.parts.removedDatabases.removeHalted(this.held).catch((error: unknown) => {
      if (errorCode(error) !== "JOBS_HALTED") throw error;
    });
  }

  /**
   * Records that both servers have accepted the job's credentials. Called before copying. Until the
   * credentials are accepted, another user's job can take over the replications of this job.
   */
  async confirm(): Promise<Claim> {
    const { runtime, kv, ownership } = this.parts;
    const nowMs = runtime.clock.nowMs();
    const isLate = nowMs - this.#data.lastStartMs > UNPROVEN_MS_MAX / 2;
    if (isProven(this.#data) || !(this.#hasRivals || isLate)) return { kind: "owner" };
    const { userName, vouched } = this.#data;
    const job = { jobId: this.held.id, userName, vouched };
    const answered = { ...this.#data, answeredMs: nowMs };
    const claim = await kv.transact(async (tx) => {
      await this.verify(tx);
      const ids = replicationIdsOf(this.#data);
      const claimed = await ownership.claim(tx, ids, job, { nowMs, hasAnswered: true });
      if (claimed.kind === "owner") await this.#write(tx, answered);
      return claimed;
    });
    if (claim.kind === "owner") {
      this.#data = answered;
      this.#noteStored(answered);
    }
    return claim;
  }

  #noteBegun(begun: ReplicationJobData, event: PhaseEvent): void {
    this.#data = begun;
    const { replicationId = "" } = begun;
    this.#phase = phaseAfter(this.#phase, event);
    const { trace } = this.parts.runtime;
    const last = begun.history.slice(1).find(({ type }) => type !== "pending")?.type;
    const hasSucceeded = last === "parked" || last === "stopped";
    trace.event("replication.started", { jobId: this.held.id, replicationId, hasSucceeded });
  }

  /**
   * Whether the job created its target. A value changed by `note` is stored with the next update of
   * the job, or immediately if the job copies the security object.
   */
  get targetOrigin(): TargetOrigin {
    const isCreatedHere = (): boolean => this.#data.hasCreatedTarget === true;
    return {
      get isCreatedHere() {
        return isCreatedHere();
      },
      note: async (isCreated: boolean) => {
        if (this.#data.hasCreatedTarget === isCreated) return;
        this.#data = { ...this.#data, hasCreatedTarget: isCreated };
        if (this.#data.replication?.copiesSecurity === true) await this.update();
      },
    };
  }

  /** Stores the start of the run, unless it is already stored. */
  async storeStart(): Promise<void> {
    if (isStartUnstored(this.#phase)) await this.update();
  }

  /**
   * Records the start of the run. If the end of the previous run was never recorded, also records
   * the previous run.
   */
  async #recordStart(tx: Transaction): Promise<void> {
    this.parts.events.noteRun(tx, this.held.id, [{ type: "started" }]);
    await this.#writeRuns(tx, []);
    if (!hasEnded(this.#data.state)) await this.#clearDocumentState(tx);
  }

  /**
   * Updates the job data with the run's progress. Once the run has a checkpoint, the next run
   * resumes at the checkpoint.
   */
  observe(figures: Observed): void {
    const { config, runtime } = this.parts;
    if (figures.hasCheckpoint) this.#phase = phaseAfter(this.#phase, "checkpoint");
    this.#data = observed(this.#data, figures, {
      nowMs: runtime.clock.nowMs(),
      healthyMs: config.healthThresholdSec * 1000,
    });
  }

  /** Adds the results of a run that only retries failures to the job's statistics. */
  countRetried(more: Partial<ReplicationStatistics>, isReverse: boolean): void {
    this.#data = retried(this.#data, more, isReverse);
    this.#counts = { ...addStatistics(this.#counts, more), bytes: this.#counts.bytes };
  }

  /** Sets the counts of this run, without those of earlier runs. */
  noteCounts(counts: NonNullable<JobRun["counts"]>): void {
    this.#counts = counts;
  }

  /** Sets the time since which changes are pending; undefined if all known changes have arrived. */
  noteBehind(sinceMs: number | undefined): void {
    this.#backlog.noteMeasured(sinceMs);
    if (sinceMs === undefined && this.#data.changesPending !== undefined) {
      this.noteChangesPending(0);
    }
  }

  /** Sets the number of pending changes reported by the source; undefined if unknown. */
  noteChangesPending(changesPending: number | undefined): void {
    this.#data = withChangesPending(this.#data, changesPending);
  }

  /** Whether progress or a change of state has not been stored yet. */
  get hasNews(): boolean {
    const { statistics, checkpointedSequence, reverse, rates, waitsFor } = this.#data;
    if (waitsFor !== this.#stored.waitsFor) return true;
    if (isMoving(rates) !== isMoving(this.#stored.rates)) return true;
    if (this.#backlogToStore() !== undefined) return true;
    if (
      statistics === this.#stored.statistics &&
      checkpointedSequence === this.#stored.checkpointedSequence &&
      reverse === this.#stored.reverse
    ) {
      return false;
    }
    return figuresOf(this.#data) !== figuresOf(this.#stored);
  }

  /** Milliseconds since the last heartbeat. */
  get silentMs(): number {
    return this.parts.runtime.clock.monotonicMs() - this.#storedAtMs;
  }

  /** Maximum time between heartbeats. It allows several heartbeats per activity timeout. */
  get silentMsMax(): number {
    return (this.#activityTimeoutSec * 1000) / UPDATES_PER_TIMEOUT;
  }

  #backlogToStore(): Backlog | undefined {
    return this.#backlog.toStore(this.#data.changesPending, this.parts.runtime.clock.nowMs());
  }

  #learnTimeout(timeoutSec: number | undefined): void {
    if (timeoutSec !== undefined) this.#activityTimeoutSec = timeoutSec;
  }

  /** Stores the progress. Throws if the job is lost. */
  async update(): Promise<void> {
    const { runtime, kv, jobs, backlogs, chains } = this.parts;
    const endsRestart = isCheckpointed(this.#phase);
    const stored = this.#data;
    const backlog = this.#backlogToStore();
    const caughtUp = this.#caughtUp(backlog);
    const begins = isStartUnstored(this.#phase);
    // The start must not be recorded twice, so an unknown outcome is checked. Storing progress can
    // be repeated.
    const whenUnknown = begins ? "check" : "retry";
    const store = async (tx: Transaction): Promise<number | undefined> => {
      await this.#write(tx, stored);
      if (begins) await this.#recordStart(tx);
      if (endsRestart) await this.#endRestart(tx);
      if (backlog !== undefined) await backlogs.set(tx, this.held.id, backlog);
      if (caughtUp !== undefined) await chains.noteReached(tx, this.held.id, stored, caughtUp);
      return jobs.getTypeTimeout(tx, this.held.type);
    };
    this.#learnTimeout(await kv.transact(store, { whenUnknown }));
    this.#noteStored(stored);
    if (begins) this.#phase = phaseAfter(this.#phase, "store");
    if (backlog !== undefined) this.#backlog.noteStored(backlog);
    if (caughtUp !== undefined) this.#hasNotedReached = true;
    runtime.trace.event("replication.reported", { jobId: this.held.id });
    // The run has a checkpoint, so the next run must not apply the restart position again.
    if (endsRestart) this.#control = { ...this.#control, restartAt: undefined };
  }

  /**
   * If the job has caught up but might not yet have woken the jobs that wait for it, returns its
   * stored backlog.
   */
  #caughtUp(backlog: Backlog | undefined): Backlog | undefined {
    if (backlog !== undefined) return backlog.sinceMs === undefined ? backlog : undefined;
    return this.#hasNotedReached || !this.#backlog.isCaughtUp ? undefined : this.#backlog.stored;
  }

  #write(tx: Transaction, data: ReplicationJobData): Promise<void> {
    return this.parts.jobs.update(tx, this.held, encodeProgress(data), this.#requestToStore);
  }

  /** Records that `data` are stored, and thus visible to other nodes. */
  #noteStored(data: ReplicationJobData): void {
    this.#requestToStore = undefined;
    this.#stored = data;
    this.#storedAtMs = this.parts.runtime.clock.monotonicMs();
  }

  /**
   * Ends the run in one transaction that updates the job and its document. `before` contains the
   * job data before the run. A run that only retried failures keeps the job's state. While the
   * store rejects writes, the transaction is retried until `leaving` aborts, because no other node
   * knows the outcome of the run.
   */
  async end(
    ending: RunEnding,
    before: ReplicationJobData = this.#data,
    leaving: AbortSignal = AbortSignal.abort(),
  ): Promise<void> {
    const { runtime, jobs, databases, config, controls, events, outages, backlogs, chains } =
      this.parts;
    const nowMs = runtime.clock.nowMs();
    const nowSec = Math.floor(nowMs / 1000);
    const limits = { minSec: config.penaltySecMin, maxSec: config.penaltySecMax };
    const pauseSec = (errorCount: number): number => penaltySec(errorCount, limits, runtime.random);
    const chance = runtime.random.ratio();
    const { auditIntervalSec } = config;
    const facts = { nowSec, pauseSec, chance, auditIntervalSec };
    const disposition = decideRun(ending, this.#data, before, facts);
    this.#announce(ending, disposition, nowSec);
    const { state, unreachable } = disposition;
    // All changes of the feed have arrived at the target. Later changes belong to the next run.
    if (hasAllArrived(ending)) {
      this.noteChangesPending(0);
      this.noteBehind(undefined);
    } else if (ending.kind === "caught-up") this.noteChangesPending(ending.pending);
    const { changesPending } = this.#data;
    const backlog = this.#backlog.toLeave(changesPending, nowMs);
    const run = this.#endedRun(ending, nowMs, this.#backlog.lagSec(changesPending, nowMs));
    const { historyLengthMax } = config;
    const data = ended(this.#data, disposition, { nowMs, historyLengthMax });
    const begins = isStartUnstored(this.#phase);
    const isPaused = await this.#insist(leaving, async (tx) => {
      // A paused job must not be parked, because a watcher would wake it.
      if (ending.kind === "caught-up" && (await controls.get(tx, this.held.id)).isPaused)
        return true;
      await this.#endRestart(tx);
      const dueAtSec = await this.#dueSec(tx, disposition, data);
      if (dueAtSec !== undefined) {
        await jobs.resubmit(tx, this.held, await this.#dueAsDecided(tx, dueAtSec));
      }
      await jobs.finish(tx, this.held, encodeProgress(data), this.#requestToStore);
      const beginning = begins ? [{ type: "started" } as const] : [];
      events.noteRun(tx, this.held.id, [...beginning, ...disposition.events]);
      if (begins && !hasEnded(data.state)) await this.#clearDocumentState(tx);
      if (hasEnded(data.state)) await writeDocumentState(tx, databases, data, nowMs);
      if (unreachable !== undefined) await outages.join(tx, unreachable, this.held.id);
      if (backlog !== undefined) await backlogs.set(tx, this.held.id, backlog);
      await this.#writeRuns(tx, run === undefined ? [] : [run]);
      if (ending.kind === "caught-up") await this.#park(tx, ending);
      await chains.noteReached(tx, this.held.id, data, backlog ?? this.#backlog.stored);
      return false;
    });
    if (isPaused) return this.end({ kind: "stopped" }, before, leaving);
    this.#data = data;
    if (ending.kind === "caught-up")
      runtime.trace.event("replication.parked", { jobId: this.held.id });
    runtime.trace.event("replication.ended", { jobId: this.held.id, state });
  }

  /**
   * Runs `body` in a transaction. While the store rejects writes, retries the transaction until
   * `leaving` aborts.
   */
  async #insist<T>(leaving: AbortSignal, body: (tx: Transaction) => Promise<T>): Promise<T> {
    const { kv, runtime } = this.parts;
    for (;;) {
      try {
        return await kv.transact(body);
      } catch (error) {
        if (errorCode(error) !== "KV_UNAVAILABLE" || leaving.aborted) throw error;
      }
      await runtime.clock.sleep(REFUSED_PAUSE_MS, leaving).catch(() => {});
    }
  }

  /**
   * Deletes a completed job and its document when `keep_finished_sec` has passed since its
   * completion. Returns false if the job is kept.
   */
  async vanish(): Promise<boolean> {
    const { kv, runtime, failureLists, databases, jobs } = this.parts;
    const { state, replication, document, lastUpdatedMs } = this.#data;
    const { keepFinishedSec = 0 } = replication?.options ?? {};
    const isOld = this.#nowSec() >= Math.floor(lastUpdatedMs / 1000) + keepFinishedSec;
    if (state !== "completed" || keepFinishedSec === 0 || !isOld) return false;
    const isGone = await kv.transact(async (tx) => {
      await this.verify(tx);
      for (const baseId of baseIdsOf(this.#data)) {
        if ((await failureLists.retryRequest(tx, baseId)) !== undefined) return false;
        if ((await failureLists.counts(tx, baseId)).length > 0) return false;
      }
      if (document !== undefined) {
        return (await removeReplicationDocuments(tx, databases, [document])).size > 0;
      }
      const job = await jobs.get(tx, this.held);
      if (job !== undefined) await removeJob(this.parts, tx, job);
      return true;
    });
    if (isGone) runtime.trace.event("replication.forgotten", { jobId: this.held.id });
    return isGone;
  }

  async #park(tx: Transaction, { reverse, ...forward }: Parking): Promise<void> {
    const { runtime, parked } = this.parts;
    const { replication } = this.#data;
    const directions = replication === undefined ? [] : directionsOf(replication);
    const ends = reverse === undefined ? [forward] : [forward, reverse];
    const places = ends.map(({ updateSequence }, index) => {
      const direction = directions[index];
      const place = direction && watchedPlace(runtime.digests, direction);
      assert(place !== undefined, "A parked job must have sources that can be watched");
      return { ...place, updateSequence };
    });
    await parked.add(tx, this.held.id, places);
  }

  /** Returns the record of the run, or undefined if the run ended before it did anything. */
  #endedRun(ending: RunEnding, endMs: number, lag: number | undefined): JobRun | undefined {
    const { kind: cause } = ending;
    const isNothing = ["stopped", "outside-schedule"].includes(cause) || cause.startsWith("list-");
    if (isNothing && this.#phase === "accepted") return undefined;
    // A run that only counted pending changes is not recorded.
    if (ending.kind === "caught-up" && ending.pending > 0) return undefined;
    return {
      startMs: this.#phase === "accepted" ? this.#acceptedMs : this.#data.lastStartMs,
      endMs,
      cause,
      reason: reasonOf(ending),
      counts: this.#counts,
      lagSec: lag,
      checkpoint: this.#data.checkpointedSequence,
    };
  }

  #writeRuns(tx: Transaction, runs: readonly JobRun[]): Promise<void> {
    const isRecorded = isStartStored(this.#phase);
    const lost = this.#lostRun === undefined || isRecorded ? [] : [this.#lostRun];
    return this.parts.runs.add(tx, this.held.id, [...lost, ...runs]);
  }

  #announce(
    ending: RunEnding,
    { state, failure, stallCount, due }: Disposition,
    nowSec: number,
  ): void {
    const { trace } = this.parts.runtime;
    const { id: jobId } = this.held;
    if (ending.kind === "stalled") {
      trace.event("replication.stalled", { jobId, stallCount, reason: ending.reason });
    } else if (failure !== undefined && state === "crashing") {
      const pauseSec = Number(due) - nowSec;
      trace.event("replication.crashed", { jobId, pauseSec, ...failure });
    } else if (failure !== undefined && "failure" in ending) {
      trace.event("replication.failed", { jobId, ...failure });
    }
  }

  async #endRestart(tx: Transaction): Promise<void> {
    if (this.restartAt === undefined || !isCheckpointed(this.#phase)) return;
    await this.parts.controls.endRestart(tx, this.held.id, this.restartAt);
  }

  async #dueSec(
    tx: Transaction,
    { due }: Disposition,
    data: ReplicationJobData,
  ): Promise<number | undefined> {
    if (typeof due === "number" && data.state !== "parked") return due;
    const baseIds = baseIdsOf(data);
    if (due === "ended" || baseIds.length === 0) return undefined;
    const lists = await Promise.all(baseIds.map((baseId) => this.#list(tx, baseId)));
    const isEmpty = lists.every((list) => list.isEmpty);
    // A job has no options if its document is malformed.
    const retrySec = data.replication?.options.failureRetrySec ?? 0;
    const isAsked = lists.some(({ request }) => request !== undefined);
    if (typeof due === "number") {
      return decideParked(due, { isAsked, isEmpty, retrySec }, this.#nowSec());
    }
    const list = {
      isAsked,
      isEmpty,
      isPersistent: data.document !== undefined,
      retrySec,
      keepSec: data.replication?.options.keepFinishedSec ?? 0,
    };
    const disposition = decideList(data.state, list, this.#nowSec());
    const { failureLists } = this.parts;
    for (const { baseId, request, isEmpty } of lists) {
      if (disposition.request === "ask" && !isEmpty) {
        await failureLists.askRetry(tx, baseId, SCHEDULED_RETRY);
      }
      if (disposition.request === "end" && request !== undefined) {
        await failureLists.endRetry(tx, baseId, request.request);
      }
    }
    return disposition.dueAtSec;
  }

  async #list(tx: ReadTransaction, baseId: string) {
    const { failureLists } = this.parts;
    const isEmpty = (await failureLists.counts(tx, baseId)).length === 0;
    return { baseId, isEmpty, request: await failureLists.retryRequest(tx, baseId) };
  }

  async #dueAsDecided(tx: ReadTransaction, dueAtSec: number): Promise<number> {
    const { isPaused, decision } = await this.parts.controls.get(tx, this.held.id);
    const isDecidedAnew = decision !== this.#control.decision;
    return decideDue(dueAtSec, { isPaused, isDecidedAnew }, this.#nowSec());
  }

  /** Removes an outdated state that CouchDB or an earlier run wrote to the document. */
  async #clearDocumentState(tx: Transaction): Promise<void> {
    const { document } = this.#data;
    if (document !== undefined) await clearDocumentState(tx, this.parts.databases, document);
  }

  #nowSec(): number {
    return currentSec(this.parts.runtime.clock);
  }
}

function figuresOf(data: ReplicationJobData): string {
  return JSON.stringify(
    directionsRun(data).map(({ statistics, checkpointedSequence }) => [
      statistics,
      checkpointedSequence,
    ]),
  );
}

/**
 * Whether the run copies documents. Transferred bytes do not count, because even an idle feed
 * receives heartbeats.
 */
function isMoving({ docsPerSec }: ReplicationJobData["rates"]): boolean {
  return docsPerSec > 0;
}

/** Returns the previous run if its start was stored, but not its end. */
function lostRun(data: ReplicationJobData): JobRun | undefined {
  if (data.history[0]?.type !== "started") return undefined;
  const { lastStartMs: startMs, lastUpdatedMs: endMs, checkpointedSequence: checkpoint } = data;
  const unknown = { reason: undefined, counts: undefined, lagSec: undefined };
  return { startMs, endMs, cause: "lost", ...unknown, checkpoint };
}

function hasAllArrived(ending: RunEnding): boolean {
  if (ending.kind === "caught-up") return ending.pending === 0;
  return ending.kind === "completed" || ending.kind === "round-completed";
}

function reasonOf(ending: RunEnding): string | undefined {
  if ("failure" in ending) return `${ending.failure.error}: ${ending.failure.reason}`;
  return ending.kind === "stalled" ? ending.reason : undefined;
}

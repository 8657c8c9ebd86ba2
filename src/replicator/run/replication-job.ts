/**
 * A replication job on a node, from its acceptance to the transaction that returns it to the queue
 * (RFC 016).
 *
 * Every write verifies the job's lock in the queue. If the job has lost its lock, its run ends
 * without another write.
 *
 * This class determines how the run ended. `decide.ts` then decides what happens to the job, and
 * `HeldReplication` applies the decision.
 *
 * An ended job runs again if a retry of its failures is requested. Such a run only retries the
 * failures and does not change the job's state.
 */
import {
  allTogether,
  assert,
  currentSec,
  errorCode,
  Notifier,
  runTogether,
  type Trace,
} from "../../base/index.ts";
import { Activity, SecretsInUse } from "../../http-client/index.ts";
import { type HeldJob, isJobLost, type Job } from "../../jobs/index.ts";
import { maskCredentials } from "../../protocol/index.ts";
import type { OwnCheckpoints } from "../checkpoints/own-checkpoint.ts";
import type { ParkedPlace } from "../checkpoints/parked-place.ts";
import { BatchCopier } from "../copying/copy-batch.ts";
import type { Endpoint, SourceSequence } from "../endpoints/endpoint.ts";
import type { Endpoints, RunConnections } from "../endpoints/endpoints.ts";
import type { Hazardous } from "../endpoints/http/requests.ts";
import { describeFailure } from "../failures/failure.ts";
import { FailurePlaces } from "../failures/failure-places.ts";
import type { RetryRequest } from "../failures/run-failures.ts";
import { StoredRunFailures } from "../failures/stored-run-failures.ts";
import type { Claim } from "../job-changes/replication-ownership.ts";
import type { RunEnding } from "../jobs/decide.ts";
import { type FailurePlace, NO_PLACE } from "../jobs/failing.ts";
import { isRetried } from "../jobs/job-control.ts";
import { type DirectionProgress, hasEnded, type ReplicationJobData } from "../jobs/job-data.ts";
import type { ReplicationStatistics } from "../jobs/replication-statistics.ts";
import { directionsOf } from "../request/pair.ts";
import { runnableOptions } from "../request/parse-options.ts";
import type { Replication } from "../request/replication.ts";
import {
  type ReplicationId,
  type ReplicationIdContext,
  replicationId,
  userFilter,
} from "../request/replication-id.ts";
import { type Direction, followSecurity, type OpenSide, watchFilter } from "./direction.ts";
import { readFilterCode } from "./filter-code.ts";
import { HeldReplication, type HeldReplicationParts } from "./held-replication.ts";
import { askPending, MeasuredRun, observeRuns, showLife } from "./job-life.ts";
import { LagMeter } from "./lag-meter.ts";
import {
  isStopRequest,
  type ReplicationEnding,
  ReplicationRun,
  StopRequest,
} from "./replication-run.ts";
import { retryFailures } from "./retry-failures.ts";
import { completed, endingOf, isRefusal, quietAt, RATE_LIMITED } from "./run-endings.ts";
import { missedHours, onceWindowCloses, scheduledEnding, tooFewChanges } from "./scheduled-run.ts";
import { afterStalls, watchRun } from "./watchdog.ts";
import { canPark, onceQuiet, parksCaughtUp } from "./when-quiet.ts";

/**
 * Abort reason for tasks of a run that has ended. Created once, because creating an error is
 * expensive.
 */
const OVER = new Error("The run has ended");
/**
 * Maximum number of job updates per second on a node. With more jobs, each job is updated less
 * often.
 */
const FIGURES_PER_SEC_MAX = 100;
/**
 * Delay of the background tasks of a run that ends by itself. Most of these runs end earlier, and
 * the tasks would cost more than the run.
 */
const UNWATCHED_MS = 1000;
/** Part of the node's slots above which new jobs are parked as soon as they have caught up. */
const BUSY_SHARE = 0.1;

export interface ReplicationJobParts {
  readonly held: HeldReplicationParts;
  readonly endpoints: Endpoints;
  readonly ownCheckpoints: OwnCheckpoints;
  readonly ids: ReplicationIdContext;
}

/** The run of one direction. */
interface OpenRun {
  readonly direction: Direction;
  readonly measured: MeasuredRun;
  /** Opens an endpoint whose requests do not count as progress of the run. */
  readonly beside: OpenSide;
  /** Notified when the start sequence of the run is known. */
  readonly begun: Notifier;
  /** Aborts when the run has ended. */
  readonly over: AbortController;
}

/**
 * Positions at which the directions were parked, and whether the run ends once it has caught up.
 */
interface RunPlace {
  readonly parkedAt: readonly (ParkedPlace | undefined)[];
  readonly endsCaughtUp: boolean;
}

/** Ending of a run whose replication another job owns. */
type Collision = Extract<RunEnding, { kind: "duplicate-of-transient" | "duplicate-of-persistent" }>;

export class ReplicationJob {
  readonly #parts: ReplicationJobParts;
  readonly #job: HeldReplication;
  readonly #runningCount: () => number;
  readonly #dueAtSec: number;
  /** Directions whose ids are known, forward first. Complete once the run is prepared. */
  #directions: readonly Direction[] = [];
  #places: readonly FailurePlaces[] = [];
  /**
   * Secrets of this job. The secrets of other jobs are not masked: otherwise, a server could guess
   * secrets, and see from the masking which guesses are right.
   */
  readonly #secrets = new SecretsInUse();
  /** Ending determined by the run itself: caught up, outside its schedule, or a duplicate. */
  #ownEnding:
    | Extract<RunEnding, { kind: "caught-up" | "outside-schedule" }>
    | Collision
    | undefined;
  /** Error of the last checkpoint, if it failed. */
  #lostCheckpoint: ReplicationRun["lostCheckpoint"];

  /** `runningCount` returns the number of jobs running on the node, including this one. */
  constructor(
    parts: ReplicationJobParts,
    held: HeldJob,
    job: Pick<Job, "data" | "request" | "scheduledAtSec">,
    runningCount: () => number,
  ) {
    this.#parts = parts;
    this.#job = new HeldReplication(parts.held, held, job);
    this.#runningCount = runningCount;
    this.#dueAtSec = job.scheduledAtSec;
  }

  /** The requested replication; undefined for a malformed document. */
  get replication(): Replication | undefined {
    return this.#job.data.replication;
  }

  /** Trace whose events contain the identity of the job. */
  get trace(): Trace {
    return this.#job.parts.runtime.trace;
  }

  /**
   * Runs the job after `delayMs`, and returns it to the queue. While the store rejects writes, the
   * return is retried until `leaving` aborts. Rejects only if the store fails. In this case, the
   * job returns to the queue after the activity timeout.
   */
  async run(signal: AbortSignal, leaving: AbortSignal, delayMs = 0): Promise<void> {
    const before = this.#job.data;
    try {
      if (isJobLost(signal.reason)) throw signal.reason;
      if (await this.#job.vanish()) return;
      const ending = await this.#perform(before, delayMs, signal);
      await this.#job.end(ending, before, leaving);
    } catch (error) {
      if (isJobLost(error) || isJobLost(signal.reason)) {
        this.trace.event("replication.halted", { jobId: this.#job.held.id });
        if (errorCode(signal.reason) !== "JOBS_WORKER_EXPELLED") await this.#job.removeIfDoomed();
        return;
      }
      throw error;
    }
  }

  /**
   * Performs the job's task and returns the ending. Rejects if the job is lost or the store fails.
   */
  async #perform(
    before: ReplicationJobData,
    delayMs: number,
    signal: AbortSignal,
  ): Promise<RunEnding> {
    const { replication, refusal } = before;
    const control = await this.#job.readControl();
    // A run that only retries the failures of an ended job does not change the job's state.
    const stopped = { kind: hasEnded(before.state) ? "list-stopped" : "stopped" } as const;
    if (control.isPaused) return stopped;
    if (replication === undefined) return { kind: "malformed", failure: refusal };
    const failure = await this.#job.hazards.findQuarantine();
    if (failure !== undefined) return { kind: "quarantined", failure };
    const missed = hasEnded(before.state) ? undefined : this.#missedHours(replication);
    if (missed !== undefined) return missed;
    try {
      const isRateLimited = before.failure?.error === RATE_LIMITED;
      const runnable = { ...replication, options: runnableOptions(replication.options) };
      await this.#prepare(isRateLimited ? gently(runnable) : runnable, delayMs, signal);
      const requests = await this.#retryOnly();
      // There is nothing to retry: another job with the same list has already retried the failures.
      if (hasEnded(before.state) && requests.size === 0) return { kind: "list-tried" };
      const parked = this.#parked(before);
      const collision = await this.#begin(parked.endsCaughtUp, signal);
      if (collision !== undefined) return collision;
      this.#warn(replication);
      if (requests.size > 0) return await this.#retry(requests, signal);
      const due = { dueAtSec: this.#dueAtSec, lastStartMs: before.lastStartMs };
      const isAsked = isRetried(control, due);
      const early = isAsked ? undefined : await this.#tooEarly(signal);
      if (early !== undefined) return early;
      const { lastStartMs } = this.#job.data;
      const ending = await this.#copy(before, parked, signal);
      const nowMs = this.#job.parts.runtime.clock.nowMs();
      return scheduledEnding(ending, replication, lastStartMs, nowMs);
    } catch (thrown) {
      const error = this.#causeOf(thrown);
      const isOfStore = errorCode(error)?.startsWith("KV_") === true;
      if (isJobLost(error) || (isOfStore && !isRefusal(error))) throw error;
      if (isJobLost(signal.reason)) throw signal.reason;
      if (isStopRequest(signal.reason)) return stopped;
      if (isStopRequest(error)) return this.#ownEnding ?? stopped;
      return endingOf(error, replication, this.#placeOf(error), this.#secrets);
    }
  }

  /**
   * Returns the reason for a failure: usually the error thrown. If the run ended in order to park
   * the job, returns the error of the run's last checkpoint.
   */
  #causeOf(thrown: unknown): unknown {
    if (this.#lostCheckpoint === undefined || this.#ownEnding?.kind !== "caught-up") return thrown;
    this.#ownEnding = undefined;
    return this.#lostCheckpoint.error;
  }

  /**
   * Returns the place where a run failed. For a pair, the side is omitted, because each database is
   * both a source and a target.
   */
  #placeOf(error: unknown): FailurePlace {
    const found = this.#places.map((places) => places.of(error));
    const place = found.find(({ phase }) => phase !== undefined) ?? found[0] ?? NO_PLACE;
    return this.#places.length === 1 ? place : { ...place, side: undefined };
  }

  /**
   * Returns the ending of a job whose scheduled hours ended while it waited for a slot; undefined
   * otherwise.
   */
  #missedHours(replication: Replication): RunEnding | undefined {
    const nowSec = currentSec(this.#job.parts.runtime.clock);
    return missedHours(replication, this.#dueAtSec, nowSec);
  }

  /** Reports insecure settings to operators. */
  #warn({ source, target }: Replication): void {
    const { runtime, config } = this.#job.parts;
    for (const side of [source, target]) {
      if (side.kind === "local") continue;
      const fields = { jobId: this.#job.held.id, url: maskCredentials(side.url) };
      const isPlain = side.url.toLowerCase().startsWith("http:");
      const verifies = side.tls?.verify ?? config.tls.verify;
      if (isPlain && config.warnsOf.plainHttp)
        runtime.trace.event("replication.plain-http", fields);
      if (!isPlain && !verifies && config.warnsOf.unverifiedTls)
        runtime.trace.event("replication.unverified-tls", fields);
    }
  }

  /** Prepares the directions. Sends heartbeats if this takes time. */
  async #prepare(replication: Replication, delayMs: number, signal: AbortSignal): Promise<void> {
    const all = directionsOf(replication).map((one, index) => ({
      replication: one,
      isReverse: index > 0,
      places: new FailurePlaces(),
    }));
    this.#places = all.map(({ places }) => places);
    const identify = async (taskSignal: AbortSignal): Promise<void> => {
      for (const direction of all) {
        const ids = await this.#ids(direction, taskSignal);
        this.#directions = [...this.#directions, { ...direction, ids }];
      }
    };
    const takesNoTime = delayMs === 0 && userFilter(replication.selection) === undefined;
    if (takesNoTime) return identify(signal);
    return this.#alive(signal, async (taskSignal) => {
      if (delayMs > 0) await this.#job.parts.runtime.clock.sleep(delayMs, taskSignal);
      await identify(taskSignal);
    });
  }

  /**
   * Computes the replication ids. For this, a filter function might have to be read from the
   * source.
   */
  async #ids(direction: Omit<Direction, "ids">, signal: AbortSignal): Promise<ReplicationId> {
    const { runtime, config } = this.#job.parts;
    const { replication, places } = direction;
    const source = (): Endpoint => this.#open(direction, "source");
    const limit = { clock: runtime.clock, timeoutMs: config.stallTimeoutSec * 1000 };
    const code = await places.ofFilter(readFilterCode(replication, source, limit, signal));
    return replicationId(this.#parts.ids, replication, code);
  }

  /**
   * Performs `task`, and sends heartbeats in the meantime. Aborts `task` when the job is lost or
   * must stop.
   */
  async #alive<T>(signal: AbortSignal, task: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const over = new AbortController();
    let result: { readonly value: T } | undefined;
    await runTogether(signal, [
      async (taskSignal) => {
        try {
          result = { value: await task(taskSignal) };
        } finally {
          over.abort(OVER);
        }
      },
      () => this.#showLife([], over.signal),
    ]);
    assert(result !== undefined, "A completed run must have a result");
    return result.value;
  }

  /**
   * Waits until halted runs of the job's replications have ended, and starts the run. If another
   * job owns one of the replications, does not start the run but returns how it ended.
   */
  async #begin(isShort: boolean, signal: AbortSignal): Promise<RunEnding | undefined> {
    const [id = "", reverseId] = this.#directions.map(({ ids }) => ids.id);
    let claim = await this.#job.begin({ id, reverseId }, { isShort });
    while (claim.kind === "halting") {
      const ids = this.#directions.map((direction) => direction.ids.id);
      await this.#alive(signal, (over) => this.#job.parts.halted.untilEnded(ids, over));
      claim = await this.#job.begin({ id, reverseId }, { isShort });
    }
    if (claim.kind === "owner") return undefined;
    if (hasEnded(this.#job.data.state)) return { kind: "list-met" };
    return this.#collision(claim);
  }

  /**
   * Returns the ending of a run whose replication is owned by another job. This job is not ended
   * permanently if the other job belongs to another user, because that user's credentials might
   * fail.
   */
  #collision(claim: Claim & { kind: "duplicate" }): Collision {
    const { otherName, otherState, otherIsPersistent, rival } = claim;
    const reason = `Duplicate job running: ${otherName} (${otherState})`;
    const failure = { error: "duplicate_job", reason };
    const isPersistent = this.#job.data.document !== undefined;
    const isTriedAgain = rival === "unproven" || (rival === "proven" && isPersistent);
    const isFinal = otherIsPersistent && !isTriedAgain;
    return { kind: isFinal ? "duplicate-of-persistent" : "duplicate-of-transient", failure };
  }

  /**
   * Returns how the run ends if fewer changes are pending than the schedule requires. Returns
   * undefined if the run is allowed to copy.
   */
  async #tooEarly(signal: AbortSignal): Promise<RunEnding | undefined> {
    const { runtime, config } = this.#job.parts;
    const direction = this.#directions[0] as Direction;
    const { replication } = direction;
    if (replication.schedule === undefined || this.#job.restartAt !== undefined) return undefined;
    const source = this.#open(direction, "source");
    const { checkpointedSequence } = this.#job.data;
    const isWatched = config.parkAfterSec > 0 && canPark(runtime.digests, replication);
    const facts = { isWatched, nowMs: runtime.clock.nowMs() };
    return this.#alive(signal, (taskSignal) =>
      tooFewChanges(replication, source, checkpointedSequence, facts, taskSignal),
    );
  }

  /**
   * Copies in all directions, until all runs have ended by themselves or one of them has failed.
   */
  async #copy(
    before: ReplicationJobData,
    place: RunPlace,
    signal: AbortSignal,
  ): Promise<RunEnding> {
    const { runtime, config } = this.#job.parts;
    const { clock } = runtime;
    const copies: OpenRun[] = [];
    for (const direction of this.#directions) {
      copies.push(await this.#openRun(direction, before, place));
    }
    const [{ direction, begun }] = copies as [OpenRun, ...OpenRun[]];
    const runs = copies.map(({ measured }) => measured);
    let endings: readonly ReplicationEnding[] = [];
    const ended = new AbortController();
    const endsByItself = place.endsCaughtUp || !direction.replication.continuous;
    const unwatched = endsByItself ? this.#unwatched(ended.signal) : Promise.resolve();
    const later = (over: AbortSignal, task: () => Promise<void>) => async (): Promise<void> => {
      await unwatched;
      if (!over.aborted) await task();
    };
    const copy = async (
      { direction: of, measured: { run }, over }: OpenRun,
      runSignal: AbortSignal,
    ): Promise<ReplicationEnding> => {
      try {
        // The reverse direction reads from the forward direction's target, so wait until the
        // forward direction has created the target.
        if (of.isReverse) await begun.notified(runSignal);
        return await run.run(runSignal);
      } finally {
        this.#lostCheckpoint ??= run.lostCheckpoint;
        over.abort(OVER);
      }
    };
    await runTogether(signal, [
      async (runSignal) => {
        try {
          endings = await allTogether(
            runSignal,
            copies.map((one) => (taskSignal: AbortSignal) => copy(one, taskSignal)),
          );
        } finally {
          observeRuns(this.#job, runs);
          ended.abort(OVER);
        }
      },
      later(ended.signal, () => this.#showLife(runs, ended.signal)),
      later(ended.signal, () => this.#park(copies, place.endsCaughtUp, ended.signal)),
      later(ended.signal, () => this.#keepHours(direction.replication, ended.signal)),
      ...copies.flatMap(({ direction: of, measured, beside, over: { signal: over } }) => {
        const watched = {
          run: measured.run,
          activity: measured.activity,
          hasLiveFeed: of.replication.source.kind === "http",
        };
        return [
          later(over, () => askPending(this.#job, runs, measured, beside("source"), over)),
          later(over, () => watchFilter(clock, of, (reading) => this.#ids(of, reading), over)),
          later(over, () => followSecurity(clock, measured.run, of.replication, beside, over)),
          later(over, () => watchRun(runtime, watched, config.stallTimeoutSec * 1000, over)),
        ];
      }),
    ]);
    const hasCompleted = endings.every(({ kind }) => kind === "completed");
    if (hasCompleted && place.endsCaughtUp) {
      return quietAt(runs.map(({ run }) => [run, run.progress.throughSequence]));
    }
    return hasCompleted ? completed(endings) : (this.#ownEnding ?? { kind: "stopped" });
  }

  async #openRun(
    direction: Direction,
    before: ReplicationJobData,
    { parkedAt, endsCaughtUp }: RunPlace,
  ): Promise<OpenRun> {
    const { runtime, config } = this.#job.parts;
    const { stallCount } = this.#job.data;
    const { replication, ids, isReverse } = direction;
    const activity = new Activity(runtime.clock);
    const connections = stallCount === 0 ? {} : { generation: stallCount };
    const beside: OpenSide = (side) => this.#open(direction, side, connections);
    const options = afterStalls(stallCount, replication.options);
    const lag = new LagMeter(this.#job.earlierLag);
    const begun = new Notifier();
    const run = new ReplicationRun({
      runtime,
      source: this.#open(direction, "source", { ...connections, activity }),
      target: this.#open(direction, "target", { ...connections, activity }),
      replication: { ...replication, options },
      ids,
      mayWrite: () => this.#job.verifyNow(),
      mayCopy: () => this.#confirm(),
      onProgress: () => begun.notify(),
      failures: await this.#openFailures(ids.baseId),
      secrets: this.#secrets,
      ownCheckpoint: this.#parts.ownCheckpoints.of(ids.baseId, (tx) => this.#job.verify(tx)),
      restartAt: this.#job.restartAt,
      ...(isReverse ? {} : { targetOrigin: this.#job.targetOrigin }),
      expectedAt: lastCheckpoint(isReverse ? before.reverse : before, ids),
      parkedAt: parkedAt[isReverse ? 1 : 0],
      endsCaughtUp,
      copyLimits: config.copyLimits,
      lag,
    });
    const measured = new MeasuredRun(run, lag, activity);
    return { direction, measured, beside, begun, over: new AbortController() };
  }

  /** Throws a StopRequest if another user's job has taken over the replication. */
  async #confirm(): Promise<void> {
    const claim = await this.#job.confirm();
    if (claim.kind === "owner") return;
    this.#ownEnding = this.#collision(claim);
    throw new StopRequest();
  }

  /**
   * For a job that a watcher has woken, returns the positions at which it resumes. Also returns
   * whether the run ends once it has caught up. This is also the case for the first run of a job,
   * unless few jobs run on the node: then the job stays in its slot, and thus in `_active_tasks`,
   * for a while, as users of CouchDB expect.
   */
  #parked(before: ReplicationJobData): RunPlace {
    const { runtime, config } = this.#job.parts;
    const { replication } = before;
    const parkedAt = this.#directions.map(({ isReverse }) =>
      before.state === "parked" ? undefined : parkedPlace(isReverse ? before.reverse : before),
    );
    const isWoken = parkedAt.every((place) => place !== undefined);
    const endsCaughtUp =
      (isWoken || (before.lastStartMs === 0 && this.#isBusy)) &&
      replication?.continuous === true &&
      canPark(runtime.digests, replication) &&
      parksCaughtUp(before, config, runtime.clock.nowMs());
    return { parkedAt, endsCaughtUp };
  }

  /** Whether more than a tenth of the node's slots are in use. */
  get #isBusy(): boolean {
    return this.#runningCount() > this.#job.parts.config.jobsMax * BUSY_SHARE;
  }

  /**
   * Resolves when the background tasks of a short run should start. The delay grows with the number
   * of jobs on the node.
   */
  async #unwatched(ended: AbortSignal): Promise<void> {
    const { clock } = this.#job.parts.runtime;
    await clock.sleep(Math.max(UNWATCHED_MS, this.#figuresMs), ended).catch(() => {});
  }

  #showLife(runs: readonly MeasuredRun[], ended: AbortSignal): Promise<void> {
    const statisticsMs = this.#job.parts.config.statisticsIntervalSec * 1000;
    const intervalMs = (): number => Math.max(statisticsMs, this.#figuresMs);
    return showLife(this.#job, runs, intervalMs, ended);
  }

  /** Minimum interval between updates of a job, given the number of jobs on the node. */
  get #figuresMs(): number {
    return (this.#runningCount() / FIGURES_PER_SEC_MAX) * 1000;
  }

  /**
   * When all changes have arrived and the sources can be watched, ends the run so that the job is
   * parked.
   */
  async #park(
    copies: readonly OpenRun[],
    endsCaughtUp: boolean,
    ended: AbortSignal,
  ): Promise<void> {
    const { runtime, config } = this.#job.parts;
    const { replication } = this.#job.data;
    if (replication?.continuous !== true || !canPark(runtime.digests, replication)) return;
    // A run with `endsCaughtUp` ends by itself. Its job is then parked.
    if (endsCaughtUp) return;
    const isCrowded = (): boolean => this.#runningCount() >= config.jobsMax;
    const feeds = copies.map(({ measured, beside }) => ({
      run: measured.run,
      source: beside("source"),
    }));
    const sequences = await onceQuiet(runtime.clock, feeds, config, isCrowded, ended);
    if (sequences === undefined) return;
    this.#ownEnding = quietAt(feeds.map(({ run }, index) => [run, sequences[index]]));
    throw new StopRequest();
  }

  /** Ends the run when its scheduled hours end. */
  async #keepHours(replication: Replication, ended: AbortSignal): Promise<void> {
    const { clock } = this.#job.parts.runtime;
    const closed = await onceWindowCloses(clock, replication, ended);
    if (closed === undefined) return;
    this.#ownEnding = closed;
    throw new StopRequest();
  }

  /**
   * Returns the retry requests of an ended job by direction, because an ended job runs only to
   * retry its failures. Returns an empty map for all other jobs.
   */
  async #retryOnly(): Promise<ReadonlyMap<Direction, RetryRequest>> {
    const { kv, failureLists } = this.#job.parts;
    const requests = new Map<Direction, RetryRequest>();
    if (!hasEnded(this.#job.data.state)) return requests;
    for (const direction of this.#directions) {
      const { baseId } = direction.ids;
      const request = await kv.read((tx) => failureLists.retryRequest(tx, baseId));
      if (request !== undefined) requests.set(direction, request);
    }
    return requests;
  }

  /** Retries the failures of an ended job. The state of the job does not change. */
  async #retry(
    requests: ReadonlyMap<Direction, RetryRequest>,
    signal: AbortSignal,
  ): Promise<RunEnding> {
    for (const [direction, request] of requests) {
      const ending = await this.#retryIn(direction, request, signal);
      if (ending.kind !== "list-tried") return ending;
    }
    return { kind: "list-tried" };
  }

  async #retryIn(
    direction: Direction,
    request: RetryRequest,
    signal: AbortSignal,
  ): Promise<RunEnding> {
    const { runtime, kv, failureLists, config } = this.#job.parts;
    const { replication, isReverse } = direction;
    const { baseId } = direction.ids;
    try {
      const source = this.#open(direction, "source");
      const target = this.#open(direction, "target");
      const failures = await this.#openFailures(baseId);
      const secrets = this.#secrets;
      const count = (more: Partial<ReplicationStatistics>): void =>
        this.#job.countRetried(more, isReverse);
      const observer = { count, failures, secrets };
      const parts = {
        runtime,
        source,
        target,
        options: replication.options,
        omissions: replication.omissions,
        copyLimits: config.copyLimits,
      };
      const batchCopier = new BatchCopier(parts, observer);
      await this.#alive(signal, (taskSignal) =>
        retryFailures(batchCopier, failures, request, taskSignal),
      );
    } catch (error) {
      const code = errorCode(error);
      if (isJobLost(error) || code?.startsWith("KV_") === true) throw error;
      if (isStopRequest(error) || isStopRequest(signal.reason)) return { kind: "list-stopped" };
      const fields = { jobId: this.#job.held.id, ...describeFailure(error) };
      runtime.trace.event("replication.retry-failed", fields);
      await kv.transact(async (tx) => {
        await this.#job.verify(tx);
        await failureLists.endRetry(tx, baseId, request.request);
      });
    }
    return { kind: "list-tried" };
  }

  #openFailures(baseId: string): Promise<StoredRunFailures> {
    const { runtime, kv, failureLists: lists } = this.#job.parts;
    const verify = this.#job.verify.bind(this.#job);
    const called = this.#job.openCalled();
    return StoredRunFailures.open({ runtime, kv, lists, baseId, verify, called });
  }

  #open(
    { replication, places }: Pick<Direction, "replication" | "places">,
    side: "source" | "target",
    connections?: RunConnections,
  ): Endpoint {
    const address = replication[side];
    const { options } = replication;
    const during: Hazardous = (work, perform) => this.#job.hazards.during(work, perform);
    const endpoint = this.#parts.endpoints.open(address, options, this.#job.data, {
      ...connections,
      during,
      jobId: this.#job.held.id,
      secrets: this.#secrets,
    });
    return places.watch(endpoint, side, address);
  }
}

/** Returns the last checkpoint that the previous run of this direction wrote or found, if any. */
function lastCheckpoint(
  before: DirectionProgress | undefined,
  { id }: ReplicationId,
): SourceSequence | undefined {
  if (before?.replicationId !== id || before.checkpointedSequence === 0) return undefined;
  return before.checkpointedSequence;
}

/** Returns the position at which a direction was parked; undefined if it was not parked. */
function parkedPlace(before: DirectionProgress | undefined): ParkedPlace | undefined {
  if (before?.startTimes === undefined) return undefined;
  const { startTimes, checkpointedSequence: sequence, statistics } = before;
  return { sequence, statistics, startTimes };
}

/**
 * Reduces the number of concurrent requests to a server that demanded a pause, as in CouchDB 3.5.
 */
function gently(replication: Replication): Replication {
  const { options } = replication;
  return {
    ...replication,
    options: {
      ...options,
      checkpointIntervalMs: Math.min(options.checkpointIntervalMs, 5000),
      workerProcesses: Math.min(options.workerProcesses, 2),
      workerProcessesMax: Math.min(options.workerProcessesMax, 2),
      workerBatchSize: Math.min(options.workerBatchSize, 100),
      httpConnections: Math.min(options.httpConnections, 5),
      httpConnectionsMax: Math.min(options.httpConnectionsMax, 5),
    },
  };
}

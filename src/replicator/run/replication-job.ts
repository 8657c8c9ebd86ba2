/**
 * One replication job on a node: from acceptance to the transaction that gives it back (RFC 016).
 *
 * Every write goes through the queue with the job's lock; a job that lost its lock ends without another write.
 *
 * It finds out how the run ended. `decide.ts` decides what becomes of the job, and `HeldReplication` carries that out.
 * A job that has ended runs once more when a retry of its failures is requested: for these alone, and its state does
 * not change.
 */
import { assert, errorCode, runTogether, type Trace } from "../../base/index.ts";
import { Activity, SecretsInUse } from "../../http-client/index.ts";
import type { HeldJob, Job } from "../../jobs/index.ts";
import { maskCredentials } from "../../protocol/index.ts";
import { BatchCopier } from "../copying/copy-batch.ts";
import type { Endpoint, SourceSequence } from "../endpoints/endpoint.ts";
import type { Endpoints, RunConnections } from "../endpoints/endpoints.ts";
import type { Hazardous } from "../endpoints/http/requests.ts";
import { classifyFailure, describeFailure, unreachableOrigin } from "../failures/failure.ts";
import { FailurePlaces } from "../failures/failure-places.ts";
import type { RetryRequest } from "../failures/run-failures.ts";
import { StoredRunFailures } from "../failures/stored-run-failures.ts";
import type { RunEnding } from "../jobs/decide.ts";
import type { FailurePlace } from "../jobs/failing.ts";
import { isRetried } from "../jobs/job-control.ts";
import { hasEnded, type ReplicationJobData } from "../jobs/job-data.ts";
import type { Claim } from "../jobs/replication-ownership.ts";
import { runnableOptions } from "../request/parse-options.ts";
import type { Replication } from "../request/replication.ts";
import {
  type ReplicationId,
  type ReplicationIdContext,
  replicationId,
  userFilter,
} from "../request/replication-id.ts";
import { readFilterCode } from "./filter-code.ts";
import { HeldReplication, type HeldReplicationParts } from "./held-replication.ts";
import { askPending, MeasuredRun, showLife } from "./job-life.ts";
import { LagMeter } from "./lag-meter.ts";
import type { OwnCheckpoints } from "./own-checkpoint.ts";
import type { ParkedPlace } from "./parked-place.ts";
import {
  type ReplicationEnding,
  ReplicationRun,
  type ReplicationRunParts,
  StopRequest,
} from "./replication-run.ts";
import { retryFailures } from "./retry-failures.ts";
import { missedHours, onceWindowCloses, scheduledEnding, tooFewChanges } from "./scheduled-run.ts";
import { afterStalls, watchRun } from "./watchdog.ts";
import { canPark, onceQuiet, parksCaughtUp } from "./when-quiet.ts";

/** As in `replication-run.ts`: made once. */
const OVER = new Error("The run is over");
/** A server goes on answering 429. */
const PUT_OFF = "max_backoff";
/** A node stores the figures of so many jobs a second; with more of them, those of each less often. */
const FIGURES_PER_SEC_MAX = 100;
/** A run that ends by itself is mostly over before then: to watch for what may end it sooner would cost more. */
const UNWATCHED_MS = 1000;

export interface ReplicationJobParts {
  readonly held: HeldReplicationParts;
  readonly endpoints: Endpoints;
  readonly ownCheckpoints: OwnCheckpoints;
  readonly ids: ReplicationIdContext;
}

type OpenSide = (side: "source" | "target") => Endpoint;

/** Where a run likely begins, and how it ends. */
type RunPlace = Required<
  Pick<ReplicationRunParts, "expectedAt" | "parkedAt"> & { readonly endsCaughtUp: boolean }
>;

/** How a run ends that meets another job of the same replication. */
type Collision = Extract<RunEnding, { kind: "met-transient" | "met-persistent" }>;

export class ReplicationJob {
  readonly #parts: ReplicationJobParts;
  readonly #job: HeldReplication;
  readonly #runningCount: () => number;
  readonly #dueAtSec: number;
  readonly #places = new FailurePlaces();
  /** Those of this job alone: whatever a text masks, its reader may have guessed. */
  readonly #secrets = new SecretsInUse();
  /** Set when the run ends itself: nothing is to be done, not now, or by another job. */
  #ownEnding: Extract<RunEnding, { kind: "quiet" | "not-now" }> | Collision | undefined;
  /** Why the run could not write its last checkpoint, if it could not. */
  #lostCheckpoint: ReplicationRun["lostCheckpoint"];

  /** `runningCount` tells how many jobs the node runs, this one among them. */
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

  /** Undefined for a document that is malformed. */
  get replication(): Replication | undefined {
    return this.#job.data.replication;
  }

  /** Its events say which job this is. */
  get trace(): Trace {
    return this.#job.parts.runtime.trace;
  }

  /**
   * Runs the job, after `delayMs`, and gives it back; a store that refuses is asked again until `leaving` aborts. Rejects only when the
   * store fails; the job is then found by its silence.
   */
  async run(signal: AbortSignal, leaving: AbortSignal, delayMs = 0): Promise<void> {
    const before = this.#job.data;
    try {
      if (isHalt(signal.reason)) throw signal.reason;
      if (await this.#job.vanish()) return;
      const ending = await this.#perform(before, delayMs, signal);
      await this.#job.end(ending, before, leaving);
    } catch (error) {
      if (isHalt(error) || isHalt(signal.reason)) {
        this.trace.event("replication.halted", { jobId: this.#job.held.id });
        if (errorCode(signal.reason) !== "JOBS_WORKER_EXPELLED") await this.#job.removeIfDoomed();
        return;
      }
      throw error;
    }
  }

  /** Does what the job is there for, and says how that ended. Rejects when the job is another's, or the store fails. */
  async #perform(
    before: ReplicationJobData,
    delayMs: number,
    signal: AbortSignal,
  ): Promise<RunEnding> {
    const { replication, refusal } = before;
    const control = await this.#job.readControl();
    // A job that has ended stays so, whatever keeps it from trying its list.
    const stopped = { kind: hasEnded(before.state) ? "list-stopped" : "stopped" } as const;
    if (control.isPaused) return stopped;
    if (replication === undefined) return { kind: "malformed", failure: refusal };
    const failure = await this.#job.findQuarantine();
    if (failure !== undefined) return { kind: "quarantined", failure };
    const missed = hasEnded(before.state) ? undefined : this.#missedHours(replication);
    if (missed !== undefined) return missed;
    try {
      const ids = await this.#prepare(replication, delayMs, signal);
      const request = await this.#retryOnly(ids);
      // Another job with the same list has tried it again.
      if (hasEnded(before.state) && request === undefined) return { kind: "list-tried" };
      const parked = this.#parked(before);
      const collision = await this.#begin(ids, parked.endsCaughtUp, signal);
      if (collision !== undefined) return collision;
      const runnable = { ...replication, options: runnableOptions(replication.options) };
      this.#warn(replication);
      if (request !== undefined) return await this.#retry(runnable, ids, request, signal);
      const isPutOff = before.failure?.error === PUT_OFF;
      const due = { dueAtSec: this.#dueAtSec, lastStartMs: before.lastStartMs };
      const isAsked = isRetried(control, due);
      const early = isAsked ? undefined : await this.#tooEarly(replication, signal);
      if (early !== undefined) return early;
      const { lastStartMs } = this.#job.data;
      const paced = isPutOff ? gently(runnable) : runnable;
      const expectedAt = lastCheckpoint(before, ids);
      const ending = await this.#copy(paced, ids, { ...parked, expectedAt }, signal);
      const nowMs = this.#job.parts.runtime.clock.nowMs();
      return scheduledEnding(ending, replication, lastStartMs, nowMs);
    } catch (thrown) {
      const error = this.#causeOf(thrown);
      const isOfStore = errorCode(error)?.startsWith("KV_") === true;
      if (isHalt(error) || (isOfStore && !isRefusal(error))) throw error;
      if (isHalt(signal.reason)) throw signal.reason;
      if (isStop(signal.reason)) return stopped;
      if (isStop(error)) return this.#ownEnding ?? stopped;
      return endingOf(error, replication, this.#places.of(error), this.#secrets);
    }
  }

  /** A job that is parked goes on at its checkpoint: a run that could not write its last one ends because of that. */
  #causeOf(thrown: unknown): unknown {
    if (this.#lostCheckpoint === undefined || this.#ownEnding?.kind !== "quiet") return thrown;
    this.#ownEnding = undefined;
    return this.#lostCheckpoint.error;
  }

  /** How a job ends that waited for a slot until its hours were over; undefined: it may run. */
  #missedHours(replication: Replication): RunEnding | undefined {
    const nowSec = Math.floor(this.#job.parts.runtime.clock.nowMs() / 1000);
    return missedHours(replication, this.#dueAtSec, nowSec);
  }

  /** Says what an operator wants to be told of. */
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

  /** What comes before the job is known to run: it may take its time, so the job shows that it lives. */
  async #prepare(
    replication: Replication,
    delayMs: number,
    signal: AbortSignal,
  ): Promise<ReplicationId> {
    const takesNoTime = delayMs === 0 && userFilter(replication.selection) === undefined;
    if (takesNoTime) return this.#ids(replication, signal);
    return this.#alive(signal, async (taskSignal) => {
      if (delayMs > 0) await this.#job.parts.runtime.clock.sleep(delayMs, taskSignal);
      return this.#ids(replication, taskSignal);
    });
  }

  /** The replication's ids; a user filter's code is part of them and is read from the source. */
  async #ids(replication: Replication, signal: AbortSignal): Promise<ReplicationId> {
    const { runtime, config } = this.#job.parts;
    const source = (): Endpoint => this.#open(replication, "source");
    const limit = { clock: runtime.clock, timeoutMs: config.stallTimeoutSec * 1000 };
    const code = await readFilterCode(replication, source, limit, signal);
    return replicationId(this.#parts.ids, replication, code);
  }

  /** Settles as `task` does, while the job shows that it lives. Aborts it at once when the job is taken away, or is to stop. */
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
      () => this.#showLife(undefined, over.signal),
    ]);
    assert(result !== undefined, "Who ends in good order has a result");
    return result.value;
  }

  /** Begins the run, unless another job owns the replication: then that is how it ended. Waits for a run that was halted to end. */
  async #begin(
    { id }: ReplicationId,
    isShort: boolean,
    signal: AbortSignal,
  ): Promise<RunEnding | undefined> {
    let claim = await this.#job.begin(id, { isShort });
    while (claim.kind === "halting") {
      await this.#alive(signal, (over) => this.#job.parts.halted.untilEnded(id, over));
      claim = await this.#job.begin(id, { isShort });
    }
    if (claim.kind === "owner") return undefined;
    if (hasEnded(this.#job.data.state)) return { kind: "list-met" };
    return this.#collision(claim);
  }

  /** Another user's job does not end this one for good: its credentials may never work, or stop working one day. */
  #collision({ otherJobId, otherIsPersistent, rival }: Claim & { kind: "duplicate" }): Collision {
    const failure = { error: "duplicate_job", reason: `Duplicate job running: ${otherJobId}` };
    const isPersistent = this.#job.data.document !== undefined;
    const isTriedAgain = rival === "unproven" || (rival === "proven" && isPersistent);
    const isFinal = otherIsPersistent && !isTriedAgain;
    return { kind: isFinal ? "met-persistent" : "met-transient", failure };
  }

  /** How the run ends at once, as its schedule waits for more changes; undefined: it copies. */
  async #tooEarly(replication: Replication, signal: AbortSignal): Promise<RunEnding | undefined> {
    const { runtime, config } = this.#job.parts;
    if (replication.schedule === undefined || this.#job.restartAt !== undefined) return undefined;
    const source = this.#open(replication, "source");
    const { checkpointedSequence } = this.#job.data;
    const isWatched = config.parkAfterSec > 0 && canPark(runtime.digests, replication);
    const facts = { isWatched, nowMs: runtime.clock.nowMs() };
    return this.#alive(signal, (taskSignal) =>
      tooFewChanges(replication, source, checkpointedSequence, facts, taskSignal),
    );
  }

  async #copy(
    replication: Replication,
    ids: ReplicationId,
    place: RunPlace,
    signal: AbortSignal,
  ): Promise<RunEnding> {
    const { runtime, config } = this.#job.parts;
    const { stallCount } = this.#job.data;
    const activity = new Activity(runtime.clock);
    const connections = stallCount === 0 ? {} : { generation: stallCount };
    const open: OpenSide = (side) => this.#open(replication, side, { ...connections, activity });
    // What is asked beside the copying does not show that the run moves.
    const beside: OpenSide = (side) => this.#open(replication, side, connections);
    const options = afterStalls(stallCount, replication.options);
    const lag = new LagMeter(this.#job.earlierLag);
    const run: ReplicationRun = new ReplicationRun({
      runtime,
      source: open("source"),
      target: open("target"),
      replication: { ...replication, options },
      ids,
      mayWrite: () => this.#job.verifyNow(),
      mayCopy: () => this.#confirm(ids),
      failures: await this.#openFailures(ids.baseId),
      secrets: this.#secrets,
      ownCheckpoint: this.#parts.ownCheckpoints.of(ids.baseId, (tx) => this.#job.verify(tx)),
      restartAt: this.#job.restartAt,
      targetOrigin: this.#job.targetOrigin,
      ...place,
      copyLimits: config.copyLimits,
      lag,
    });
    const measured = new MeasuredRun(run, lag, activity);
    const watched = { run, activity, hasLiveFeed: replication.source.kind === "http" };
    let ending: ReplicationEnding | undefined;
    const ended = new AbortController();
    const endsByItself = place.endsCaughtUp || !replication.continuous;
    const unwatched = endsByItself ? this.#unwatched(ended.signal) : Promise.resolve();
    const later = (task: () => Promise<void>) => async (): Promise<void> => {
      await unwatched;
      if (!ended.signal.aborted) await task();
    };
    await runTogether(signal, [
      async (runSignal) => {
        try {
          ending = await run.run(runSignal);
        } finally {
          this.#lostCheckpoint = run.lostCheckpoint;
          measured.observe(this.#job);
          ended.abort(OVER);
        }
      },
      later(() => this.#showLife(measured, ended.signal)),
      later(() => askPending(this.#job, measured, beside("source"), ended.signal)),
      later(() => this.#watchFilter(replication, ids, ended.signal)),
      later(() => this.#followSecurity(run, replication, beside, ended.signal)),
      later(() => this.#park(run, replication, beside, place.endsCaughtUp, ended.signal)),
      later(() => this.#keepHours(replication, ended.signal)),
      later(() => watchRun(runtime, watched, config.stallTimeoutSec * 1000, ended.signal)),
    ]);
    if (ending?.kind === "completed" && place.endsCaughtUp) {
      return quietAt(run, run.progress.throughSequence);
    }
    if (ending?.kind === "stopped" && this.#ownEnding !== undefined) return this.#ownEnding;
    return ending ?? { kind: "stopped" };
  }

  /** Throws a StopRequest if another user's job has taken the replication over meanwhile. */
  async #confirm({ id }: ReplicationId): Promise<void> {
    const claim = await this.#job.confirm(id);
    if (claim.kind === "owner") return;
    this.#ownEnding = this.#collision(claim);
    throw new StopRequest();
  }

  /** Where the run begins if a watcher woke it, and whether it ends once it has caught up. */
  #parked(before: ReplicationJobData): Omit<RunPlace, "expectedAt"> {
    const { runtime, config } = this.#job.parts;
    const { replication } = before;
    const parkedAt = parkedPlace(before);
    const isWoken =
      parkedAt !== undefined &&
      replication?.continuous === true &&
      canPark(runtime.digests, replication);
    const endsCaughtUp = isWoken && parksCaughtUp(before, config, runtime.clock.nowMs());
    return { parkedAt, endsCaughtUp };
  }

  /** Settles when it is time to watch a run that ends by itself; on a node with many jobs later, as each lasts longer then. */
  async #unwatched(ended: AbortSignal): Promise<void> {
    const { clock } = this.#job.parts.runtime;
    await clock.sleep(Math.max(UNWATCHED_MS, this.#figuresMs), ended).catch(() => {});
  }

  #showLife(run: MeasuredRun | undefined, ended: AbortSignal): Promise<void> {
    const statisticsMs = this.#job.parts.config.statisticsIntervalSec * 1000;
    const intervalMs = (): number => Math.max(statisticsMs, this.#figuresMs);
    return showLife(this.#job, run, intervalMs, ended);
  }

  /** With so many jobs on the node, the figures of each are stored no more often. */
  get #figuresMs(): number {
    return (this.#runningCount() / FIGURES_PER_SEC_MAX) * 1000;
  }

  /** Ends the run when the filter is another: the next one has another id, and begins at the start. */
  async #watchFilter(
    replication: Replication,
    { id }: ReplicationId,
    ended: AbortSignal,
  ): Promise<void> {
    const { clock } = this.#job.parts.runtime;
    if (userFilter(replication.selection) === undefined) return;
    while (!ended.aborted) {
      await clock.sleep(replication.options.checkpointIntervalMs, ended).catch(() => {});
      if (ended.aborted) return;
      const current = await this.#ids(replication, ended).catch((error: unknown) => {
        if (ended.aborted) return undefined;
        throw error;
      });
      if (current !== undefined && current.id !== id) throw new StopRequest();
    }
  }

  /** Copies the security object again when it has changed: nothing announces that. */
  async #followSecurity(
    run: ReplicationRun,
    { copiesSecurity, options }: Replication,
    beside: OpenSide,
    ended: AbortSignal,
  ): Promise<void> {
    if (copiesSecurity !== true) return;
    const { clock } = this.#job.parts.runtime;
    const sides = { source: beside("source"), target: beside("target") };
    while (!ended.aborted) {
      await clock.sleep(options.checkpointIntervalMs, ended).catch(() => {});
      if (ended.aborted || !run.hasBegun) continue;
      await run.copySecurity(ended, sides).catch((error: unknown) => {
        if (!ended.aborted) throw error;
      });
    }
  }

  /** Ends the run when everything has arrived and the source is quiet, if somebody can be told to watch it. */
  async #park(
    run: ReplicationRun,
    replication: Replication,
    beside: OpenSide,
    endsCaughtUp: boolean,
    ended: AbortSignal,
  ): Promise<void> {
    const { runtime, config } = this.#job.parts;
    if (!replication.continuous || !canPark(runtime.digests, replication)) return;
    // It ends by itself.
    if (endsCaughtUp) return;
    const isCrowded = (): boolean => this.#runningCount() >= config.jobsMax;
    const source = beside("source");
    const updateSequence = await onceQuiet(runtime.clock, run, source, config, isCrowded, ended);
    if (updateSequence === undefined) return;
    this.#ownEnding = quietAt(run, updateSequence);
    throw new StopRequest();
  }

  /** Ends the run when its hours are over. */
  async #keepHours(replication: Replication, ended: AbortSignal): Promise<void> {
    const { clock } = this.#job.parts.runtime;
    const closed = await onceWindowCloses(clock, replication, ended);
    if (closed === undefined) return;
    this.#ownEnding = closed;
    throw new StopRequest();
  }

  /** The request to try failures again, if that is all that a job which has ended is to do. */
  async #retryOnly({ baseId }: ReplicationId): Promise<RetryRequest | undefined> {
    const { kv, failureLists } = this.#job.parts;
    if (!hasEnded(this.#job.data.state)) return undefined;
    return kv.read((tx) => failureLists.retryRequest(tx, baseId));
  }

  /** Tries the failures again; whatever comes of it, the job has then ended as it had before. */
  async #retry(
    replication: Replication,
    { baseId }: ReplicationId,
    request: RetryRequest,
    signal: AbortSignal,
  ): Promise<RunEnding> {
    const { runtime, kv, failureLists, config } = this.#job.parts;
    try {
      const source = this.#open(replication, "source");
      const target = this.#open(replication, "target");
      const failures = await this.#openFailures(baseId);
      const secrets = this.#secrets;
      const observer = { count: this.#job.countRetried.bind(this.#job), failures, secrets };
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
      if (isHalt(error) || code?.startsWith("KV_") === true) throw error;
      if (isStop(error) || isStop(signal.reason)) return { kind: "list-stopped" };
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
    const { called } = this.#job;
    return StoredRunFailures.open({ runtime, kv, lists, baseId, verify, called });
  }

  #open(
    replication: Replication,
    side: "source" | "target",
    connections?: RunConnections,
  ): Endpoint {
    const address = replication[side];
    const { options } = replication;
    const during: Hazardous = (work, perform) => this.#job.during(work, perform);
    const endpoint = this.#parts.endpoints.open(address, options, this.#job.data, {
      ...connections,
      during,
      secrets: this.#secrets,
    });
    return this.#places.watch(endpoint, side, address);
  }
}

/** Where the run before wrote its last checkpoint of this replication, or found it; undefined: there was no such run. */
function lastCheckpoint(
  { replicationId, checkpointedSequence }: ReplicationJobData,
  { id }: ReplicationId,
): SourceSequence | undefined {
  return replicationId === id && checkpointedSequence !== 0 ? checkpointedSequence : undefined;
}

/** Where the job was parked that its watcher has woken. One that is still parked has come to look at both databases. */
function parkedPlace({
  state,
  startTimes,
  checkpointedSequence: sequence,
  statistics,
}: ReplicationJobData): ParkedPlace | undefined {
  if (state === "parked" || startTimes === undefined) return undefined;
  return { sequence, statistics, startTimes };
}

/** How a run ended that has all that its source had at `updateSequence`. */
function quietAt(
  { startTimes }: ReplicationRun,
  updateSequence: SourceSequence,
): Extract<RunEnding, { kind: "quiet" }> {
  return { kind: "quiet", updateSequence, pending: 0, startTimes };
}

/** How a run ended that an error ended. */
function endingOf(
  error: unknown,
  replication: Replication,
  place: FailurePlace,
  secrets: SecretsInUse,
): RunEnding {
  const described = describeFailure(error);
  const failure = {
    error: secrets.redact(described.error),
    reason: secrets.redact(described.reason),
  };
  const cause = { ...place, class: classifyFailure(error, place) };
  if (errorCode(error) === "REPLICATOR_STALLED") return { kind: "stalled", reason: failure.reason };
  if (failure.error === PUT_OFF) return { kind: "put-off", failure, cause };
  if (isRefusal(error)) return { kind: "store-refused", failure, cause };
  // A server behind a proxy may be away for others, and there for us.
  const isDirect = [replication.source, replication.target].every(
    (side) => side.kind === "local" || side.proxyUrl === undefined,
  );
  const unreachable = isDirect ? unreachableOrigin(error) : undefined;
  return { kind: "crashed", failure, cause, unreachable };
}

/** With fewer requests at once, for a server that wanted us to come later (CouchDB 3.5). */
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

/** The job, or all that its worker held, is another's now, or about to be. */
function isHalt(error: unknown): boolean {
  const code = errorCode(error);
  return code === "JOBS_HALTED" || code === "JOBS_WORKER_EXPELLED";
}

/** The store is there and refuses, as on a full disk, or it is away. */
function isRefusal(error: unknown): boolean {
  return errorCode(error) === "KV_UNAVAILABLE";
}

/** The node stops, or an operator decided something about the job. */
function isStop(error: unknown): boolean {
  return errorCode(error) === "REPLICATOR_STOPPED";
}

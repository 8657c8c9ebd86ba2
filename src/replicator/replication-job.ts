/**
 * One replication job in the hands of a node: from acceptance to the transaction that gives it back (RFC 016).
 *
 * Every write goes through the queue with the job's lock; a job that lost it ends without a word.
 *
 *   accepted → running → completed            a one-shot came to its end
 *                      → pending              it was asked to stop
 *                      → crashing             it failed and is due again after a pause
 *                      → failed               it failed for good
 *
 * A job that has ended runs once more when somebody wants its failures to be tried again: for these alone, and it is then what
 * it was before.
 */
import { errorCode, type Runtime, runTogether, waitAtMost } from "../base/index.ts";
import type { DatabaseRegistry } from "../databases/index.ts";
import type { HeldJob, Jobs } from "../jobs/index.ts";
import type { KeyValueStore, ReadTransaction, Transaction } from "../kv/index.ts";
import { BatchCopier } from "./copy-batch.ts";
import { type Endpoint, EndpointError } from "./endpoint.ts";
import type { Endpoints } from "./endpoints.ts";
import { describeFailure } from "./failure.ts";
import type { FailureList } from "./failure-list.ts";
import {
  type JobEvent,
  type ReplicationFailure,
  type ReplicationJobData,
  toJobData,
  withEvents,
} from "./job-data.ts";
import { penaltySec } from "./penalty.ts";
import type { Replication } from "./replication.ts";
import { writeDocumentState } from "./replication-document.ts";
import {
  baseIdOf,
  type ReplicationId,
  type ReplicationIdContext,
  replicationId,
  userFilter,
} from "./replication-id.ts";
import type { ReplicationOwnership } from "./replication-ownership.ts";
import { type ReplicationEnding, ReplicationRun } from "./replication-run.ts";
import {
  addStatistics,
  NO_STATISTICS,
  type ReplicationStatistics,
} from "./replication-statistics.ts";
import type { ReplicatorConfig } from "./replicator-config.ts";
import { retryFailures } from "./retry-failures.ts";
import { StoredFailureLog } from "./stored-failure-log.ts";

/** Signs of life in one activity timeout. */
const UPDATES_PER_TIMEOUT = 4;
/** How often the figures of a job that copies are stored, for those who look. */
const BUSY_INTERVAL_MS = 1000;
/** How often the source is asked how much is still to come: a question that costs it something (CouchDB 3.5: 30 s). */
const PENDING_INTERVAL_MS = 30_000;
/** When a job that has ended looks again whether the one that runs the same replication has tried their failures. */
const RETRY_PAUSE_SEC = 5;
/** The first time it is asked sooner. */
const PENDING_PAUSE_MS_FIRST = 1000;

export interface ReplicationJobParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly databases: DatabaseRegistry;
  readonly endpoints: Endpoints;
  readonly ownership: ReplicationOwnership;
  readonly failureList: FailureList;
  readonly ids: ReplicationIdContext;
  readonly config: ReplicatorConfig;
  /** `name@host`, as `_scheduler` shows it. */
  readonly nodeName: string;
  readonly processId: string;
}

export class ReplicationJob {
  readonly #parts: ReplicationJobParts;
  readonly #held: HeldJob;
  #data: ReplicationJobData;

  constructor(parts: ReplicationJobParts, held: HeldJob, data: ReplicationJobData) {
    this.#parts = parts;
    this.#held = held;
    this.#data = data;
  }

  get isContinuous(): boolean {
    return this.#data.replication?.continuous === true;
  }

  /** Runs the job and gives it back. Rejects only when the store fails; the job is then found by its silence. */
  async run(signal: AbortSignal): Promise<void> {
    const { replication } = this.#data;
    try {
      if (isHalt(signal.reason)) throw signal.reason;
      if (replication === undefined) {
        await this.#fail(this.#data.failure ?? { error: "error", reason: "malformed document" });
        return;
      }
      await this.#runReplication(replication, signal);
    } catch (error) {
      if (isHalt(error) || isHalt(signal.reason)) {
        this.#parts.runtime.trace.event("replication.halted", { id: this.#held.id });
        return;
      }
      throw error;
    }
  }

  async #runReplication(replication: Replication, signal: AbortSignal): Promise<void> {
    let ending: ReplicationEnding;
    try {
      const ids = await this.#ids(replication, signal);
      const before = this.#data;
      const request = await this.#retryOnly(ids);
      if (before.state === "completed" && request === undefined) {
        // Another job with the same list has tried it again.
        await this.#endAs(before);
        return;
      }
      if (!(await this.#begin(ids))) return;
      if (request !== undefined) {
        await this.#retry(replication, ids, request, before, signal);
        return;
      }
      ending = await this.#copy(replication, ids, signal);
    } catch (error) {
      const code = errorCode(error);
      if (isHalt(error) || code?.startsWith("KV_") === true) throw error;
      if (isHalt(signal.reason)) throw signal.reason;
      if (errorCode(signal.reason) === "REPLICATOR_STOPPED") await this.#giveBack();
      else await this.#crash(describeFailure(error), replication);
      return;
    }
    if (ending.kind === "stopped") await this.#giveBack();
    else await this.#complete(ending.result);
  }

  /** The replication's ids; a user filter's code is part of them and is read from the source. */
  async #ids(replication: Replication, signal: AbortSignal): Promise<ReplicationId> {
    const filter = userFilter(replication.selection);
    if (filter === undefined) return replicationId(this.#parts.ids, replication);
    const source = this.#open(replication, "source");
    const id = `_design/${filter.designDocument}`;
    const text = await source.readDocument(id, signal);
    if (text === undefined) {
      throw new EndpointError(
        "filter_fetch_error",
        `Couldn't open document \`${id}\` from source database \`${source.shownUrl}\`: not_found`,
      );
    }
    const code = JSON.parse(text)?.filters?.[filter.filterName];
    if (typeof code !== "string") {
      throw new EndpointError(
        "filter_fetch_error",
        `Couldn't parse filter code from document ${id} on \`${source.shownUrl}\``,
      );
    }
    return replicationId(this.#parts.ids, replication, code);
  }

  /** Marks the job as running, if no other job runs the same replication. */
  async #begin({ id }: ReplicationId): Promise<boolean> {
    const { runtime, kv, ownership, jobs, nodeName, processId } = this.#parts;
    const nowMs = runtime.clock.nowMs();
    const moved = this.#data.replicationId !== undefined && this.#data.replicationId !== id;
    const started: ReplicationJobData = {
      ...this.#data,
      replicationId: id,
      state: "running",
      failure: undefined,
      // Another id is another replication: its figures begin anew.
      statistics: moved ? NO_STATISTICS : this.#data.statistics,
      history: withEvents(moved ? [] : this.#data.history, { type: "started", timeMs: nowMs }),
      lastStartMs: nowMs,
      lastUpdatedMs: nowMs,
      node: nodeName,
      processId,
    };
    const claim = await kv.transact(async (tx) => {
      await jobs.verify(tx, this.#held);
      if (moved) await ownership.release(tx, this.#data.replicationId, this.#held.id);
      const claimed = await ownership.claim(tx, id, this.#held.id);
      if (claimed.kind === "owner") await jobs.update(tx, this.#held, toJobData(started));
      return claimed;
    });
    if (claim.kind === "owner") {
      this.#data = started;
      runtime.trace.event("replication.started", { id, jobId: this.#held.id });
      return true;
    }
    const failure = {
      error: "duplicate_job",
      reason: `Duplicate job running: ${claim.otherJobId}`,
    };
    const isPersistent = this.#data.document !== undefined;
    if (this.#data.state === "completed") await this.#endAs(this.#data, RETRY_PAUSE_SEC);
    else if (isPersistent && !claim.otherIsPersistent) await this.#retryLater(failure);
    else await this.#fail(failure);
    return false;
  }

  async #copy(
    replication: Replication,
    { baseId }: ReplicationId,
    signal: AbortSignal,
  ): Promise<ReplicationEnding> {
    const source = this.#open(replication, "source");
    const run: ReplicationRun = new ReplicationRun({
      runtime: this.#parts.runtime,
      source,
      target: this.#open(replication, "target"),
      replication,
      baseId,
      mayWrite: () => this.#update(run),
      failures: await this.#openFailures(baseId),
    });
    let ending: ReplicationEnding | undefined;
    const ended = new AbortController();
    await runTogether(signal, [
      async (runSignal) => {
        try {
          ending = await run.run(runSignal);
        } finally {
          this.#observe(run);
          ended.abort();
        }
      },
      () => this.#showLife(run, ended.signal),
      () => this.#askPending(run, source, ended.signal),
    ]);
    return ending ?? { kind: "stopped" };
  }

  /** The request to try failures again, if that is all that a job which has ended is to do. */
  async #retryOnly({ baseId }: ReplicationId): Promise<string | undefined> {
    const { kv, failureList } = this.#parts;
    if (!hasEnded(this.#data.state)) return undefined;
    return kv.read((tx) => failureList.retryRequest(tx, baseId));
  }

  /** Tries the failures again; whatever comes of it, the job has then ended as it had `before`. */
  async #retry(
    replication: Replication,
    { baseId }: ReplicationId,
    request: string,
    before: ReplicationJobData,
    signal: AbortSignal,
  ): Promise<void> {
    const { runtime, kv, jobs, failureList } = this.#parts;
    const source = this.#open(replication, "source");
    const target = this.#open(replication, "target");
    let isStopped = false;
    try {
      const failures = await this.#openFailures(baseId);
      const count = (more: Partial<ReplicationStatistics>): void => {
        const statistics = addStatistics(this.#data.statistics, more);
        this.#data = { ...this.#data, statistics };
      };
      const observer = { count, failures };
      const copier = new BatchCopier(runtime, { source, target }, replication.options, observer);
      const over = new AbortController();
      await runTogether(signal, [
        (taskSignal) =>
          retryFailures(copier, failures, request, taskSignal).finally(() => over.abort()),
        () => this.#showLife(undefined, over.signal),
      ]);
    } catch (error) {
      const code = errorCode(error);
      if (isHalt(error) || code?.startsWith("KV_") === true) throw error;
      isStopped = errorCode(signal.reason) === "REPLICATOR_STOPPED";
      if (!isStopped) {
        const fields = { jobId: this.#held.id, ...describeFailure(error) };
        runtime.trace.event("replication.retry-failed", fields);
        await kv.transact(async (tx) => {
          await jobs.verify(tx, this.#held);
          await failureList.endRetry(tx, baseId, request);
        });
      }
    }
    await this.#endAs(before, isStopped ? 0 : undefined);
  }

  /** Ends as the job had ended before; due again after a pause if one is given. */
  async #endAs(
    { state, failure, errorCount, result }: ReplicationJobData,
    pauseSec?: number,
  ): Promise<void> {
    await this.#end({
      state,
      errorCount,
      events: [{ type: "stopped" }],
      ...(failure === undefined ? {} : { failure }),
      ...(result === undefined ? {} : { result }),
      ...(pauseSec === undefined ? {} : { dueAtSec: this.#nowSec() + pauseSec }),
    });
  }

  #openFailures(baseId: string): Promise<StoredFailureLog> {
    const { runtime, kv, jobs, failureList: list } = this.#parts;
    const verify = (tx: ReadTransaction): Promise<void> => jobs.verify(tx, this.#held);
    return StoredFailureLog.open({ runtime, kv, list, baseId, verify });
  }

  #open(replication: Replication, side: "source" | "target") {
    return this.#parts.endpoints.open(replication[side], replication.options, this.#data.userName);
  }

  /** Updates the job while it runs, sooner when it copies, and notices at once when it was taken away. */
  async #showLife(run: ReplicationRun | undefined, ended: AbortSignal): Promise<void> {
    const { kv, jobs, config } = this.#parts;
    const { clock } = this.#parts.runtime;
    const intervalMs = (config.activityTimeoutSec * 1000) / UPDATES_PER_TIMEOUT;
    while (!ended.aborted) {
      await this.#update(run);
      const updatedAtMs = clock.monotonicMs();
      const { statistics } = this.#data;
      const watch = await kv.transact(async (tx) => {
        await jobs.verify(tx, this.#held);
        return jobs.watch(tx, this.#held);
      });
      let isQuiet = true;
      while (isQuiet && !ended.aborted) {
        const wait = (over: AbortSignal) => watch.fired(over);
        const jobChanged = await waitAtMost(clock, BUSY_INTERVAL_MS, ended, wait);
        const isDue = clock.monotonicMs() - updatedAtMs >= intervalMs;
        const current = run?.progress.statistics ?? this.#data.statistics;
        isQuiet = !jobChanged && !isDue && current === statistics;
      }
      watch.cancel();
      if (!ended.aborted) await kv.read((tx) => jobs.verify(tx, this.#held));
    }
  }

  /** Asks the source now and then; that it cannot say, or is slow to, is no reason to stop or to wait. */
  async #askPending(run: ReplicationRun, source: Endpoint, ended: AbortSignal): Promise<void> {
    const { clock } = this.#parts.runtime;
    let pauseMs = PENDING_PAUSE_MS_FIRST;
    while (!ended.aborted) {
      await clock.sleep(pauseMs, ended).catch(() => {});
      if (ended.aborted || !run.hasBegun) continue;
      const { throughSequence } = run.progress;
      const changesPending = await source
        .pendingCount(throughSequence, ended)
        .catch(() => undefined);
      this.#data = { ...this.#data, changesPending };
      pauseMs = PENDING_INTERVAL_MS;
    }
  }

  async #update(run: ReplicationRun | undefined): Promise<void> {
    const { kv, jobs } = this.#parts;
    if (run !== undefined) this.#observe(run);
    await kv.transact((tx) => jobs.update(tx, this.#held, toJobData(this.#data)));
  }

  /** Takes over the run's figures; a run that has lasted makes earlier failures forgotten. */
  #observe(run: ReplicationRun): void {
    const { config, runtime } = this.#parts;
    const { statistics, checkpointedSequence, throughSequence, highestSequence } = run.progress;
    const nowMs = runtime.clock.nowMs();
    const healthy = nowMs - this.#data.lastStartMs > config.healthThresholdSec * 1000;
    this.#data = {
      ...this.#data,
      statistics,
      checkpointedSequence,
      throughSequence,
      sourceSequence: highestSequence,
      errorCount: healthy ? 0 : this.#data.errorCount,
      lastUpdatedMs: nowMs,
    };
  }

  async #complete(result: Readonly<Record<string, unknown>>): Promise<void> {
    // The feed has ended: what came later is another run's.
    this.#data = { ...this.#data, changesPending: 0 };
    await this.#end({ state: "completed", result, events: [{ type: "stopped" }] });
  }

  /** Back to the queue, due at once: another node may go on where the last checkpoint stands. */
  async #giveBack(): Promise<void> {
    await this.#end({
      state: "pending",
      dueAtSec: this.#nowSec(),
      events: [{ type: "stopped" }, { type: "pending" }],
    });
  }

  /**
   * A persistent job is tried again, and so is a continuous transient one: nobody waits for it, and whoever started it counts
   * on it. A one-shot transient job fails, because its caller waits for the answer.
   */
  async #crash(failure: ReplicationFailure, { continuous }: Replication): Promise<void> {
    if (this.#data.document === undefined && !continuous) await this.#fail(failure);
    else await this.#retryLater(failure);
  }

  async #retryLater(failure: ReplicationFailure): Promise<void> {
    const { config, runtime } = this.#parts;
    const errorCount = this.#data.errorCount + 1;
    const limits = { minSec: config.penaltySecMin, maxSec: config.penaltySecMax };
    const pauseSec = penaltySec(errorCount, limits, runtime.random);
    runtime.trace.event("replication.crashed", { jobId: this.#held.id, pauseSec, ...failure });
    await this.#end({
      state: "crashing",
      failure,
      errorCount,
      dueAtSec: this.#nowSec() + pauseSec,
      events: [{ type: "crashed", reason: reasonOf(failure) }, { type: "pending" }],
    });
  }

  async #fail(failure: ReplicationFailure): Promise<void> {
    this.#parts.runtime.trace.event("replication.failed", { jobId: this.#held.id, ...failure });
    await this.#end({
      state: "failed",
      failure,
      errorCount: this.#data.errorCount + 1,
      events: [{ type: "crashed", reason: reasonOf(failure) }],
    });
  }

  /** The one transaction that ends a run: the job, and with it the state in its document. */
  async #end(ending: {
    readonly state: ReplicationJobData["state"];
    readonly events: readonly Omit<JobEvent, "timeMs">[];
    readonly failure?: ReplicationFailure;
    readonly errorCount?: number;
    readonly result?: Readonly<Record<string, unknown>>;
    readonly dueAtSec?: number;
  }): Promise<void> {
    const { runtime, kv, jobs } = this.#parts;
    const nowMs = runtime.clock.nowMs();
    const events = ending.events.map((event) => ({ ...event, timeMs: nowMs }));
    const data: ReplicationJobData = {
      ...this.#data,
      state: ending.state,
      failure: ending.failure,
      errorCount: ending.errorCount ?? (ending.state === "completed" ? 0 : this.#data.errorCount),
      result: ending.result,
      history: withEvents(this.#data.history, ...events),
      lastUpdatedMs: nowMs,
      node: undefined,
      processId: undefined,
    };
    await kv.transact(async (tx) => {
      const dueAtSec = ending.dueAtSec ?? (await this.#retryDueSec(tx, data));
      if (dueAtSec !== undefined) await jobs.resubmit(tx, this.#held, dueAtSec);
      await jobs.finish(tx, this.#held, toJobData(data));
      if (hasEnded(data.state)) await this.#writeDocumentState(tx, data, nowMs);
    });
    this.#data = data;
    runtime.trace.event("replication.ended", { jobId: this.#held.id, state: data.state });
  }

  /** Now, when somebody asked for another try of the failures too late for this run. */
  async #retryDueSec(
    tx: Transaction,
    { state, replicationId: id }: ReplicationJobData,
  ): Promise<number | undefined> {
    const { failureList } = this.#parts;
    const baseId = baseIdOf(id);
    if (baseId === undefined) return undefined;
    const request = await failureList.retryRequest(tx, baseId);
    if (request === undefined) return undefined;
    if (state === "completed") return this.#nowSec();
    // A job that fails for good would fail again: it must not run in circles.
    await failureList.endRetry(tx, baseId, request);
    return undefined;
  }

  async #writeDocumentState(
    tx: Transaction,
    data: ReplicationJobData,
    nowMs: number,
  ): Promise<void> {
    if (data.document === undefined) return;
    const database = await this.#parts.databases
      .open(tx, data.document.database)
      .catch((error: unknown) => {
        if (errorCode(error) === "STORE_DATABASE_NOT_FOUND") return undefined;
        throw error;
      });
    if (database?.uuid !== data.document.databaseUuid) return;
    await writeDocumentState(tx, database, data, nowMs);
  }

  #nowSec(): number {
    return Math.floor(this.#parts.runtime.clock.nowMs() / 1000);
  }
}

/** The job, or all that its worker held, is another's now, or about to be. */
function isHalt(error: unknown): boolean {
  const code = errorCode(error);
  return code === "JOBS_HALTED" || code === "JOBS_WORKER_EXPELLED";
}

function hasEnded(state: ReplicationJobData["state"]): boolean {
  return state === "completed" || state === "failed";
}

function reasonOf({ error, reason }: ReplicationFailure): string {
  return `${error}: ${reason}`;
}

/**
 * A replication job that this node holds: what is known of it, and every write to it. Each goes through the queue with the job's
 * lock, and throws `JOBS_HALTED` when that is lost.
 */
import { errorCode, type Runtime } from "../base/index.ts";
import type { Database, DatabaseRegistry } from "../databases/index.ts";
import type { HeldJob, Jobs } from "../jobs/index.ts";
import type { KeyValueStore, ReadTransaction, Transaction, Watch } from "../kv/index.ts";
import type { Endpoints } from "./endpoints.ts";
import type { FailureList } from "./failure-list.ts";
import { type JobControl, type JobControls, NEVER_SEC, UNTOUCHED } from "./job-control.ts";
import {
  hasEnded,
  type JobDocument,
  type JobEvent,
  type ReplicationFailure,
  type ReplicationJobData,
  toJobData,
  withEvents,
} from "./job-data.ts";
import type { Outages } from "./outages.ts";
import type { OwnCheckpoints } from "./own-checkpoint.ts";
import { penaltySec } from "./penalty.ts";
import type { Replication } from "./replication.ts";
import { clearDocumentState, writeDocumentState } from "./replication-document.ts";
import { baseIdOf, type ReplicationIdContext } from "./replication-id.ts";
import type { ReplicationOwnership } from "./replication-ownership.ts";
import { StopRequest } from "./replication-run.ts";
import type { ReplicatorConfig } from "./replicator-config.ts";
import { SCHEDULED_RETRY } from "./retry-failures.ts";

export interface ReplicationJobParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly databases: DatabaseRegistry;
  readonly endpoints: Endpoints;
  readonly ownership: ReplicationOwnership;
  readonly failureList: FailureList;
  readonly controls: JobControls;
  readonly ownCheckpoints: OwnCheckpoints;
  readonly outages: Outages;
  readonly ids: ReplicationIdContext;
  readonly config: ReplicatorConfig;
}

/** Signs of life in one activity timeout. */
export const UPDATES_PER_TIMEOUT = 4;

export class HeldReplication {
  readonly parts: ReplicationJobParts;
  readonly held: HeldJob;
  /** As it was stored last, or will be next. */
  data: ReplicationJobData;
  /** What an operator had decided when this run began. */
  #control: JobControl = UNTOUCHED;
  #hasCheckpoint = false;
  #stored: ReplicationJobData;
  #storedAtMs: number;
  /** As the queue has it, which counts for all nodes, whatever they are configured to. */
  #activityTimeoutSec: number;

  constructor(parts: ReplicationJobParts, held: HeldJob, data: ReplicationJobData) {
    this.parts = parts;
    this.held = held;
    this.data = data;
    this.#stored = data;
    this.#storedAtMs = parts.runtime.clock.monotonicMs();
    this.#activityTimeoutSec = parts.config.activityTimeoutSec;
  }

  verify(tx: ReadTransaction): Promise<void> {
    return this.parts.jobs.verify(tx, this.held);
  }

  /** Throws when the job was taken away: before something is written that the store cannot fence. */
  verifyNow(): Promise<void> {
    return this.parts.kv.read((tx) => this.verify(tx));
  }

  /** What an operator wants of this run. Called once, before it begins. */
  async readControl(): Promise<JobControl> {
    const { kv, controls } = this.parts;
    this.#control = await kv.read((tx) => controls.get(tx, this.held.id));
    return this.#control;
  }

  /**
   * Fires when the job is taken away, or when somebody wants something else of it. Throws a StopRequest when an operator
   * decided anew since the run began.
   */
  async watch(): Promise<Watch> {
    const { kv, jobs, controls } = this.parts;
    const { watch, decision, timeoutSec } = await kv.transact(async (tx) => ({
      watch: await jobs.watchHeld(tx, this.held),
      decision: (await controls.get(tx, this.held.id)).decision,
      timeoutSec: await jobs.getTypeTimeout(tx, this.held.type),
    }));
    this.#learnTimeout(timeoutSec);
    if (decision === this.#control.decision) return watch;
    watch.cancel();
    throw new StopRequest();
  }

  /** Where an operator wants the run to begin, whatever its checkpoints say. */
  get restartAt(): JobControl["restartAt"] {
    return this.#control.restartAt;
  }

  /** The run has a checkpoint of its own: the next one goes on from there. */
  noteCheckpoint(): void {
    this.#hasCheckpoint = true;
  }

  /** Whether the figures are others than those stored last. */
  get hasNews(): boolean {
    const { statistics, checkpointedSequence } = this.data;
    if (
      statistics === this.#stored.statistics &&
      checkpointedSequence === this.#stored.checkpointedSequence
    ) {
      return false;
    }
    return figuresOf(this.data) !== figuresOf(this.#stored);
  }

  /** How long ago the job showed last that it lives. */
  get silentMs(): number {
    return this.parts.runtime.clock.monotonicMs() - this.#storedAtMs;
  }

  /** How long the job may be silent, so that there are several signs of life in one activity timeout. */
  get silentMsMax(): number {
    return (this.#activityTimeoutSec * 1000) / UPDATES_PER_TIMEOUT;
  }

  #learnTimeout(timeoutSec: number | undefined): void {
    if (timeoutSec !== undefined) this.#activityTimeoutSec = timeoutSec;
  }

  /** Stores the figures; throws when the job was taken away. */
  async update(): Promise<void> {
    const { kv, jobs } = this.parts;
    const endsRestart = this.#hasCheckpoint;
    const stored = this.data;
    const timeoutSec = await kv.transact(async (tx) => {
      await jobs.update(tx, this.held, toJobData(stored));
      if (endsRestart) await this.#endRestart(tx);
      return jobs.getTypeTimeout(tx, this.held.type);
    });
    this.#learnTimeout(timeoutSec);
    this.noteStored(stored);
    // From now on it need not be looked at again.
    if (endsRestart) this.#control = { ...this.#control, restartAt: undefined };
  }

  /** What every other node sees of the job from now on. */
  noteStored(data: ReplicationJobData): void {
    this.#stored = data;
    this.#storedAtMs = this.parts.runtime.clock.monotonicMs();
  }

  /** Ends as the job had ended before; due again after a pause if one is given. */
  async endAs(
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

  async complete(result: Readonly<Record<string, unknown>>): Promise<void> {
    // The feed has ended: what came later is another run's.
    this.data = { ...this.data, changesPending: 0, stallCount: 0 };
    await this.#end({ state: "completed", result, events: [{ type: "stopped" }] });
  }

  /** Back to the queue, due at once: another node may go on where the last checkpoint stands. */
  async giveBack(): Promise<void> {
    await this.#end({
      state: "pending",
      dueAtSec: this.#nowSec(),
      events: [{ type: "stopped" }, { type: "pending" }],
    });
  }

  /** The run did not move: the next one begins at once, over new connections and with fewer workers. */
  async stall(reason: string): Promise<void> {
    const stallCount = (this.data.stallCount ?? 0) + 1;
    this.data = { ...this.data, stallCount };
    const fields = { jobId: this.held.id, stallCount, reason };
    this.parts.runtime.trace.event("replication.stalled", fields);
    await this.#end({
      state: "pending",
      dueAtSec: this.#nowSec(),
      events: [{ type: "stalled", reason }, { type: "pending" }],
    });
  }

  /**
   * A persistent job is tried again, and so is a continuous transient one: nobody waits for it, and whoever started it counts
   * on it. A one-shot transient job fails, because its caller waits for the answer; unless a server only wants it to come later.
   */
  async crash(
    failure: ReplicationFailure,
    { continuous }: Replication,
    unreachable?: string,
  ): Promise<void> {
    const isOneShot = this.data.document === undefined && !continuous;
    if (isOneShot && failure.error !== "max_backoff") await this.fail(failure);
    else await this.retryLater(failure, unreachable);
  }

  /** `unreachable`: the origin of a server that could not be reached; the job is due at once when it answers again. */
  async retryLater(failure: ReplicationFailure, unreachable?: string): Promise<void> {
    const { config, runtime } = this.parts;
    const errorCount = this.data.errorCount + 1;
    const limits = { minSec: config.penaltySecMin, maxSec: config.penaltySecMax };
    const pauseSec = penaltySec(errorCount, limits, runtime.random);
    runtime.trace.event("replication.crashed", { jobId: this.held.id, pauseSec, ...failure });
    await this.#end({
      state: "crashing",
      failure,
      errorCount,
      unreachable,
      dueAtSec: this.#nowSec() + pauseSec,
      events: [{ type: "crashed", reason: reasonOf(failure) }, { type: "pending" }],
    });
  }

  /** `isDuplicate`: another job runs the replication, and what somebody asked of its list is that one's to do. */
  async fail(failure: ReplicationFailure, { isDuplicate = false } = {}): Promise<void> {
    this.parts.runtime.trace.event("replication.failed", { jobId: this.held.id, ...failure });
    await this.#end({
      state: "failed",
      failure,
      errorCount: this.data.errorCount + 1,
      events: [{ type: "crashed", reason: reasonOf(failure) }],
      isDuplicate,
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
    readonly unreachable?: string | undefined;
    readonly isDuplicate?: boolean;
  }): Promise<void> {
    const { runtime, kv, jobs, config } = this.parts;
    const nowMs = runtime.clock.nowMs();
    const events = ending.events.map((event) => ({ ...event, timeMs: nowMs }));
    const data: ReplicationJobData = {
      ...this.data,
      state: ending.state,
      failure: ending.failure,
      errorCount: ending.errorCount ?? (ending.state === "completed" ? 0 : this.data.errorCount),
      result: ending.result,
      history: withEvents(this.data.history, events, config.historyLengthMax),
      lastUpdatedMs: nowMs,
    };
    await kv.transact(async (tx) => {
      await this.#endRestart(tx);
      const retryDueSec = ending.isDuplicate ? undefined : () => this.#retryDueSec(tx, data);
      const dueAtSec = ending.dueAtSec ?? (await retryDueSec?.());
      if (dueAtSec !== undefined) {
        await jobs.resubmit(tx, this.held, await this.#dueAsDecided(tx, dueAtSec));
      }
      await jobs.finish(tx, this.held, toJobData(data));
      if (hasEnded(data.state)) await this.#writeDocumentState(tx, data, nowMs);
      const { unreachable } = ending;
      if (unreachable !== undefined) await this.parts.outages.join(tx, unreachable, this.held.id);
    });
    this.data = data;
    runtime.trace.event("replication.ended", { jobId: this.held.id, state: data.state });
  }

  async #endRestart(tx: Transaction): Promise<void> {
    if (this.restartAt === undefined || !this.#hasCheckpoint) return;
    await this.parts.controls.endRestart(tx, this.held.id, this.restartAt);
  }

  /** A job that rests is never due; one about which an operator decided during the run is due now, whatever came of it. */
  async #dueAsDecided(tx: ReadTransaction, dueAtSec: number): Promise<number> {
    const { isPaused, decision } = await this.parts.controls.get(tx, this.held.id);
    if (isPaused) return NEVER_SEC;
    return decision === this.#control.decision ? dueAtSec : this.#nowSec();
  }

  /** Now, when somebody asked for another try of the failures too late for this run; later, when it left some behind. */
  async #retryDueSec(
    tx: Transaction,
    { state, replicationId: id, document }: ReplicationJobData,
  ): Promise<number | undefined> {
    const { failureList } = this.parts;
    const baseId = baseIdOf(id);
    if (baseId === undefined) return undefined;
    const request = await failureList.retryRequest(tx, baseId);
    if (request === undefined) {
      const pauseSec = this.data.replication?.options.failureRetrySec ?? 0;
      const isForSchedule = state === "completed" && document !== undefined && pauseSec > 0;
      if (!isForSchedule || (await failureList.counts(tx, baseId)).length === 0) return undefined;
      failureList.askRetry(tx, baseId, SCHEDULED_RETRY);
      return this.#nowSec() + pauseSec;
    }
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
    const database = await this.#openDatabaseOf(tx, data.document);
    if (database !== undefined) await writeDocumentState(tx, database, data, nowMs);
  }

  /** Takes a state out of the document that says nothing any more: one that a CouchDB left, or that of an earlier run. */
  async clearDocumentState(tx: Transaction): Promise<void> {
    const { document } = this.data;
    if (document === undefined) return;
    const database = await this.#openDatabaseOf(tx, document);
    if (database !== undefined) await clearDocumentState(tx, database, document.id);
  }

  async #openDatabaseOf(
    tx: ReadTransaction,
    { database: name, databaseUuid }: JobDocument,
  ): Promise<Database | undefined> {
    const database = await this.parts.databases.open(tx, name).catch((error: unknown) => {
      if (errorCode(error) === "STORE_DATABASE_NOT_FOUND") return undefined;
      throw error;
    });
    return database?.uuid === databaseUuid ? database : undefined;
  }

  #nowSec(): number {
    return Math.floor(this.parts.runtime.clock.nowMs() / 1000);
  }
}

function figuresOf({ statistics, checkpointedSequence }: ReplicationJobData): string {
  return JSON.stringify([statistics, checkpointedSequence]);
}

function reasonOf({ error, reason }: ReplicationFailure): string {
  return `${error}: ${reason}`;
}

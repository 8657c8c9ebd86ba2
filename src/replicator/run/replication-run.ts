/**
 * One run of a replication: from the common checkpoint to the end of the changes, or until it is
 * stopped.
 *
 *   changes → pipeline (`changes-pipeline.ts`) → through sequence
 *     → checkpoints (`checkpoint-writer.ts`)
 *
 * Independent of jobs: used by both the queue's job (`replication-job.ts`) and the command line.
 * All work ends when the signal aborts. A run stopped by a StopRequest writes a last checkpoint.
 */
import {
  allTogether,
  chunksOf,
  errorCode,
  inSpan,
  OperationalError,
  runTogether,
} from "../../base/index.ts";
import { CheckpointWriter, type CheckpointWriterParts } from "../checkpoints/checkpoint-writer.ts";
import type { Checkpoints } from "../checkpoints/checkpoints.ts";
import { openSides } from "../checkpoints/open-sides.ts";
import { findParked, isPlaceLost } from "../checkpoints/parked-place.ts";
import { recordedStatistics } from "../checkpoints/replication-log.ts";
import { ThroughSequence } from "../checkpoints/through-sequence.ts";
import type { BatchObserver } from "../copying/batch-outcome.ts";
import { BatchCopier } from "../copying/copy-batch.ts";
import {
  isChange,
  isSameSequence,
  type SourceSequence,
  type StartTimes,
} from "../endpoints/endpoint.ts";
import { describeFailure } from "../failures/failure.ts";
import { type RunFailures, SCHEDULED_RETRY } from "../failures/run-failures.ts";
import {
  addStatistics,
  NO_STATISTICS,
  type ReplicationStatistics,
  statisticsSince,
} from "../jobs/replication-statistics.ts";
import type { CopyLimits } from "../replicator-config.ts";
import type { ReplicationId } from "../request/replication-id.ts";
import { ChangesPipeline, readsAhead } from "./changes-pipeline.ts";
import { EarlyChanges } from "./early-changes.ts";
import { LagMeter } from "./lag-meter.ts";
import { retryFailures } from "./retry-failures.ts";
import { isSameSecurity } from "./same-security.ts";

/** Maximum time for the last checkpoint of a stopped run. */
export const LAST_CHECKPOINT_MS_MAX = 5000;

/** Delay before background tasks start, in a run that ends by itself. */
const BESIDE_MS = 1000;

/**
 * Abort reason for an orderly stop, which includes a last checkpoint. Any other abort reason ends
 * the run without a checkpoint.
 *
 * The run waits a few seconds for its writes; if `awaitsWrites`, it waits until they have ended.
 * `awaitsWrites` is set for an operator's decision, because the response to a cancellation waits
 * for the end of the run.
 */
export class StopRequest extends OperationalError {
  override readonly name = "StopRequest";

  constructor({ awaitsWrites = false }: { readonly awaitsWrites?: boolean } = {}) {
    super("REPLICATOR_STOPPED", "The replication was asked to stop", { awaitsWrites });
  }
}

/**
 * Whether a run was stopped in an orderly way: the node stops, another job needs the slot, or an
 * operator has made a decision.
 */
export function isStopRequest(error: unknown): boolean {
  return errorCode(error) === "REPLICATOR_STOPPED";
}

/**
 * Abort reason for tasks of a run that has ended. Created once, because creating an error is
 * expensive.
 */
const OVER = new Error("The run has ended");

export interface ReplicationRunParts extends CheckpointWriterParts {
  readonly ids: Pick<ReplicationId, "id" | "baseId" | "olderBaseIds">;
  readonly failures: RunFailures;
  readonly secrets: BatchObserver["secrets"];
  readonly copyLimits: CopyLimits;
  /** Start position requested by an operator. It overrides the common checkpoint. */
  readonly restartAt?: { readonly sequence: SourceSequence } | undefined;
  /** Sequence of the last known checkpoint, at which the run is expected to start. */
  readonly expectedAt?: SourceSequence;
  /** Whether the run ends once it has caught up, even if the replication is continuous. */
  readonly endsCaughtUp?: boolean;
  /**
   * Called after both sides have responded, before copying begins. Can reject to prevent copying.
   */
  readonly mayCopy?: () => Promise<void>;
  /**
   * Whether the job created the target. If absent, the job counts as not having created the target.
   */
  readonly targetOrigin?: TargetOrigin;
  /** Meter for the lag of the run, if the caller needs the lag. */
  readonly lag?: LagMeter;
  /** Called when the run has begun, and when its progress changes. */
  readonly onProgress?: () => void;
}

/**
 * Whether the job has created its target. Some jobs copy the security object only if they have
 * created the target.
 */
export interface TargetOrigin {
  readonly isCreatedHere: boolean;
  note(isCreatedHere: boolean): Promise<void>;
}

/** Progress of a run. All sequences are those of the source. */
export interface ReplicationProgress {
  readonly statistics: ReplicationStatistics;
  readonly checkpointedSequence: SourceSequence;
  readonly throughSequence: SourceSequence;
  readonly highestSequence: SourceSequence;
}

/** How a run ended. `result` is the response of `_replicate`. */
export type ReplicationEnding =
  | { readonly kind: "completed"; readonly result: Readonly<Record<string, unknown>> }
  | { readonly kind: "stopped" };

export class ReplicationRun {
  readonly #parts: ReplicationRunParts;
  readonly #lag: LagMeter;
  #statistics: ReplicationStatistics = NO_STATISTICS;
  #statisticsBefore: ReplicationStatistics = NO_STATISTICS;
  #sequence = new ThroughSequence(0);
  #begun = false;
  readonly #checkpoints: CheckpointWriter;
  readonly #changes: EarlyChanges;
  #pipeline: ChangesPipeline | undefined;
  /**
   * Sequence at which the run is expected to start; undefined if unknown, or if the expectation
   * turned out to be wrong.
   */
  #expectedAt: SourceSequence | undefined;
  #isTargetEmpty = false;
  #lostCheckpoint: { readonly error: unknown } | undefined;
  #startTimes: StartTimes | undefined;

  constructor(parts: ReplicationRunParts) {
    this.#parts = parts;
    this.#checkpoints = new CheckpointWriter(parts, () => ({
      through: this.#sequence.through,
      statistics: this.#statistics,
    }));
    this.#lag = parts.lag ?? new LagMeter();
    const { source, replication, endsCaughtUp = false } = parts;
    const { continuous, selection, winningRevisionsOnly } = replication;
    this.#expectedAt = parts.restartAt === undefined ? parts.expectedAt : parts.restartAt.sequence;
    this.#changes = new EarlyChanges(source, {
      continuous: continuous && !endsCaughtUp,
      showsEnd: endsCaughtUp,
      selection,
      winningRevisionsOnly,
    });
  }

  /** Whether the common checkpoint is known. Until then, the progress is meaningless. */
  get hasBegun(): boolean {
    return this.#begun;
  }

  /** Whether this run wrote a checkpoint. */
  get hasCheckpoint(): boolean {
    return this.#checkpoints.log !== undefined;
  }

  /** Whether changes read from the feed have not been copied yet. */
  get hasWork(): boolean {
    return this.#sequence.hasOpen;
  }

  /**
   * Monotonic time (ms) at which the feed last delivered something or, before its first delivery,
   * at which it began; undefined before it begins.
   */
  get quietSinceMs(): number | undefined {
    return this.#pipeline?.quietSinceMs;
  }

  /** Creation times of both databases; undefined until known. */
  get startTimes(): StartTimes | undefined {
    return this.#startTimes;
  }

  /** Statistics of this run alone. */
  get ownStatistics(): ReplicationStatistics {
    return statisticsSince(this.#statisticsBefore, this.#statistics);
  }

  /** Error of the last checkpoint of a stopped run, if the checkpoint failed. */
  get lostCheckpoint(): { readonly error: unknown } | undefined {
    return this.#lostCheckpoint;
  }

  get progress(): ReplicationProgress {
    return {
      statistics: this.#statistics,
      checkpointedSequence: this.#checkpoints.committed,
      throughSequence: this.#sequence.through,
      highestSequence: this.#sequence.highest,
    };
  }

  /**
   * Runs until the replication has completed or `signal` aborts. Rejects with the first failure.
   * Also rejects with the abort reason, unless it is a StopRequest.
   */
  run(signal: AbortSignal): Promise<ReplicationEnding> {
    const { runtime, source, target, ids } = this.#parts;
    const attributes = () => ({
      "replication.id": ids.id,
      "replication.source": source.shownUrl,
      "replication.target": target.shownUrl,
    });
    return inSpan(runtime.spans, "replication.run", attributes, () => this.#run(signal));
  }

  async #run(signal: AbortSignal): Promise<ReplicationEnding> {
    try {
      if (!(await this.#runFromParked(signal))) await this.#runFromCheckpoints(signal);
    } catch (error) {
      if (!isStopRequest(error) && !isStopRequest(signal.reason)) throw error;
      if (this.#begun) await this.#lastCheckpoint();
      return { kind: "stopped" };
    } finally {
      await this.#changes.giveUp();
    }
    return { kind: "completed", result: this.#result() };
  }

  /**
   * Resumes at the parked position without reading the logs; the next checkpoint verifies them.
   * Returns false if the run cannot resume or the databases have changed. The caller then starts
   * the run over. Documents already written stay on the target.
   */
  async #runFromParked(signal: AbortSignal): Promise<boolean> {
    const { parkedAt, endsCaughtUp, restartAt, ownCheckpoint } = this.#parts;
    if (parkedAt === undefined || endsCaughtUp !== true || restartAt !== undefined) return false;
    // A local copy of the log exists only if the source is read-only. The logs must then be read:
    // the next checkpoint is not written to the source, so it would not verify the source's log.
    if ((await ownCheckpoint.read()) !== undefined) return false;
    try {
      await this.#changes.begin(parkedAt.sequence, signal);
      await this.copySecurity(signal);
      this.#begin(parkedAt.sequence, undefined, parkedAt.statistics);
      this.#startTimes = parkedAt.startTimes;
      await this.#copyToEnd(signal);
      return true;
    } catch (error) {
      if (signal.aborted || !isPlaceLost(error)) throw error;
      this.#begun = false;
      this.#expectedAt = undefined;
      this.#lag.startOver();
      this.#checkpoints.startOver();
      this.#parts.runtime.trace.event("replication.place-lost", {
        source: this.#parts.source.shownUrl,
      });
      return false;
    }
  }

  async #runFromCheckpoints(signal: AbortSignal): Promise<void> {
    const found = (await this.#resume(signal)) ?? (await this.#open(signal));
    await this.#parts.mayCopy?.();
    const { sequence, history } = found.ancestry;
    // On a restart, use the statistics of the checkpoint instead of the job's statistics, because
    // changes after the checkpoint are copied and counted again.
    const isRestart = this.#parts.restartAt !== undefined;
    const statistics = isRestart ? this.#statistics : recordedStatistics(history);
    this.#begin(this.#startAfter(sequence), found, statistics);
    this.#startTimes = found.startTimes;
    await this.#copyToEnd(signal);
  }

  /** Copies until the feed ends. Writes checkpoints periodically and at the end. */
  async #copyToEnd(signal: AbortSignal): Promise<void> {
    const copied = new AbortController();
    const batchCopier = this.#openBatchCopier();
    const undisturbed = this.#undisturbed(copied.signal);
    const later =
      (task: (signal: AbortSignal) => Promise<void>) =>
      async (taskSignal: AbortSignal): Promise<void> => {
        await undisturbed;
        if (!copied.signal.aborted) await task(taskSignal);
      };
    await runTogether(signal, [
      (taskSignal) =>
        this.#lookBack(batchCopier, taskSignal)
          .then(() => this.#copyAll(batchCopier, taskSignal))
          .finally(() => copied.abort(OVER)),
      later((taskSignal) => this.#retryWhenAsked(batchCopier, copied.signal, taskSignal)),
      later((taskSignal) => this.#retryRegularly(batchCopier, copied.signal, taskSignal)),
      later((taskSignal) => this.#checkpoints.writeRegularly(copied.signal, taskSignal)),
    ]);
    await this.#checkpoints.write(signal);
  }

  /**
   * Resolves when background tasks may start. Most runs that end by themselves have ended earlier.
   */
  async #undisturbed(copied: AbortSignal): Promise<void> {
    const { runtime, replication, endsCaughtUp = false } = this.#parts;
    if (replication.continuous && !endsCaughtUp) return;
    const beginMs = Math.min(BESIDE_MS, replication.options.checkpointIntervalMs);
    await runtime.clock.sleep(beginMs, copied).catch(() => {});
  }

  /** Resumes at the parked position if both sides still have the job's checkpoint. */
  async #resume(signal: AbortSignal): Promise<Checkpoints | undefined> {
    const { parkedAt, endsCaughtUp } = this.#parts;
    // Unless its source is read-only, a run that ends when caught up has already tried to resume in
    // `#runFromParked`.
    if (parkedAt === undefined || endsCaughtUp === true) return undefined;
    await this.#changes.begin(this.#startAfter(parkedAt.sequence), signal);
    const found = await findParked(this.#parts, parkedAt, signal);
    if (found !== undefined) await this.copySecurity(signal);
    return found;
  }

  /**
   * Opens both sides and reads their replication logs. At the same time, requests the changes after
   * the sequence at which the run is expected to start.
   */
  async #open(signal: AbortSignal): Promise<Checkpoints> {
    const { source, target, replication, ids, ownCheckpoint } = this.#parts;
    if (this.#expectedAt !== undefined) await this.#changes.begin(this.#expectedAt, signal);
    const { checkpoints, isTargetEmpty } = await openSides(
      {
        source,
        target,
        replication,
        ids,
        ownCheckpoint,
        noteTarget: async (isCreatedHere) => this.#parts.targetOrigin?.note(isCreatedHere),
        prepareTarget: (taskSignal) => this.copySecurity(taskSignal),
        expectNoLog: () => this.#changes.begin(this.#startAfter(0), signal),
      },
      signal,
    );
    this.#isTargetEmpty = isTargetEmpty;
    return checkpoints;
  }

  /** Returns the start sequence of the run, given the common sequence of both logs. */
  #startAfter(common: SourceSequence): SourceSequence {
    const { restartAt, replication } = this.#parts;
    if (restartAt !== undefined) return restartAt.sequence;
    return common === 0 ? (replication.sinceSequence ?? 0) : common;
  }

  /**
   * Copies the source's security object if the replication asks for it. The job must have created
   * the target or be allowed to replace the target's security object. Called before the first
   * document is written, so that the target never has more readers than intended.
   */
  async copySecurity(
    signal: AbortSignal,
    { source, target }: Pick<ReplicationRunParts, "source" | "target"> = this.#parts,
  ): Promise<void> {
    const { replication, targetOrigin } = this.#parts;
    const { copiesSecurity, overwritesSecurity } = replication;
    if (copiesSecurity !== true) return;
    if (overwritesSecurity !== true && targetOrigin?.isCreatedHere !== true) return;
    const [wanted, actual] = await allTogether(signal, [
      (taskSignal) => source.security(taskSignal),
      (taskSignal) => target.security(taskSignal),
    ]);
    if (isSameSecurity(wanted, actual)) return;
    await this.#parts.mayWrite();
    await target.setSecurity(wanted, signal);
  }

  #begin(
    start: SourceSequence,
    checkpoints: Checkpoints | undefined,
    statistics: ReplicationStatistics,
  ): void {
    this.#sequence = new ThroughSequence(start);
    this.#checkpoints.begin(start, checkpoints);
    this.#begun = true;
    this.#statistics = statistics;
    this.#statisticsBefore = statistics;
    this.#parts.onProgress?.();
  }

  /**
   * If earlier runs skipped failed documents that are missing from the list of failures, copies the
   * changes up to the checkpoint again. The target reports which revisions it lacks.
   */
  async #lookBack(batchCopier: BatchCopier, signal: AbortSignal): Promise<void> {
    const { failures, restartAt } = this.#parts;
    const { checkpoints } = this.#checkpoints;
    // A run that resumes a parked job has not read the logs, so `checkpoints` is undefined. This
    // run checks the list of failures when it writes a checkpoint.
    if (checkpoints === undefined || restartAt !== undefined) return;
    const { ancestry, passedFailures } = checkpoints;
    if (!passedFailures || ancestry.sequence === 0) return;
    if (await failures.isWhole()) return;
    // Abort the feed that was requested early, because it would time out while the earlier changes
    // are read.
    await this.#changes.giveUp();
    await this.#copyUpTo(ancestry.sequence, batchCopier, signal);
    await failures.lookedBack();
  }

  async #copyUpTo(
    sequence: SourceSequence,
    batchCopier: BatchCopier,
    signal: AbortSignal,
  ): Promise<void> {
    const { source, replication } = this.#parts;
    const { selection, winningRevisionsOnly, sinceSequence } = replication;
    const since = sinceSequence ?? 0;
    const request = { since, continuous: false, selection, winningRevisionsOnly };
    for await (const items of source.changes(request, signal)) {
      const changes = items.filter(isChange);
      const { workerBatchSize } = replication.options;
      for (const batch of chunksOf(changes, workerBatchSize)) {
        await batchCopier.tryOnce(batch, signal);
      }
      if (changes.some((change) => isSameSequence(change.sequence, sequence))) return;
    }
  }

  /** Copies the source's feed through the pipeline. */
  #copyAll(batchCopier: BatchCopier, signal: AbortSignal): Promise<void> {
    const { runtime, replication, secrets } = this.#parts;
    const { clock } = runtime;
    const sequence = this.#sequence;
    const pipeline = new ChangesPipeline({
      clock,
      replication,
      batchCopier,
      sequence,
      lag: this.#lag,
      secrets,
      onBatch: this.#parts.onProgress,
    });
    this.#pipeline = pipeline;
    const since = sequence.through;
    return pipeline.run((feedSignal) => this.#changes.after(since, feedSignal), signal);
  }

  #openBatchCopier(): BatchCopier {
    const { source, target, replication, runtime, failures, secrets, copyLimits } = this.#parts;
    const { options, omissions } = replication;
    return new BatchCopier(
      {
        runtime,
        source,
        target,
        options,
        omissions,
        copyLimits,
        readsAhead: readsAhead(replication),
        // False for a pair: the reverse direction adds revisions to the source that the target
        // already has.
        lacksAll: this.#isTargetEmpty && replication.pair !== true,
      },
      {
        count: (more) => {
          this.#statistics = addStatistics(this.#statistics, more);
          this.#parts.onProgress?.();
        },
        failures,
        secrets,
      },
    );
  }

  async #retryWhenAsked(
    batchCopier: BatchCopier,
    copied: AbortSignal,
    signal: AbortSignal,
  ): Promise<void> {
    const { failures, endsCaughtUp = false } = this.#parts;
    // A run that ends when caught up does not process retry requests. A request schedules the job's
    // next run, which processes it.
    while (!endsCaughtUp) {
      const request = await failures.retryAsked(copied);
      if (request === undefined) return;
      await retryFailures(batchCopier, failures, request, signal);
    }
  }

  async #retryRegularly(
    batchCopier: BatchCopier,
    copied: AbortSignal,
    signal: AbortSignal,
  ): Promise<void> {
    const { runtime, failures, replication } = this.#parts;
    const { clock } = runtime;
    const intervalMs = replication.options.failureRetrySec * 1000;
    // The interval starts at the last retry by any run, because a run can be shorter than the
    // interval.
    const waitedMs = clock.nowMs() - (failures.waitsSinceMs ?? clock.nowMs());
    let pauseMs = Math.min(intervalMs, Math.max(0, intervalMs - waitedMs));
    while (intervalMs > 0 && !copied.aborted) {
      await clock.sleep(pauseMs, copied).catch(() => {});
      pauseMs = intervalMs;
      if (!copied.aborted) await retryFailures(batchCopier, failures, SCHEDULED_RETRY, signal);
    }
  }

  /**
   * Writes the last checkpoint of a stopped run. If the checkpoint fails, the run still ends, and
   * the next run checks some changes again.
   */
  async #lastCheckpoint(): Promise<void> {
    const { clock, trace } = this.#parts.runtime;
    const limit = new AbortController();
    const done = new AbortController();
    const timer = clock.sleep(LAST_CHECKPOINT_MS_MAX, done.signal).then(
      () => limit.abort(new StopRequest()),
      () => {},
    );
    try {
      await this.#checkpoints.write(limit.signal);
    } catch (error) {
      this.#lostCheckpoint = { error };
      const { error: word, reason } = describeFailure(error);
      trace.event("replication.last-checkpoint-failed", { error: `${word}: ${reason}` });
    } finally {
      done.abort(OVER);
      await timer;
    }
  }

  #result(): Readonly<Record<string, unknown>> {
    if (!this.#parts.replication.options.useCheckpoints) return { use_checkpoints: false };
    const { log, checkpoints } = this.#checkpoints;
    if (this.#pipeline?.hasCopied !== true || log === undefined) {
      return { no_changes: true, ...checkpoints?.sourceLog };
    }
    const { earlier_checkpoints, ...shown } = log;
    return shown;
  }
}

/**
 * One run of a replication: from the common checkpoint to the end of the changes, or until it is stopped.
 *
 *   changes → pipeline (`changes-pipeline.ts`) → through sequence → checkpoints (`checkpoint-writer.ts`)
 *
 * It does not know jobs: the queue's job (`replication-job.ts`) and the command line both use it. All its work ends
 * with its signal. A requested stop is answered with a last checkpoint.
 */
import { allTogether, errorCode, inSpan, OperationalError, runTogether } from "../../base/index.ts";
import type { BatchObserver } from "../copying/batch-outcome.ts";
import { BatchCopier } from "../copying/copy-batch.ts";
import type { SourceSequence, StartTimes } from "../endpoints/endpoint.ts";
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
import { CheckpointWriter, type CheckpointWriterParts } from "./checkpoint-writer.ts";
import type { Checkpoints } from "./checkpoints.ts";
import { EarlyChanges } from "./early-changes.ts";
import { LagMeter } from "./lag-meter.ts";
import { openSides } from "./open-sides.ts";
import { findParked, isPlaceLost } from "./parked-place.ts";
import { recordedStatistics } from "./replication-log.ts";
import { retryFailures } from "./retry-failures.ts";
import { isSameSecurity } from "./same-security.ts";
import { ThroughSequence } from "./through-sequence.ts";

/** How long the last checkpoint of a stopped run may take. */
export const LAST_CHECKPOINT_MS_MAX = 5000;

/** When a run that ends by itself begins with what goes on beside the copying. */
const BESIDE_MS = 1000;

/** The reason to abort a run with when it shall stop in good order. Any other reason ends it at once, without a checkpoint. */
export class StopRequest extends OperationalError {
  override readonly name = "StopRequest";

  constructor() {
    super("REPLICATOR_STOPPED", "The replication was asked to stop");
  }
}

/** Why signals abort at the end of a run. Made once: the error that `abort` makes by itself takes longer than all else that it does. */
const OVER = new Error("The run is over");

export interface ReplicationRunParts extends CheckpointWriterParts {
  readonly ids: Pick<ReplicationId, "id" | "baseId" | "olderBaseIds">;
  readonly failures: RunFailures;
  readonly secrets: BatchObserver["secrets"];
  readonly copyLimits: CopyLimits;
  /** Where the run begins, if not at the common checkpoint. */
  readonly restartAt?: { readonly sequence: SourceSequence } | undefined;
  /** Where the last checkpoint was written, as far as the job knows: the run likely begins there. Absent: nobody knows of one. */
  readonly expectedAt?: SourceSequence;
  /** A continuous replication ends as well once it has what the source had when it was asked; absent: it goes on. */
  readonly endsCaughtUp?: boolean;
  /** Called when both sides have answered, before anything is copied; absent: nothing is in the way. */
  readonly mayCopy?: () => Promise<void>;
  /** Whether the job created the target; absent: whoever started the run answers for the security object. */
  readonly targetOrigin?: TargetOrigin;
  /** Counts since when changes have been known that have not arrived; absent: nobody asks. */
  readonly lag?: LagMeter;
}

/** Memory of a job that only changes the security object of a target that it created. */
export interface TargetOrigin {
  readonly isCreatedHere: boolean;
  note(isCreatedHere: boolean): Promise<void>;
}

/** Where a run is; sequences are the source's. */
export interface ReplicationProgress {
  readonly statistics: ReplicationStatistics;
  readonly checkpointedSequence: SourceSequence;
  readonly throughSequence: SourceSequence;
  readonly highestSequence: SourceSequence;
}

/** How a run ended. `result` is what `_replicate` answers. */
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
  /** Where the run likely begins; undefined: nobody knows, or it was found not to. */
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

  /** Whether the common checkpoint is found, so that the progress says something. */
  get hasBegun(): boolean {
    return this.#begun;
  }

  /** Whether this run wrote a checkpoint. */
  get hasCheckpoint(): boolean {
    return this.#checkpoints.log !== undefined;
  }

  /** Whether changes were taken from the feed and are not done with. */
  get hasWork(): boolean {
    return this.#sequence.hasOpen;
  }

  /** When the feed delivered something last, or began, on the monotonic clock; undefined: it has not begun. */
  get quietSinceMs(): number | undefined {
    return this.#pipeline?.quietSinceMs;
  }

  /** When both databases were made; undefined: they are not found yet. */
  get startTimes(): StartTimes | undefined {
    return this.#startTimes;
  }

  /** What this run alone has done. */
  get ownStatistics(): ReplicationStatistics {
    return statisticsSince(this.#statisticsBefore, this.#statistics);
  }

  /** Why the last checkpoint of a run that was stopped was not written; undefined: it was. */
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
   * Runs to the end, and retries failures on request meanwhile. Rejects with the first failure, or with the signal's reason unless that
   * is a StopRequest.
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
   * Goes on at once where the run before parked, and both sides have to have its checkpoint when the next one is written. False:
   * there is no such place, or the databases are others by now; what was written is there, and all is to be looked at again.
   */
  async #runFromParked(signal: AbortSignal): Promise<boolean> {
    const { parkedAt, endsCaughtUp, restartAt, ownCheckpoint } = this.#parts;
    if (parkedAt === undefined || endsCaughtUp !== true || restartAt !== undefined) return false;
    // A source that may not be written has no checkpoint that would tell whether it is the one that it was.
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
    // Not the job's own figures: what it did after its last checkpoint is done, and counted, once more.
    const isRestart = this.#parts.restartAt !== undefined;
    const statistics = isRestart ? this.#statistics : recordedStatistics(history);
    this.#begin(this.#startAfter(sequence), found, statistics);
    this.#startTimes = found.startTimes;
    await this.#copyToEnd(signal);
  }

  /** Copies, and writes checkpoints meanwhile and at the end. */
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

  /** Settles when it is time to begin with what goes on beside the copying: a run that ends by itself is mostly over before. */
  async #undisturbed(copied: AbortSignal): Promise<void> {
    const { runtime, replication, endsCaughtUp = false } = this.#parts;
    if (replication.continuous && !endsCaughtUp) return;
    const beginMs = Math.min(BESIDE_MS, replication.options.checkpointIntervalMs);
    await runtime.clock.sleep(beginMs, copied).catch(() => {});
  }

  /** Goes on where the run before parked, if both sides still have its checkpoint. Undefined: they have to be asked. */
  async #resume(signal: AbortSignal): Promise<Checkpoints | undefined> {
    const { parkedAt, endsCaughtUp } = this.#parts;
    // One that ends caught up has tried it without asking, or its source has a checkpoint of ours alone.
    if (parkedAt === undefined || endsCaughtUp === true) return undefined;
    await this.#changes.begin(this.#startAfter(parkedAt.sequence), signal);
    const ownCopy = await this.#parts.ownCheckpoint.read();
    const found = await findParked(this.#parts, parkedAt, ownCopy, signal);
    if (found !== undefined) await this.copySecurity(signal);
    return found;
  }

  /** Asks both sides what they are, and what they remember of the replication; and the source for its changes meanwhile. */
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

  /** Where the run begins if both sides agree on `common`. */
  #startAfter(common: SourceSequence): SourceSequence {
    const { restartAt, replication } = this.#parts;
    if (restartAt !== undefined) return restartAt.sequence;
    return common === 0 ? (replication.sinceSequence ?? 0) : common;
  }

  /**
   * Gives the target the security object of the source if the replication asks for that and the target was created for it, or may be
   * overwritten. Before the first document: readers of the target must not see what the source keeps from them.
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
  }

  /**
   * Begins with what earlier runs passed and did not bring over, if their checkpoint says that there is something and the list of
   * failures does not hold it: goes through the changes up to the checkpoint once more, and the target says what it lacks.
   */
  async #lookBack(batchCopier: BatchCopier, signal: AbortSignal): Promise<void> {
    const { failures, restartAt } = this.#parts;
    const { checkpoints } = this.#checkpoints;
    // A run that goes on where another parked asks for them in the end.
    if (checkpoints === undefined || restartAt !== undefined) return;
    const { ancestry, passedFailures } = checkpoints;
    if (!passedFailures || ancestry.sequence === 0) return;
    if (await failures.isWhole()) return;
    // A feed that nobody reads for so long would break.
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
    const checkpoint = JSON.stringify(sequence);
    for await (const items of source.changes(request, signal)) {
      const changes = items.flatMap((item) => (item.kind === "change" ? [item.change] : []));
      const { workerBatchSize } = replication.options;
      for (let start = 0; start < changes.length; start += workerBatchSize) {
        await batchCopier.tryOnce(changes.slice(start, start + workerBatchSize), signal);
      }
      if (changes.some(({ sequence }) => JSON.stringify(sequence) === checkpoint)) return;
    }
  }

  /** Has the pipeline copy what the source's feed brings. */
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
        lacksAll: this.#isTargetEmpty,
      },
      {
        count: (more) => {
          this.#statistics = addStatistics(this.#statistics, more);
        },
        failures,
        secrets,
        allowBatches: (reading, writing) => this.#pipeline?.allowBatches(reading, writing),
      },
    );
  }

  async #retryWhenAsked(
    batchCopier: BatchCopier,
    copied: AbortSignal,
    signal: AbortSignal,
  ): Promise<void> {
    const { failures, endsCaughtUp = false } = this.#parts;
    // Soon over: then the job is due again for the request.
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
    // Counted from the last try, in whichever run that was: a job that takes turns may have runs that are shorter than the interval.
    const waitedMs = clock.nowMs() - (failures.waitsSinceMs ?? clock.nowMs());
    let pauseMs = Math.min(intervalMs, Math.max(0, intervalMs - waitedMs));
    while (intervalMs > 0 && !copied.aborted) {
      await clock.sleep(pauseMs, copied).catch(() => {});
      pauseMs = intervalMs;
      if (!copied.aborted) await retryFailures(batchCopier, failures, SCHEDULED_RETRY, signal);
    }
  }

  /** The run is over either way; a checkpoint that fails now costs only that some changes are looked at again. */
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

function isStopRequest(error: unknown): boolean {
  return errorCode(error) === "REPLICATOR_STOPPED";
}

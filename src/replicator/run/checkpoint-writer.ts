/**
 * The checkpoints of one run: when they are written, and what they say. A run that found both logs at its start writes over them
 * (`checkpoints.ts`); one that went on where the run before had parked finds out with its first checkpoint whether it may
 * (`continue-logs.ts`).
 */
import { type Runtime, randomHex } from "../../base/index.ts";
import { type Endpoint, isSameSequence, type SourceSequence } from "../endpoints/endpoint.ts";
import type { RunFailures } from "../failures/run-failures.ts";
import type { ReplicationStatistics } from "../jobs/replication-statistics.ts";
import type { Replication } from "../request/replication.ts";
import type { ReplicationId } from "../request/replication-id.ts";
import type { Checkpoints } from "./checkpoints.ts";
import { continueLogs } from "./continue-logs.ts";
import { earlierCheckpoints } from "./earlier-checkpoints.ts";
import type { OwnCheckpointStore } from "./own-checkpoint.ts";
import {
  findAtBeginning,
  findParked,
  type ParkedPlace,
  ParkedPlaceLostError,
} from "./parked-place.ts";
import { nextLog, type ReplicationLog, type ReplicationLogEntry } from "./replication-log.ts";

/**
 * In a run so short a server's answers alone say that its database is the one that it was, and has what was written: the checkpoint
 * that it had is read again after the last document (decision 250).
 */
const SHORT_RUN_MS_MAX = 10_000;

export interface CheckpointWriterParts {
  readonly runtime: Runtime;
  readonly source: Endpoint;
  readonly target: Endpoint;
  readonly replication: Replication;
  readonly ids: Pick<ReplicationId, "baseId">;
  /** Called before checkpoints are written: throws when the run has lost the right to. */
  readonly mayWrite: () => Promise<void>;
  readonly failures: Pick<RunFailures, "isWhole">;
  readonly ownCheckpoint: OwnCheckpointStore;
  /** Where the run before parked the job; absent: it did not, or both sides are to be asked again. */
  readonly parkedAt?: ParkedPlace | undefined;
}

/** How far a run has come. */
export interface ReachedPlace {
  readonly through: SourceSequence;
  readonly statistics: ReplicationStatistics;
}

export class CheckpointWriter {
  readonly #parts: CheckpointWriterParts;
  readonly #reached: () => ReachedPlace;
  #sessionId: string;
  readonly #startTimeMs: number;
  /** On the monotonic clock. */
  readonly #begunAtMs: number;
  /** Where the run began. */
  #start: SourceSequence = 0;
  #committed: SourceSequence = 0;
  #log: ReplicationLog | undefined;
  /** What both sides remember; undefined: they have not been asked yet. */
  #checkpoints: Checkpoints | undefined;

  constructor(parts: CheckpointWriterParts, reached: () => ReachedPlace) {
    const { random, clock } = parts.runtime;
    this.#parts = parts;
    this.#reached = reached;
    this.#sessionId = randomHex(random);
    this.#startTimeMs = clock.nowMs();
    this.#begunAtMs = clock.monotonicMs();
  }

  /** Where the last checkpoint is: the run's own, or the one that it began with. */
  get committed(): SourceSequence {
    return this.#committed;
  }

  /** What this run wrote last, perhaps without the history that a side has put behind it; undefined: nothing yet. */
  get log(): ReplicationLog | undefined {
    return this.#log;
  }

  /** What both sides were found to remember; undefined: they have not been asked. */
  get checkpoints(): Checkpoints | undefined {
    return this.#checkpoints;
  }

  /** The run begins again. One side may have what it wrote, and the other be another database: it is a session of its own from now on. */
  startOver(): void {
    this.#sessionId = randomHex(this.#parts.runtime.random);
    this.#log = undefined;
  }

  /** The run begins at `start`. `checkpoints`: what both sides remember; undefined: it goes on where the one before parked. */
  begin(start: SourceSequence, checkpoints: Checkpoints | undefined): void {
    this.#start = start;
    this.#committed = start;
    this.#checkpoints = checkpoints;
  }

  /**
   * Records the through sequence on both sides, when it moved. A run that goes on where another parked finds out whether it may: rejects
   * with a ParkedPlaceLostError when it may not.
   */
  async write(signal: AbortSignal): Promise<void> {
    const { replication, parkedAt } = this.#parts;
    const { through } = this.#reached();
    const isDue = replication.options.useCheckpoints && through !== this.#committed;
    // What was written last tells that the databases are those that they were.
    if (!isDue && this.#log !== undefined) return;
    if (isDue && this.#checkpoints === undefined && parkedAt !== undefined) {
      return this.#continueLogs(parkedAt, through, signal);
    }
    this.#checkpoints ??= await this.#askParked(signal);
    if (!isDue) return;
    const log = this.#nextLog(through, this.#checkpoints.ancestry.history);
    await this.#parts.mayWrite();
    await this.#checkpoints.write(log, signal, { isShort: this.#isShort });
    this.#recorded(log, through);
  }

  /** Writes at the intervals of the replication, until `copied` is aborted. */
  async writeRegularly(copied: AbortSignal, signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#parts.runtime;
    const intervalMs = this.#parts.replication.options.checkpointIntervalMs;
    while (!copied.aborted) {
      // 75 to 100 % of the interval, so that jobs started together do not write together.
      await clock.sleep(intervalMs * (0.75 + random.ratio() / 4), copied).catch(() => {});
      signal.throwIfAborted();
      if (!copied.aborted) await this.write(signal);
    }
  }

  /** Records the through sequence on both sides, if they are the databases of the run that parked there. */
  async #continueLogs(
    parkedAt: ParkedPlace,
    through: SourceSequence,
    signal: AbortSignal,
  ): Promise<void> {
    await this.#checkAllSeen(parkedAt);
    const log = this.#nextLog(through, []);
    await this.#parts.mayWrite();
    const isBeginning = this.#isBeginning(parkedAt);
    const options = { startTimes: parkedAt.startTimes, isBeginning, isShort: this.#isShort };
    await continueLogs(this.#parts, log, options, signal);
    this.#recorded(log, through);
  }

  /** Throws a ParkedPlaceLostError when the run may not go on where the one before parked. */
  async #askParked(signal: AbortSignal): Promise<Checkpoints> {
    const { parkedAt } = this.#parts;
    if (parkedAt === undefined) throw new ParkedPlaceLostError();
    const found = this.#isBeginning(parkedAt)
      ? await findAtBeginning(this.#parts, parkedAt, signal)
      : await findParked(this.#parts, parkedAt, undefined, signal);
    if (found === undefined) throw new ParkedPlaceLostError();
    await this.#checkAllSeen(parkedAt);
    return found;
  }

  /** Whether the run before parked where one begins that knows of no checkpoint. */
  #isBeginning({ sequence }: ParkedPlace): boolean {
    return isSameSequence(sequence, this.#parts.replication.sinceSequence ?? 0);
  }

  /** Throws a ParkedPlaceLostError when earlier runs have passed what is not listed: the next one looks back. */
  async #checkAllSeen({ statistics }: ParkedPlace): Promise<void> {
    if (statistics.docWriteFailures === 0 || (await this.#parts.failures.isWhole())) return;
    throw new ParkedPlaceLostError();
  }

  get #isShort(): boolean {
    return this.#parts.runtime.clock.monotonicMs() - this.#begunAtMs < SHORT_RUN_MS_MAX;
  }

  /** That of this run, with the histories of `earlier` ones behind it. */
  #nextLog(through: SourceSequence, earlier: readonly ReplicationLogEntry[]): ReplicationLog {
    const { runtime, replication } = this.#parts;
    return nextLog({
      sessionId: this.#sessionId,
      startTimeMs: this.#startTimeMs,
      nowMs: runtime.clock.nowMs(),
      startSequence: this.#start,
      throughSequence: through,
      earlierCheckpoints:
        this.#log === undefined
          ? []
          : earlierCheckpoints(this.#committed, this.#log.earlier_checkpoints ?? []),
      statistics: this.#reached().statistics,
      earlier,
      byDocumentIds: replication.selection.kind === "doc-ids",
    });
  }

  #recorded(log: ReplicationLog, through: SourceSequence): void {
    const { runtime, source } = this.#parts;
    this.#log = log;
    this.#committed = through;
    runtime.trace.event("replication.checkpoint", { source: source.shownUrl });
  }
}

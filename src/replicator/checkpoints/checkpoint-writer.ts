/**
 * Writes the checkpoints of a run. Usually, the run has read the logs of both sides at its start,
 * and each checkpoint replaces these logs (`checkpoints.ts`). A run that resumes a parked job has
 * not read the logs; its first checkpoint verifies them (`continue-logs.ts`).
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
 * Maximum duration of a short run. Before a short run writes a checkpoint, it reads the old
 * checkpoint instead of requesting a commit. If the old checkpoint still exists, the database was
 * not re-created and contains the documents written.
 */
const SHORT_RUN_MS_MAX = 10_000;

export interface CheckpointWriterParts {
  readonly runtime: Runtime;
  readonly source: Endpoint;
  readonly target: Endpoint;
  readonly replication: Replication;
  readonly ids: Pick<ReplicationId, "baseId">;
  /** Called before checkpoints are written. Throws if the run has lost the permission to write. */
  readonly mayWrite: () => Promise<void>;
  readonly failures: Pick<RunFailures, "isWhole">;
  readonly ownCheckpoint: OwnCheckpointStore;
  /**
   * Position at which the job was parked. Undefined if the job was not parked, or if the run must
   * read the logs of both sides.
   */
  readonly parkedAt?: ParkedPlace | undefined;
}

/** Through sequence and statistics of a run. */
export interface ReachedPlace {
  readonly through: SourceSequence;
  readonly statistics: ReplicationStatistics;
}

export class CheckpointWriter {
  readonly #parts: CheckpointWriterParts;
  readonly #reached: () => ReachedPlace;
  #sessionId: string;
  readonly #startTimeMs: number;
  /** Monotonic time of the start of the run. */
  readonly #begunAtMs: number;
  /** Sequence at which the run starts. */
  #start: SourceSequence = 0;
  #committed: SourceSequence = 0;
  #log: ReplicationLog | undefined;
  /** Logs of both sides; undefined if not yet read. */
  #checkpoints: Checkpoints | undefined;

  constructor(parts: CheckpointWriterParts, reached: () => ReachedPlace) {
    const { random, clock } = parts.runtime;
    this.#parts = parts;
    this.#reached = reached;
    this.#sessionId = randomHex(random);
    this.#startTimeMs = clock.nowMs();
    this.#begunAtMs = clock.monotonicMs();
  }

  /**
   * Sequence of the last checkpoint that this run wrote; before the first checkpoint, the sequence
   * at which the run started.
   */
  get committed(): SourceSequence {
    return this.#committed;
  }

  /**
   * The last log that this run wrote, if any. The log stored on an endpoint can also contain the
   * history of earlier runs.
   */
  get log(): ReplicationLog | undefined {
    return this.#log;
  }

  /** Logs found on both sides; undefined if not yet read. */
  get checkpoints(): Checkpoints | undefined {
    return this.#checkpoints;
  }

  /**
   * Starts a new session. The session id of a failed attempt must not be used again, because the
   * log of that attempt might have been written to one side only.
   */
  startOver(): void {
    this.#sessionId = randomHex(this.#parts.runtime.random);
    this.#log = undefined;
  }

  /**
   * Sets the start sequence of the run. `checkpoints` is undefined if the run resumes a parked job.
   */
  begin(start: SourceSequence, checkpoints: Checkpoints | undefined): void {
    this.#start = start;
    this.#committed = start;
    this.#checkpoints = checkpoints;
  }

  /**
   * If the through sequence has advanced, writes it as a checkpoint to both sides (`through_seq`).
   * If the run resumes a parked job and the databases have changed, rejects with a
   * ParkedPlaceLostError.
   */
  async write(signal: AbortSignal): Promise<void> {
    const { replication, parkedAt } = this.#parts;
    const { through } = this.#reached();
    const isDue = replication.options.useCheckpoints && through !== this.#committed;
    // There is nothing to write or verify: the last write of a checkpoint has verified the
    // databases.
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

  /** Writes checkpoints at the replication's interval until `copied` aborts. */
  async writeRegularly(copied: AbortSignal, signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#parts.runtime;
    const intervalMs = this.#parts.replication.options.checkpointIntervalMs;
    while (!copied.aborted) {
      // Sleep for 75 to 100 % of the interval, so that jobs started together spread out.
      await clock.sleep(intervalMs * (0.75 + random.ratio() / 4), copied).catch(() => {});
      signal.throwIfAborted();
      if (!copied.aborted) await this.write(signal);
    }
  }

  /**
   * Writes the through sequence to the logs of both sides, if neither log has changed since the job
   * was parked.
   */
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

  /**
   * Reads both sides' logs of the parked job. Throws a ParkedPlaceLostError if the run must not
   * resume at the parked position.
   */
  async #askParked(signal: AbortSignal): Promise<Checkpoints> {
    const { parkedAt } = this.#parts;
    if (parkedAt === undefined) throw new ParkedPlaceLostError();
    const found = this.#isBeginning(parkedAt)
      ? await findAtBeginning(this.#parts, parkedAt, signal)
      : await findParked(this.#parts, parkedAt, signal);
    if (found === undefined) throw new ParkedPlaceLostError();
    await this.#checkAllSeen(parkedAt);
    return found;
  }

  /**
   * Whether the job was parked at the start sequence of the replication, that is, before its first
   * checkpoint.
   */
  #isBeginning({ sequence }: ParkedPlace): boolean {
    return isSameSequence(sequence, this.#parts.replication.sinceSequence ?? 0);
  }

  /**
   * Throws a ParkedPlaceLostError if earlier runs skipped failed documents that are not on the list
   * of failures.
   */
  async #checkAllSeen({ statistics }: ParkedPlace): Promise<void> {
    if (statistics.docWriteFailures === 0 || (await this.#parts.failures.isWhole())) return;
    throw new ParkedPlaceLostError();
  }

  get #isShort(): boolean {
    return this.#parts.runtime.clock.monotonicMs() - this.#begunAtMs < SHORT_RUN_MS_MAX;
  }

  /** Creates the log of this run, followed by the history `earlier`. */
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

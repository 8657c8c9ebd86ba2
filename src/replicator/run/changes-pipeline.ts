/**
 * Takes the changes of a feed in batches, and has them copied in several at the same time:
 *
 *   changes reader → bounded queue → copiers (missing revisions, read, write) → through sequence
 */
import { BoundedQueue, type Clock, Lanes, runTogether } from "../../base/index.ts";
import type { BatchObserver } from "../copying/batch-outcome.ts";
import type { BatchCopier } from "../copying/copy-batch.ts";
import {
  type ChangedDocument,
  type ChangesItem,
  repeatsCredential,
} from "../endpoints/endpoint.ts";
import type { Replication } from "../request/replication.ts";
import type { LagMeter } from "./lag-meter.ts";
import { changeCount, readChanges } from "./read-changes.ts";
import type { ThroughSequence } from "./through-sequence.ts";

/** Bytes of changes that are queued for each copier; CouchDB's figure. */
const QUEUE_BYTES_PER_COPIER = 102_400;
/**
 * Whether batches are read while as many others are written. Our own store answers too fast for that to pay: what may be written bounds
 * the batches of a source that is near.
 */
const READS_AHEAD = { http: true, local: false };

export function readsAhead({ source }: Pick<Replication, "source">): boolean {
  return READS_AHEAD[source.kind];
}

export interface ChangesPipelineParts {
  readonly clock: Clock;
  readonly replication: Replication;
  readonly batchCopier: BatchCopier;
  /** Told of each batch when it is handed out, and when it is done. */
  readonly sequence: ThroughSequence;
  /** Told of changes when they are read, and when they have arrived. */
  readonly lag: LagMeter;
  readonly secrets: BatchObserver["secrets"];
}

export class ChangesPipeline {
  readonly #parts: ChangesPipelineParts;
  readonly #queue: BoundedQueue<ChangesItem>;
  readonly #copiers: Lanes;
  #quietSinceMs: number | undefined;
  #hasCopied = false;

  constructor(parts: ChangesPipelineParts) {
    this.#parts = parts;
    const { workerBatchSize, workerProcesses } = parts.replication.options;
    this.#queue = new BoundedQueue({
      itemCountMax: workerBatchSize * workerProcesses * 2,
      weightMax: QUEUE_BYTES_PER_COPIER * workerProcesses,
    });
    this.#copiers = new Lanes(
      this.#batchCount(workerProcesses, workerProcesses),
      this.#copyNext.bind(this),
    );
  }

  /** When the feed delivered something last, or began, on the monotonic clock; undefined: it has not begun. */
  get quietSinceMs(): number | undefined {
    return this.#quietSinceMs;
  }

  /** Whether it has copied a batch with changes. */
  get hasCopied(): boolean {
    return this.#hasCopied;
  }

  /** So many batches may be read, and so many written, at the same time from now on. */
  allowBatches(reading: number, writing: number): void {
    this.#copiers.resize(this.#batchCount(reading, writing));
  }

  #batchCount(reading: number, writing: number): number {
    const { replication } = this.#parts;
    return reading + writing - (readsAhead(replication) ? 0 : replication.options.workerProcesses);
  }

  /** Resolves when the feed has ended and all of it is copied. Called once. */
  async run(
    feed: (signal: AbortSignal) => AsyncIterable<readonly ChangesItem[]>,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, lag } = this.#parts;
    this.#quietSinceMs = clock.monotonicMs();
    const onRead = (count: number): void => {
      this.#quietSinceMs = clock.monotonicMs();
      lag.read(count, clock.nowMs());
    };
    await runTogether(signal, [
      (readerSignal) => readChanges(feed(readerSignal), this.#queue, onRead, readerSignal),
      (copierSignal) => this.#copiers.run(copierSignal),
    ]);
  }

  async #copyNext(signal: AbortSignal): Promise<boolean> {
    try {
      return await this.#copyBatch(signal);
    } catch (error) {
      // Ends those that wait for a batch, too: the feed of a continuous job may be silent for long.
      this.#queue.fail(error);
      throw error;
    }
  }

  /** Copies a batch; false: the feed has ended, and all of it is copied or being copied. */
  async #copyBatch(signal: AbortSignal): Promise<boolean> {
    const { replication, batchCopier, sequence, lag, secrets } = this.#parts;
    const { workerBatchSize } = replication.options;
    let number = 0;
    // The batch is numbered as it leaves the queue, so that numbers are in the order of the feed.
    const items = await this.#queue.takeUpTo(workerBatchSize, (batch) => {
      const last = batch.at(-1) as ChangesItem;
      const end = last.kind === "change" ? last.change.sequence : last.sequence;
      // From here on it is stored and shown.
      if (secrets.isRepeatedIn(end)) throw repeatsCredential("a sequence");
      number = sequence.start(end, changeCount(batch));
    });
    if (items === undefined) return false;
    const changes: ChangedDocument[] = [];
    for (const item of items) if (item.kind === "change") changes.push(item.change);
    await batchCopier.copy(changes, signal);
    if (changes.length > 0) this.#hasCopied = true;
    lag.arrived(sequence.finish(number));
    return true;
  }
}

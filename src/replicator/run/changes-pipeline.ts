/**
 * Reads the changes of a feed into a queue, and copies them in concurrent batches:
 *
 * changes reader → bounded queue → copiers (missing revisions, read, write) → through sequence
 */
import { BoundedQueue, type Clock, runInTurns, runTogether } from "../../base/index.ts";
import type { ThroughSequence } from "../checkpoints/through-sequence.ts";
import type { BatchObserver } from "../copying/batch-outcome.ts";
import type { BatchCopier } from "../copying/copy-batch.ts";
import { type ChangesItem, isChange, repeatsCredential } from "../endpoints/endpoint.ts";
import type { Replication } from "../request/replication.ts";
import type { LagMeter } from "./lag-meter.ts";
import { changeCount, readChanges } from "./read-changes.ts";

/** Maximum size of the queued changes, in bytes per copier, as in CouchDB. */
const QUEUE_BYTES_PER_COPIER = 102_400;
/**
 * Whether batches are read while others are written, by kind of source. This is not worthwhile for
 * our own store, because its reads are fast.
 */
const READS_AHEAD = { http: true, local: false };

export function readsAhead({ source }: Pick<Replication, "source">): boolean {
  return READS_AHEAD[source.kind];
}

export interface ChangesPipelineParts {
  readonly clock: Clock;
  readonly replication: Replication;
  readonly batchCopier: BatchCopier;
  /** Sequence up to which all batches are finished; updated when a batch starts or finishes. */
  readonly sequence: ThroughSequence;
  /** Lag of the run; updated when changes are read, and when they arrive at the target. */
  readonly lag: LagMeter;
  readonly secrets: BatchObserver["secrets"];
  /** Called when a batch has finished. */
  readonly onBatch?: (() => void) | undefined;
}

export class ChangesPipeline {
  readonly #parts: ChangesPipelineParts;
  readonly #queue: BoundedQueue<ChangesItem>;
  #quietSinceMs: number | undefined;
  #hasCopied = false;

  constructor(parts: ChangesPipelineParts) {
    this.#parts = parts;
    const { workerBatchSize, workerProcesses } = parts.replication.options;
    this.#queue = new BoundedQueue({
      itemCountMax: workerBatchSize * workerProcesses * 2,
      weightMax: QUEUE_BYTES_PER_COPIER * workerProcesses,
    });
  }

  /**
   * Monotonic time (ms) at which the feed last delivered something or, before its first delivery,
   * at which it began; undefined before it begins.
   */
  get quietSinceMs(): number | undefined {
    return this.#quietSinceMs;
  }

  /** Whether a batch with changes has been copied. */
  get hasCopied(): boolean {
    return this.#hasCopied;
  }

  /** Copies the whole feed. Must be called only once. */
  async run(
    feed: (signal: AbortSignal) => AsyncIterable<readonly ChangesItem[]>,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, lag, batchCopier } = this.#parts;
    const { batches } = batchCopier.governor;
    this.#quietSinceMs = clock.monotonicMs();
    const onRead = (count: number): void => {
      this.#quietSinceMs = clock.monotonicMs();
      lag.read(count, clock.nowMs());
    };
    await runTogether(signal, [
      (readerSignal) => readChanges(feed(readerSignal), this.#queue, onRead, readerSignal),
      (copierSignal) => runInTurns(copierSignal, batches, () => this.#nextBatch()),
    ]);
  }

  /** Returns a function that copies the next batch; undefined if the feed has ended. */
  async #nextBatch(): Promise<((signal: AbortSignal) => Promise<void>) | undefined> {
    const { replication, sequence, secrets } = this.#parts;
    let number = 0;
    // The batch is numbered when it leaves the queue, so that numbers follow the order of the feed.
    const items = await this.#queue.takeUpTo(replication.options.workerBatchSize, (batch) => {
      const end = batch.at(-1)?.sequence;
      // Reject a sequence that repeats a credential, before it is stored and displayed.
      if (secrets.isRepeatedIn(end)) throw repeatsCredential("a sequence");
      number = sequence.start(end, changeCount(batch));
    });
    return items && ((signal) => this.#copyBatch(items, number, signal));
  }

  async #copyBatch(
    items: readonly ChangesItem[],
    number: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { batchCopier, sequence, lag, onBatch } = this.#parts;
    const changes = items.filter(isChange);
    try {
      await batchCopier.copy(changes, signal);
    } catch (error) {
      // End the wait for the next batch, because a continuous feed can be idle for a long time.
      this.#queue.fail(error);
      throw error;
    }
    if (changes.length > 0) this.#hasCopied = true;
    lag.arrived(sequence.finish(number));
    onBatch?.();
  }
}

/**
 * Copies individually transferred documents concurrently, across all batches of a job: up to
 * `http_connections` for nearby servers, and more for distant ones, so that a distant server
 * processes as many at a time as a nearby one (`stage-pace.ts`).
 *
 * Each copy in progress holds the text of its document, and attachment data in the buffers of two
 * connections. The total is bounded.
 */
import { forEachConcurrent, type Runtime, Semaphore } from "../../base/index.ts";
import type { ReplicationOptions } from "../../contract/index.ts";
import type { Endpoint, RevisionRequest } from "../endpoints/endpoint.ts";
import type { BatchOutcome } from "./batch-outcome.ts";
import type { BulkWriter } from "./bulk-writer.ts";
import { ByteRoom } from "./byte-room.ts";
import type { IsolatedCopy } from "./isolated-copy.ts";
import { StagePace } from "./stage-pace.ts";

/** Total size of the socket buffers of source and target, per document in progress. */
const STREAM_BYTES = 256 * 1024;
/** Memory budget: enough for 160 short documents, or 128 documents with 64 KiB of text each. */
const ROOM_BYTES = 40 * 1024 * 1024;
/** Factor by which the estimated text length decreases with each shorter document. */
const LENGTH_DECAY = 0.98;

export interface IsolatedCopyStageParts {
  readonly runtime: Pick<Runtime, "clock">;
  readonly source: Pick<Endpoint, "roundTripMs">;
  readonly target: Pick<Endpoint, "roundTripMs">;
  readonly options: ReplicationOptions;
  readonly copier: Pick<IsolatedCopy, "copy">;
}

export class IsolatedCopyStage {
  readonly #parts: IsolatedCopyStageParts;
  readonly #countMax: number;
  readonly #pace: StagePace;
  readonly #turns: Semaphore;
  readonly #room = new ByteRoom(ROOM_BYTES);
  /** Estimated length of a document's text, close to the longest one copied so far. */
  #textLength = 0;
  /** Earliest start of the next document (monotonic ms). */
  #nextStartMs = 0;

  constructor(parts: IsolatedCopyStageParts) {
    this.#parts = parts;
    const { httpConnections: nearCount, httpConnectionsMax } = parts.options;
    this.#countMax = Math.max(nearCount, httpConnectionsMax);
    this.#pace = new StagePace({ nearCount, countMax: this.#countMax });
    this.#turns = new Semaphore(this.#pace.count);
  }

  /**
   * Copies the documents. Those that turn out to be suitable for bulk writing are added to
   * `writer`.
   */
  copy(
    requests: readonly RevisionRequest[],
    writer: BulkWriter,
    outcome: BatchOutcome,
    signal: AbortSignal,
  ): Promise<void> {
    return forEachConcurrent(requests, this.#countMax, (request) =>
      this.#turns.run(() => this.#copyOne(request, writer, outcome, signal)),
    );
  }

  async #copyOne(
    request: RevisionRequest,
    writer: BulkWriter,
    outcome: BatchOutcome,
    signal: AbortSignal,
  ): Promise<void> {
    const { runtime, copier } = this.#parts;
    const { clock } = runtime;
    const held = await this.#room.take(STREAM_BYTES + this.#textLength);
    try {
      await this.#space(signal);
      const beganMs = clock.monotonicMs();
      await copier.copy(request, writer, outcome, signal, (length) => {
        this.#textLength = Math.max(length, LENGTH_DECAY * this.#textLength);
        held.resize(STREAM_BYTES + length);
      });
      this.#pace.answered(clock.monotonicMs() - beganMs, this.#roundTripsMs);
      this.#turns.resize(this.#pace.count);
    } finally {
      held.release();
    }
  }

  /** Waits for the minimum spacing between two documents. */
  async #space(signal: AbortSignal): Promise<void> {
    const { spacingMs } = this.#pace;
    if (spacingMs === 0) return;
    const { clock } = this.#parts.runtime;
    const nowMs = clock.monotonicMs();
    const startMs = Math.max(nowMs, this.#nextStartMs);
    this.#nextStartMs = startMs + spacingMs;
    if (startMs > nowMs) await clock.sleep(startMs - nowMs, signal);
  }

  /**
   * Copying a document takes one round trip to each side: writing starts as soon as the source
   * begins to respond.
   */
  get #roundTripsMs(): number {
    const { source, target } = this.#parts;
    return (source.roundTripMs ?? 0) + (target.roundTripMs ?? 0);
  }
}

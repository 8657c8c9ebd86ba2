/**
 * Copies documents individually and concurrently, across all batches of a job. For nearby servers,
 * the maximum number of concurrent copies is `http_connections`. For distant servers, it is higher,
 * because some of these copies are in transit: a distant server then processes as many documents at
 * a time as a nearby one (`stage-pace.ts`).
 *
 * Each copy in progress holds the text of its document, and attachment data in the buffers of two
 * connections. The total is bounded.
 */
import { forEachConcurrent } from "../../base/index.ts";
import type { Endpoint, RevisionRequest } from "../endpoints/endpoint.ts";
import type { BatchOutcome } from "./batch-outcome.ts";
import type { BulkWriter } from "./bulk-writer.ts";
import { ByteRoom } from "./byte-room.ts";
import type { Stage } from "./governor.ts";
import type { IsolatedCopy } from "./isolated-copy.ts";

/** Total size of the socket buffers of source and target, per document in progress. */
const STREAM_BYTES = 256 * 1024;
/** Memory budget: enough for 160 short documents, or 128 documents with 64 KiB of text each. */
const ROOM_BYTES = 40 * 1024 * 1024;
/** Factor by which the estimated text length is multiplied after each shorter document. */
const LENGTH_DECAY = 0.98;

export interface IsolatedCopyStageParts {
  readonly stage: Stage;
  readonly source: Pick<Endpoint, "roundTripMs">;
  readonly target: Pick<Endpoint, "roundTripMs">;
  readonly copier: Pick<IsolatedCopy, "copy">;
}

export class IsolatedCopyStage {
  readonly #parts: IsolatedCopyStageParts;
  readonly #room = new ByteRoom(ROOM_BYTES);
  /** Estimated length of a document's text, close to the longest one copied so far. */
  #textLength = 0;

  constructor(parts: IsolatedCopyStageParts) {
    this.#parts = parts;
  }

  /**
   * Copies the documents. Documents that turn out to be suitable for bulk writing are added to
   * `writer`.
   */
  copy(
    requests: readonly RevisionRequest[],
    writer: BulkWriter,
    outcome: BatchOutcome,
    signal: AbortSignal,
  ): Promise<void> {
    const { stage } = this.#parts;
    return forEachConcurrent(requests, stage.countMax, (request) =>
      stage.run(() => this.#copyOne(request, writer, outcome, signal)),
    );
  }

  async #copyOne(
    request: RevisionRequest,
    writer: BulkWriter,
    outcome: BatchOutcome,
    signal: AbortSignal,
  ): Promise<void> {
    const { stage, copier } = this.#parts;
    const held = await this.#room.take(STREAM_BYTES + this.#textLength);
    const onText = (length: number): void => {
      this.#textLength = Math.max(length, LENGTH_DECAY * this.#textLength);
      held.resize(STREAM_BYTES + length);
    };
    try {
      await stage.space(signal);
      await stage.timed(
        () => this.#roundTripsMs,
        () => copier.copy(request, writer, outcome, signal, onText),
      );
    } finally {
      held.release();
    }
  }

  /**
   * Network time of copying a document: one round trip to each side, since writing starts as soon
   * as the source begins to respond.
   */
  get #roundTripsMs(): number {
    const { source, target } = this.#parts;
    return (source.roundTripMs ?? 0) + (target.roundTripMs ?? 0);
  }
}

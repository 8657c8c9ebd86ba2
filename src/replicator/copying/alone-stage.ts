/**
 * Copies many documents that travel alone at the same time: `http_connections` of them near the servers, and as many more while a
 * server is far away as keep so many in work (`stage-pace.ts`), all batches of a job together.
 *
 * Each holds the text of its document, and of its attachments what is in the buffers of two connections; there is room for so much
 * of both.
 */
import { forEachConcurrent, type Runtime, Semaphore } from "../../base/index.ts";
import type { ReplicationOptions } from "../../contract/index.ts";
import type { Endpoint, RevisionRequest } from "../endpoints/endpoint.ts";
import type { BatchOutcome } from "./batch-outcome.ts";
import type { BulkWriter } from "./bulk-writer.ts";
import { ByteRoom } from "./byte-room.ts";
import type { LoneCopier } from "./copy-alone.ts";
import { StagePace } from "./stage-pace.ts";

/** In the buffers between the socket of the source and that of the target. */
const STREAM_BYTES = 256 * 1024;
/** Room for 160 of them with short texts, and for 128 with texts of 64 KiB. */
const ROOM_BYTES = 40 * 1024 * 1024;
/** Of the longest text what is expected of the next, a document later. */
const LENGTH_DECAY = 0.98;

export interface AloneStageParts {
  readonly runtime: Pick<Runtime, "clock">;
  readonly source: Pick<Endpoint, "roundTripMs">;
  readonly target: Pick<Endpoint, "roundTripMs">;
  readonly options: ReplicationOptions;
  readonly copier: Pick<LoneCopier, "copy">;
}

export class AloneStage {
  readonly #parts: AloneStageParts;
  readonly #countMax: number;
  readonly #pace: StagePace;
  readonly #turns: Semaphore;
  readonly #room = new ByteRoom(ROOM_BYTES);
  /** Characters of a document's text, rather too many than too few. */
  #textLength = 0;
  /** When the next one may begin, on the monotonic clock. */
  #nextStartMs = 0;

  constructor(parts: AloneStageParts) {
    this.#parts = parts;
    const { httpConnections: nearCount, httpConnectionsMax } = parts.options;
    this.#countMax = Math.max(nearCount, httpConnectionsMax);
    this.#pace = new StagePace({ nearCount, countMax: this.#countMax });
    this.#turns = new Semaphore(this.#pace.count);
  }

  /** Copies each of them. What of it travels in bulk after all is added to `writer`. */
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

  /** Lets the next one begin a little after the last. */
  async #space(signal: AbortSignal): Promise<void> {
    const { spacingMs } = this.#pace;
    if (spacingMs === 0) return;
    const { clock } = this.#parts.runtime;
    const nowMs = clock.monotonicMs();
    const startMs = Math.max(nowMs, this.#nextStartMs);
    this.#nextStartMs = startMs + spacingMs;
    if (startMs > nowMs) await clock.sleep(startMs - nowMs, signal);
  }

  /** Of one to each side: the target is sent to as soon as the source begins to answer. */
  get #roundTripsMs(): number {
    const { source, target } = this.#parts;
    return (source.roundTripMs ?? 0) + (target.roundTripMs ?? 0);
  }
}

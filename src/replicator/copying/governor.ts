/**
 * Governs the concurrency of a job's copying: the number of batches in progress, the number of
 * requests in each stage of a batch, and the bytes held between reading and writing.
 */
import { type Clock, Semaphore } from "../../base/index.ts";
import type { ReplicationOptions } from "../../contract/index.ts";
import { WRITE_BYTES_MAX } from "./bulk-writer.ts";
import { ByteRoom } from "./byte-room.ts";
import { StagePace, type StagePaceLimits } from "./stage-pace.ts";

/** Maximum total size of documents read but not yet written. */
const ROOM_BYTES_MAX = 256 * 1024 * 1024;

/** Limits for reading and writing a batch. */
export interface CopyTurns {
  readonly reading: Pick<Stage, "run">;
  readonly writing: Pick<Stage, "run">;
  /** Byte budget for documents read but not yet written. */
  readonly room: ByteRoom;
}

const UNLIMITED = { run: <T>(work: () => Promise<T>) => work() };

export class Governor {
  readonly reading: Stage;
  readonly writing: Stage;
  /** Stage for documents copied individually. */
  readonly isolated: Stage;
  /** Limits the number of batches in progress. */
  readonly batches: Semaphore;
  readonly copierTurns: CopyTurns;
  /**
   * Limits for retries. They limit only the bytes held, not the number of requests, so that retries
   * do not wait for copiers.
   */
  readonly retryTurns: CopyTurns;

  /** `readsAhead`: whether reading of the next batches overlaps with writing. */
  constructor(clock: Clock, options: ReplicationOptions, readsAhead: boolean) {
    const { workerProcesses: nearCount, workerProcessesMax: countMax } = options;
    const limits = { nearCount, countMax: Math.max(nearCount, countMax) };
    const batchCount = (): number =>
      this.reading.count + this.writing.count - (readsAhead ? 0 : nearCount);
    const onResize = (): void => this.batches.resize(batchCount());
    this.reading = new Stage(clock, limits, onResize);
    this.writing = new Stage(clock, limits, onResize);
    this.batches = new Semaphore(batchCount());
    this.isolated = new Stage(clock, {
      nearCount: options.httpConnections,
      countMax: Math.max(options.httpConnections, options.httpConnectionsMax),
    });
    const room = new ByteRoom(Math.min(batchCount() * WRITE_BYTES_MAX, ROOM_BYTES_MAX));
    const retryRoom = new ByteRoom(WRITE_BYTES_MAX);
    this.copierTurns = { reading: this.reading, writing: this.writing, room };
    this.retryTurns = { reading: UNLIMITED, writing: UNLIMITED, room: retryRoom };
  }
}

/** A stage of copying, whose concurrency follows the durations of its requests. */
export class Stage {
  readonly countMax: number;
  readonly #clock: Clock;
  readonly #pace: StagePace;
  readonly #turns: Semaphore;
  readonly #onResize: () => void;
  /** Earliest start of the next spaced request (monotonic ms). */
  #nextStartMs = 0;

  constructor(clock: Clock, limits: StagePaceLimits, onResize: () => void = () => {}) {
    this.countMax = limits.countMax;
    this.#clock = clock;
    this.#pace = new StagePace(limits);
    this.#turns = new Semaphore(this.#pace.count);
    this.#onResize = onResize;
  }

  get count(): number {
    return this.#pace.count;
  }

  run<T>(work: () => Promise<T>): Promise<T> {
    return this.#turns.run(work);
  }

  /** Sends a request, and adjusts the stage's concurrency to the request's duration. */
  async timed<T>(roundTripMs: () => number | undefined, ask: () => Promise<T>): Promise<T> {
    const beganMs = this.#clock.monotonicMs();
    try {
      return await ask();
    } finally {
      const { count } = this;
      this.#pace.answered(this.#clock.monotonicMs() - beganMs, roundTripMs());
      if (this.count !== count) {
        this.#turns.resize(this.count);
        this.#onResize();
      }
    }
  }

  /** Waits for the minimum spacing between two requests. */
  async space(signal: AbortSignal): Promise<void> {
    const { spacingMs } = this.#pace;
    if (spacingMs === 0) return;
    const nowMs = this.#clock.monotonicMs();
    const startMs = Math.max(nowMs, this.#nextStartMs);
    this.#nextStartMs = startMs + spacingMs;
    if (startMs > nowMs) await this.#clock.sleep(startMs - nowMs, signal);
  }
}

/**
 * The engine's side of the committer thread. Requests of one event-loop turn are sent together. If
 * the thread dies, the outcome of commits in progress is unknown, and a new thread is started.
 */
import { Worker } from "node:worker_threads";
import {
  type CommitRequest,
  KeyValueError,
  type StoreCommit,
  VERSIONSTAMP_BYTES,
  Versionstamp,
  writeVersionstamp,
} from "../../kv/index.ts";
import { BUILT_FILE_OPTIONS, builtFile } from "../system/built-file.ts";
import { ByteWriter } from "./byte-writer.ts";
import type { CommitterThreadData } from "./committer-thread.ts";
import type { CommitterProgress } from "./lock-wake-ups.ts";
import {
  type CommitterAnswer,
  type CommitterMessage,
  OUTCOMES,
  type Outcome,
  writeRequest,
} from "./messages.ts";

/** Initial size of the buffer for the requests of one event-loop turn. */
const OUTBOX_BYTES = 32_768;
/**
 * Size at which waiting requests are sent without waiting for the end of the event-loop turn. The
 * committer thread can then commit a batch of documents while a long turn prepares the next batch.
 */
const SENT_AT_ONCE_BYTES = 131_072;
/**
 * Maximum number of returned buffers kept for reuse: enough for two uploads or batches of
 * documents.
 */
const SPARE_COUNT_MAX = 2;
const SPARE_BYTES_MAX = 4 * 1_024 * 1_024;

/**
 * Maximum size of the thread's young generation in MiB (V8: 48). Few objects of a group survive it,
 * so more memory does not speed up the thread (`bench/large/new-jobs.mjs`).
 */
const YOUNG_MIB_MAX = 6;

/** Exclusive upper bound of request numbers. Numbers are reused after an overflow. */
const NUMBERS = 2 ** 32;

/** Callbacks to the engine. */
export interface CommitObserver {
  /** Called after each group with at least one commit. */
  committed(): void;
  /** Called when a group failed because the disk is full. */
  diskFull(reason: string): void;
  /** Called when the committer has failed permanently. */
  givenUp(): void;
}

interface PendingCommit {
  readonly resolve: (commit: StoreCommit) => void;
  readonly reject: (error: KeyValueError) => void;
}

const THREAD_FILE = builtFile(import.meta.url, "committer-thread.js");

export class LmdbCommitQueue {
  readonly #data: CommitterThreadData;
  readonly #observer: CommitObserver;
  #thread: Worker | undefined;
  #outbox: ByteWriter | undefined;
  readonly #spares: ArrayBuffer[] = [];
  /** Requests sent or in the outbox, by their number. */
  readonly #pending = new Map<number, PendingCommit>();
  #lastNumber = 0;
  #isOpening = false;
  #groupCount = 0;
  #closed = false;

  constructor(data: CommitterThreadData, observer: CommitObserver) {
    this.#data = data;
    this.#observer = observer;
  }

  /** Progress of the thread, as seen from the engine. */
  get progress(): CommitterProgress {
    return {
      isBusy: this.#isOpening || this.#pending.size > 0,
      doneCount: this.#groupCount,
    };
  }

  /** Starts the thread. Rejects with KV_UNAVAILABLE if it cannot open the store. */
  async open(): Promise<void> {
    this.#isOpening = true;
    await new Promise<void>((resolve, reject) => {
      this.#thread = this.#start(resolve, (reason) => {
        reject(new KeyValueError("KV_UNAVAILABLE", { reason, directory: this.#data.directory }));
      });
    }).finally(() => {
      this.#isOpening = false;
    });
  }

  commit(request: CommitRequest): Promise<StoreCommit> {
    if (this.#closed) throw new KeyValueError("KV_CLOSED", { closed: "store" });
    if (this.#outbox === undefined) {
      this.#outbox = new ByteWriter(this.#spares.pop() ?? new ArrayBuffer(OUTBOX_BYTES));
      // Deferred, so that other commits of this turn are sent in the same message.
      process.nextTick(() => this.#send());
    }
    this.#lastNumber = (this.#lastNumber + 1) % NUMBERS;
    const number = this.#lastNumber;
    writeRequest(this.#outbox, number, request);
    if (this.#outbox.length >= SENT_AT_ONCE_BYTES) this.#send();
    return new Promise((resolve, reject) => this.#pending.set(number, { resolve, reject }));
  }

  /** Waits for the requests already sent, then ends the thread. */
  async close(): Promise<void> {
    this.#send();
    this.#closed = true;
    const thread = this.#thread;
    if (thread === undefined) return;
    const exited = new Promise<void>((resolve) => thread.once("exit", () => resolve()));
    thread.postMessage({ kind: "close" } satisfies CommitterMessage);
    await exited;
  }

  #send(): void {
    const outbox = this.#outbox;
    if (outbox === undefined) return;
    this.#outbox = undefined;
    this.#thread ??= this.#start(
      () => {},
      () => {},
    );
    const { buffer: memory, length: byteCount } = outbox.finish();
    const message: CommitterMessage = { kind: "commit", memory, byteCount };
    this.#thread.postMessage(message, [memory]);
  }

  #keep(memory: ArrayBuffer): void {
    if (this.#spares.length >= SPARE_COUNT_MAX || memory.byteLength > SPARE_BYTES_MAX) return;
    this.#spares.push(memory);
  }

  #start(onReady: () => void, onFailed: (reason: string) => void): Worker {
    const thread = new Worker(THREAD_FILE, {
      ...BUILT_FILE_OPTIONS,
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MIB_MAX },
      workerData: this.#data,
    });
    let reason = "the committer thread exited";
    thread.on("message", (answer: CommitterAnswer) => {
      if (answer.kind === "group") this.#settle(answer);
      else if (answer.kind === "spent") this.#keep(answer.memory);
      else if (answer.kind === "ready") onReady();
      else if (answer.kind === "given-up") this.#observer.givenUp();
      else reason = answer.reason;
    });
    thread.on("error", (error) => {
      reason = error.message;
    });
    thread.on("exit", () => {
      if (this.#thread === thread) this.#thread = undefined;
      onFailed(reason);
      const pending = [...this.#pending.values()];
      this.#pending.clear();
      // Discards the outbox. Its requests are rejected below, so they must not be sent to the next
      // thread.
      this.#outbox = undefined;
      for (const { reject } of pending) reject(new KeyValueError("KV_UNKNOWN_COMMIT", { reason }));
    });
    return thread;
  }

  #settle(answer: CommitterAnswer & { kind: "group" }): void {
    const { version, numbers, outcomes, reason, isDiskFull } = answer;
    this.#groupCount++;
    let batchIndex = 0;
    for (const [index, number] of numbers.entries()) {
      const { resolve, reject } = this.#pending.get(number) as PendingCommit;
      this.#pending.delete(number);
      const outcome = OUTCOMES[outcomes[index] as number] as Outcome;
      switch (outcome) {
        case "committed":
          resolve({ version, versionstamp: versionstamp(version, batchIndex++) });
          break;
        case "conflict":
          reject(new KeyValueError("KV_CONFLICT"));
          break;
        case "too-old":
          reject(new KeyValueError("KV_TOO_OLD"));
          break;
        case "unavailable":
          reject(new KeyValueError("KV_UNAVAILABLE", { reason, directory: this.#data.directory }));
          break;
        case "unknown":
          reject(new KeyValueError("KV_UNKNOWN_COMMIT", { reason }));
          break;
      }
    }
    if (isDiskFull) this.#observer.diskFull(reason);
    if (batchIndex > 0) this.#observer.committed();
  }
}

function versionstamp(version: number, batchIndex: number): Versionstamp {
  const bytes = new Uint8Array(VERSIONSTAMP_BYTES);
  writeVersionstamp(bytes, 0, version, batchIndex);
  return Versionstamp.fromBytes(bytes);
}

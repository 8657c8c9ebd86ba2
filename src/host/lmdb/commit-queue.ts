/**
 * The engine's end of the committer thread: requests of one turn are sent together, and answers come back in their
 * order. When the thread dies, the commits under way are unknown, and another thread is started.
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
import { builtFile } from "../system/built-file.ts";
import { ByteWriter } from "./byte-writer.ts";
import type { CommitterThreadData } from "./committer-thread.ts";
import type { CommitterProgress } from "./lock-knocks.ts";
import {
  type CommitterAnswer,
  type CommitterMessage,
  OUTCOMES,
  type Outcome,
  writeRequest,
} from "./messages.ts";

/** Of a turn's requests; it grows when they are more. */
const OUTBOX_BYTES = 32_768;
/**
 * So much is sent before the turn ends: a batch of documents has a commit worth its own while, and the thread works on it while the
 * turn goes on with the next batch, which without anything to wait for can be long.
 */
const SENT_AT_ONCE_BYTES = 131_072;
/** Memory that came back, for the next turns: as much as two transactions of an upload, or of a batch of documents. */
const SPARE_COUNT_MAX = 2;
const SPARE_BYTES_MAX = 4 * 1_024 * 1_024;

/** What the engine wants to know of the commits. */
export interface CommitObserver {
  /** After each group of which something was committed. */
  committed(): void;
  /** A group was refused for want of room. */
  diskFull(reason: string): void;
  /** Nothing can be committed any more. */
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
  /** Sent or in the outbox, in order. */
  #pending: PendingCommit[] = [];
  #isOpening = false;
  #groupCount = 0;
  #closed = false;

  constructor(data: CommitterThreadData, observer: CommitObserver) {
    this.#data = data;
    this.#observer = observer;
  }

  /** What can be seen of the thread from here. */
  get progress(): CommitterProgress {
    return {
      isBusy: this.#isOpening || this.#pending.length > 0,
      doneCount: this.#groupCount,
    };
  }

  /** Starts the thread; rejects with KV_UNAVAILABLE when it cannot open the store. */
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
      // Not at once: what else commits before the event loop goes on goes along.
      process.nextTick(() => this.#send());
    }
    writeRequest(this.#outbox, request);
    if (this.#outbox.length >= SENT_AT_ONCE_BYTES) this.#send();
    return new Promise((resolve, reject) => this.#pending.push({ resolve, reject }));
  }

  /** Lets the thread finish what it was sent, and ends it. */
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
    const thread = new Worker(THREAD_FILE, { workerData: this.#data });
    let reason = "the committer thread ended";
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
      for (const { reject } of this.#pending.splice(0)) {
        reject(new KeyValueError("KV_UNKNOWN_COMMIT", { reason }));
      }
    });
    return thread;
  }

  #settle({ version, outcomes, reason, isDiskFull }: CommitterAnswer & { kind: "group" }): void {
    this.#groupCount++;
    const settled = this.#pending.splice(0, outcomes.length);
    let batchIndex = 0;
    for (const [index, { resolve, reject }] of settled.entries()) {
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

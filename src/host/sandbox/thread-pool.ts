/**
 * Threads for work that would block the event loop. Each thread runs one call at a time, and
 * waiting calls are scheduled fairly. A thread that exceeds the time limit is terminated and
 * replaced.
 */
import { Worker } from "node:worker_threads";
import type { Runtime } from "../../base/index.ts";
import { SandboxError, type Share } from "../../databases/index.ts";
import { BUILT_FILE_OPTIONS } from "../system/built-file.ts";
import { FairQueue } from "./fair-queue.ts";

export interface ThreadCall<Request> {
  /** Identifies the data needed by the call. A thread keeps the data of its last call. */
  readonly subjectId: string;
  /**
   * Builds the request for a free thread. With `isKnown`, the thread already has the data of
   * `subjectId`.
   */
  readonly request: (isKnown: boolean) => Request | Promise<Request>;
  readonly limitMs: number;
  /** Error reason for exceeding the time limit. */
  readonly lateReason: string;
  readonly share: Share;
  /** Signal that ends the wait and requests the thread to stop the call. */
  readonly signal?: AbortSignal | undefined;
}

/** `workerData` of a thread. */
export interface ThreadData {
  /** Contains an `Int32Array` with the number of the call that must stop. */
  readonly stopped: SharedArrayBuffer;
}

/** A request as received by a thread. */
export interface Numbered {
  readonly number: number;
}

/** Message that a thread sends once it has started, before its first response. */
export interface Ready {
  readonly kind: "ready";
}

export interface ThreadAnswer {
  readonly kind: string;
  /** Whether the thread exits and has to be replaced. */
  readonly isSpent?: boolean;
  /** Whether the thread has discarded the data of the request's `subjectId`. */
  readonly isDropped?: boolean;
}

export interface ThreadPoolOptions<Request> {
  readonly file: string;
  readonly countMax: number;
  /** Maximum concurrent threads per user or database. */
  readonly shareMax: number;
  /**
   * Limit for the young generation, because in a large young generation, long-lived values are
   * copied repeatedly.
   */
  readonly youngMibMax?: number;
  /** Whether a thread is terminated on abort, because it does not check `stopped`. */
  readonly endsStopped?: boolean;
  /** Buffers to be transferred with a request. */
  readonly memoryOf: (request: Request) => ArrayBuffer[];
}

interface Waiting<Request, Answer> {
  readonly share: Share;
  readonly call: ThreadCall<Request>;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/** The call being run by a thread. */
interface Current<Request, Answer> {
  readonly waiting: Waiting<Request, Answer>;
  readonly number: number;
  readonly startMs: number;
  readonly answered: AbortController;
}

interface Thread<Request, Answer> {
  readonly handle: Worker;
  readonly stopped: Int32Array<SharedArrayBuffer>;
  /** Resolves when the thread has started. Its startup is not charged to a call. */
  readonly ready: Promise<void>;
  /** The call being run; undefined if the thread is idle. */
  current: Current<Request, Answer> | undefined;
  /** `subjectId` of the thread's last call, unless the thread has dropped its data. */
  subjectId: string | undefined;
  /** Reason why the thread ends. */
  reason: string;
  /** Whether the thread is being terminated and accepts no more calls. */
  isEnding: boolean;
}

/** Call numbers must fit into an `Int32Array`. */
const CALL_NUMBER_MAX = 2 ** 30;

export class ThreadPool<Request extends object, Answer extends ThreadAnswer> {
  readonly #clock: Runtime["clock"];
  readonly #options: ThreadPoolOptions<Request>;
  readonly #threads = new Set<Thread<Request, Answer>>();
  readonly #waiting: FairQueue<Waiting<Request, Answer>>;
  #callCount = 0;
  #isClosed = false;

  /** Threads are started on demand. */
  constructor(clock: Runtime["clock"], options: ThreadPoolOptions<Request>) {
    this.#clock = clock;
    this.#options = options;
    this.#waiting = new FairQueue(clock, options.shareMax);
  }

  /**
   * Runs a call. Throws a SandboxError `os_process_error` if the thread ended, or the signal's
   * reason.
   */
  async call(call: ThreadCall<Request>): Promise<Answer> {
    const { share, signal } = call;
    signal?.throwIfAborted();
    let abort = (): void => {};
    try {
      return await new Promise<Answer>((resolve, reject) => {
        const waiting = { share, call, resolve, reject };
        abort = () => this.#abort(waiting);
        signal?.addEventListener("abort", abort);
        this.#waiting.add(waiting);
        this.#next();
      });
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }

  /** Ends all threads; pending calls fail. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { reject } of this.#waiting.clear()) reject(ended());
    await Promise.all([...this.#threads].map(({ handle }) => handle.terminate()));
  }

  #abort(waiting: Waiting<Request, Answer>): void {
    this.#waiting.remove(waiting);
    waiting.reject(waiting.call.signal?.reason);
    for (const thread of this.#threads) {
      if (thread.current?.waiting !== waiting) continue;
      Atomics.store(thread.stopped, 0, thread.current.number);
      if (this.#options.endsStopped === true) void this.#end(thread);
    }
  }

  #next(): void {
    for (;;) {
      const free = [...this.#threads].find(({ current }) => current === undefined);
      if (free === undefined && this.#threads.size >= this.#options.countMax) return;
      const waiting = this.#waiting.take();
      if (waiting === undefined) return;
      if (this.#isClosed) waiting.reject(ended());
      else this.#assign(free ?? this.#start(), waiting);
    }
  }

  #assign(thread: Thread<Request, Answer>, waiting: Waiting<Request, Answer>): void {
    this.#callCount = (this.#callCount + 1) % CALL_NUMBER_MAX;
    const startMs = this.#clock.monotonicMs();
    const current = {
      waiting,
      number: this.#callCount + 1,
      startMs,
      answered: new AbortController(),
    };
    thread.current = current;
    thread.handle.ref();
    this.#send(thread, current).catch((error: unknown) => {
      waiting.reject(error);
      this.#free(thread);
    });
  }

  /** Sends a call to a thread. Terminates the thread if the call exceeds its time limit. */
  async #send(
    thread: Thread<Request, Answer>,
    { waiting, number, answered }: Current<Request, Answer>,
  ): Promise<void> {
    const { limitMs, lateReason, subjectId, request: requestOf } = waiting.call;
    const request = await requestOf(thread.subjectId === subjectId);
    thread.subjectId = subjectId;
    thread.handle.postMessage({ ...request, number }, this.#options.memoryOf(request));
    await thread.ready;
    try {
      await this.#clock.sleep(limitMs, answered.signal);
    } catch {
      return;
    }
    thread.reason = lateReason;
    await this.#end(thread);
  }

  async #end(thread: Thread<Request, Answer>): Promise<void> {
    thread.isEnding = true;
    await thread.handle.terminate();
  }

  #free(thread: Thread<Request, Answer>): void {
    this.#settle(thread);
    thread.handle.unref();
    this.#next();
  }

  #settle(thread: Thread<Request, Answer>): void {
    const { current } = thread;
    if (current === undefined) return;
    thread.current = undefined;
    current.answered.abort(new Error("The time limit no longer applies: the thread has responded"));
    this.#waiting.ended(current.waiting, this.#clock.monotonicMs() - current.startMs);
  }

  #start(): Thread<Request, Answer> {
    const { file, youngMibMax } = this.#options;
    const resourceLimits =
      youngMibMax === undefined ? {} : { maxYoungGenerationSizeMb: youngMibMax };
    const stopped = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    const workerData: ThreadData = { stopped: stopped.buffer };
    const handle = new Worker(file, { ...BUILT_FILE_OPTIONS, resourceLimits, workerData });
    const ready = new Promise<void>((resolve) => handle.once("message", () => resolve()));
    const reason = "The process running the function exited.";
    const thread: Thread<Request, Answer> = {
      handle,
      stopped,
      ready,
      current: undefined,
      subjectId: undefined,
      reason,
      isEnding: false,
    };
    this.#threads.add(thread);
    handle.on("message", (message: Ready | Answer) => this.#received(thread, message));
    handle.on("error", (error) => {
      thread.reason = `The process running the function exited: ${error.message}`;
    });
    handle.on("exit", () => {
      this.#threads.delete(thread);
      thread.current?.waiting.reject(new SandboxError("os_process_error", thread.reason));
      this.#settle(thread);
      this.#next();
    });
    return thread;
  }

  #received(thread: Thread<Request, Answer>, message: Ready | Answer): void {
    const { current } = thread;
    if (message.kind === "ready" || current === undefined) return;
    const answer = message as Answer;
    if (answer.isSpent === true || thread.isEnding) this.#threads.delete(thread);
    if (answer.isDropped === true) thread.subjectId = undefined;
    current.waiting.resolve(answer);
    this.#free(thread);
  }
}

function ended(): SandboxError {
  return new SandboxError("os_process_error", "The server is stopping.");
}

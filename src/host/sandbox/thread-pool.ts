/**
 * Threads that do what would block the server. A thread takes one call at a time; calls wait in order. One that does not answer in time is
 * ended, and replaced.
 */
import { Worker } from "node:worker_threads";
import type { Runtime } from "../../base/index.ts";
import { SandboxError } from "../../databases/index.ts";

export interface ThreadCall<Request> {
  /** Names what the thread needs for calls of this kind, and has still when its last call had the same. */
  readonly subjectId: string;
  /** `isKnown`: the thread has it. Its memory goes to the thread. Made when a thread is free. */
  readonly request: (isKnown: boolean) => Request | Promise<Request>;
  readonly limitMs: number;
  /** Why a call fails that the thread did not answer in time. */
  readonly lateReason: string;
  /** Ends the wait for a thread. */
  readonly signal?: AbortSignal | undefined;
}

/** Comes once, before the first answer. */
export interface Ready {
  readonly kind: "ready";
}

/** What answers a call. */
export interface ThreadAnswer {
  readonly kind: string;
  /** Nothing of the thread can be used again, and it ends. */
  readonly isSpent?: boolean;
}

export interface ThreadPoolOptions<Request> {
  readonly file: string;
  readonly countMax: number;
  /** Of a thread's young objects: what it parses outlives them, and is carried along in a large room. V8's default when absent. */
  readonly youngMibMax?: number;
  /** The memory of a request that goes over with it. */
  readonly memoryOf: (request: Request) => ArrayBuffer[];
}

interface Waiting<Request, Answer> {
  readonly call: ThreadCall<Request>;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

interface Thread<Request, Answer> {
  readonly handle: Worker;
  /** When it has started, which takes long on a busy machine: no call is to blame for that. */
  readonly ready: Promise<void>;
  /** Undefined: it is free. */
  current: Waiting<Request, Answer> | undefined;
  /** Of its last call. */
  subjectId: string | undefined;
  /** Why it ends. */
  reason: string;
  /** It did not answer in time, and is being ended: if it answers yet, it takes no other call. */
  isLate: boolean;
}

export class ThreadPool<Request, Answer extends ThreadAnswer> {
  readonly #clock: Runtime["clock"];
  readonly #options: ThreadPoolOptions<Request>;
  readonly #threads = new Set<Thread<Request, Answer>>();
  readonly #waiting: Waiting<Request, Answer>[] = [];
  #isClosed = false;

  /** Threads are started when they are needed first. */
  constructor(clock: Runtime["clock"], options: ThreadPoolOptions<Request>) {
    this.#clock = clock;
    this.#options = options;
  }

  /** Throws a SandboxError `os_process_error` when the thread ended, or had to be ended. */
  call(call: ThreadCall<Request>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ call, resolve, reject });
      this.#next();
    });
  }

  /** Ends all threads; calls that have not been answered fail. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { reject } of this.#waiting.splice(0)) reject(ended());
    await Promise.all([...this.#threads].map(({ handle }) => handle.terminate()));
  }

  #next(): void {
    while (this.#waiting.length > 0) {
      if (this.#isClosed) {
        this.#waiting.shift()?.reject(ended());
        continue;
      }
      const { call, reject } = this.#waiting[0] as Waiting<Request, Answer>;
      if (call.signal?.aborted === true) {
        this.#waiting.shift();
        reject(call.signal.reason);
        continue;
      }
      const free = [...this.#threads].find(({ current }) => current === undefined);
      if (free === undefined && this.#threads.size >= this.#options.countMax) return;
      this.#assign(free ?? this.#start(), this.#waiting.shift() as Waiting<Request, Answer>);
    }
  }

  #assign(thread: Thread<Request, Answer>, waiting: Waiting<Request, Answer>): void {
    const answered = new AbortController();
    const settle = (): void => answered.abort(new Error("The thread has answered"));
    thread.current = {
      ...waiting,
      resolve: (answer) => {
        settle();
        waiting.resolve(answer);
      },
      reject: (error) => {
        settle();
        waiting.reject(error);
      },
    };
    thread.handle.ref();
    this.#send(thread, waiting.call, answered.signal).catch((error: unknown) => {
      thread.current?.reject(error);
      this.#free(thread);
    });
  }

  /** Ends the thread when it has not answered in time. */
  async #send(
    thread: Thread<Request, Answer>,
    { limitMs, lateReason, subjectId, request: requestOf }: ThreadCall<Request>,
    answered: AbortSignal,
  ): Promise<void> {
    const request = await requestOf(thread.subjectId === subjectId);
    thread.subjectId = subjectId;
    thread.handle.postMessage(request, this.#options.memoryOf(request));
    await thread.ready;
    try {
      await this.#clock.sleep(limitMs, answered);
    } catch {
      return;
    }
    thread.reason = lateReason;
    thread.isLate = true;
    await thread.handle.terminate();
  }

  #free(thread: Thread<Request, Answer>): void {
    thread.current = undefined;
    thread.handle.unref();
    this.#next();
  }

  #start(): Thread<Request, Answer> {
    const { file, youngMibMax } = this.#options;
    const resourceLimits =
      youngMibMax === undefined ? {} : { maxYoungGenerationSizeMb: youngMibMax };
    const handle = new Worker(file, { resourceLimits });
    const ready = new Promise<void>((resolve) => handle.once("message", () => resolve()));
    const reason = "The process of the function ended.";
    const thread: Thread<Request, Answer> = {
      handle,
      ready,
      current: undefined,
      subjectId: undefined,
      reason,
      isLate: false,
    };
    this.#threads.add(thread);
    handle.on("message", (message: Ready | Answer) => this.#received(thread, message));
    handle.on("error", (error) => {
      thread.reason = `The process of the function ended: ${error.message}`;
    });
    handle.on("exit", () => {
      this.#threads.delete(thread);
      thread.current?.reject(new SandboxError("os_process_error", thread.reason));
      this.#next();
    });
    return thread;
  }

  #received(thread: Thread<Request, Answer>, message: Ready | Answer): void {
    const { current } = thread;
    if (message.kind === "ready" || current === undefined) return;
    const answer = message as Answer;
    if (answer.isSpent === true || thread.isLate) this.#threads.delete(thread);
    current.resolve(answer);
    this.#free(thread);
  }
}

function ended(): SandboxError {
  return new SandboxError("os_process_error", "The server is stopping.");
}

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
  /** `isKnown`: the thread has it. Its memory goes to the thread. */
  readonly request: (isKnown: boolean) => Request;
  readonly limitMs: number;
  /** Why a call fails that the thread did not answer in time. */
  readonly lateReason: string;
}

/** `ready` comes once, first; `spent` has memory to be let go; all others answer a call. */
export type ThreadMessage =
  | { readonly kind: "ready" }
  /** Memory that a call came with. Left to the thread it would lie about: it makes few objects, and seldom collects garbage. */
  | { readonly kind: "spent"; readonly memory: readonly ArrayBuffer[] };

/** What answers a call. */
export interface ThreadAnswer {
  readonly kind: string;
  /** Nothing of the thread can be used again, and it ends. */
  readonly isSpent?: boolean;
}

export interface ThreadPoolOptions<Request> {
  readonly file: string;
  readonly countMax: number;
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
      const free = [...this.#threads].find(({ current }) => current === undefined);
      if (free === undefined && this.#threads.size >= this.#options.countMax) return;
      this.#assign(free ?? this.#start(), this.#waiting.shift() as Waiting<Request, Answer>);
    }
  }

  #assign(thread: Thread<Request, Answer>, waiting: Waiting<Request, Answer>): void {
    const { limitMs, lateReason, subjectId, request: requestOf } = waiting.call;
    const answered = new AbortController();
    thread.ready
      .then(() => this.#clock.sleep(limitMs, answered.signal))
      .then(
        () => {
          thread.reason = lateReason;
          thread.isLate = true;
          return thread.handle.terminate();
        },
        () => {},
      );
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
    const request = requestOf(thread.subjectId === subjectId);
    thread.subjectId = subjectId;
    thread.handle.postMessage(request, this.#options.memoryOf(request));
  }

  #start(): Thread<Request, Answer> {
    const handle = new Worker(this.#options.file);
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
    handle.on("message", (message: ThreadMessage | Answer) => this.#received(thread, message));
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

  #received(thread: Thread<Request, Answer>, message: ThreadMessage | Answer): void {
    const { current } = thread;
    if (message.kind === "ready" || message.kind === "spent" || current === undefined) return;
    const answer = message as Answer;
    if (answer.isSpent === true || thread.isLate) this.#threads.delete(thread);
    thread.current = undefined;
    thread.handle.unref();
    current.resolve(answer);
    this.#next();
  }
}

function ended(): SandboxError {
  return new SandboxError("os_process_error", "The server is stopping.");
}

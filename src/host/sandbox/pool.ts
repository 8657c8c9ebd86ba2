/**
 * Threads in which functions of design documents run, so that none of them blocks the server. A thread takes one call
 * at a time; calls wait in order. A thread that reached a limit, or does not answer, is replaced.
 */
import { Worker } from "node:worker_threads";
import { concatBytes, type Runtime } from "../../base/index.ts";
import {
  type Refusal,
  type Sandbox,
  type SandboxCall,
  SandboxError,
} from "../../databases/index.ts";
import { builtFile } from "../system/built-file.ts";
import type { SandboxAnswer, SandboxRequest } from "./messages.ts";

const THREAD_FILE = builtFile(import.meta.url, "thread.js");

/** For what the thread does between runs, before it is taken for lost. */
const GRACE_MS = 5_000;

interface Waiting {
  readonly call: SandboxCall;
  readonly resolve: (results: (boolean | Refusal | null)[]) => void;
  readonly reject: (error: unknown) => void;
}

interface Thread {
  readonly handle: Worker;
  /** When it has started, which takes long on a busy machine: no function is to blame for that. */
  readonly ready: Promise<void>;
  /** Undefined: it is free. */
  current: Waiting | undefined;
  /** Of its last call. */
  codeId: string | undefined;
}

export class SandboxPool implements Sandbox {
  readonly #runtime: Runtime;
  readonly #threadCountMax: number;
  readonly #threads = new Set<Thread>();
  readonly #waiting: Waiting[] = [];
  #isClosed = false;

  /** Threads are started when they are needed first. */
  constructor(runtime: Runtime, { threadCountMax = 2 } = {}) {
    this.#runtime = runtime;
    this.#threadCountMax = threadCountMax;
  }

  call(call: SandboxCall & { readonly kind: "filter" | "view" }): Promise<boolean[]>;
  call(call: SandboxCall & { readonly kind: "validate" }): Promise<(Refusal | null)[]>;
  call(call: SandboxCall): Promise<(boolean | Refusal | null)[]> {
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
      if (free === undefined && this.#threads.size >= this.#threadCountMax) return;
      this.#assign(free ?? this.#start(), this.#waiting.shift() as Waiting);
    }
  }

  #assign(thread: Thread, waiting: Waiting): void {
    thread.current = waiting;
    const { runs, timeoutMs } = waiting.call;
    const lost = new AbortController();
    const limitMs = timeoutMs * (runs.length + 1) + GRACE_MS;
    thread.ready
      .then(() => this.#runtime.clock.sleep(limitMs, lost.signal))
      .then(
        () => thread.handle.terminate(),
        () => {},
      );
    const settle = (): void => lost.abort(new Error("The thread has answered"));
    thread.current = {
      ...waiting,
      resolve: (results) => {
        settle();
        waiting.resolve(results);
      },
      reject: (error) => {
        settle();
        waiting.reject(error);
      },
    };
    thread.handle.ref();
    const isKnown = thread.codeId === waiting.call.codeId;
    thread.codeId = waiting.call.codeId;
    const request = requestOf(waiting.call, isKnown);
    thread.handle.postMessage(request, memoryOf(request));
  }

  #start(): Thread {
    const handle = new Worker(THREAD_FILE);
    // Its first message says so.
    const ready = new Promise<void>((resolve) => handle.once("message", () => resolve()));
    const thread: Thread = { handle, ready, current: undefined, codeId: undefined };
    this.#threads.add(thread);
    let reason = "The process of the function ended.";
    handle.on("message", (answer: SandboxAnswer) => this.#answered(thread, answer));
    handle.on("error", (error) => {
      reason = `The process of the function ended: ${error.message}`;
    });
    handle.on("exit", () => {
      this.#threads.delete(thread);
      thread.current?.reject(new SandboxError("os_process_error", reason));
      this.#next();
    });
    return thread;
  }

  #answered(thread: Thread, answer: SandboxAnswer): void {
    const { current } = thread;
    if (answer.kind === "ready" || answer.kind === "spent" || current === undefined) return;
    for (const message of answer.logged) {
      this.#runtime.trace.event("design.logged", { codeId: current.call.codeId, message });
    }
    if (answer.kind === "failed" && answer.isSpent) this.#threads.delete(thread);
    thread.current = undefined;
    thread.handle.unref();
    if (answer.kind === "results") current.resolve([...answer.results]);
    else current.reject(new SandboxError(answer.failure.error, answer.failure.reason));
    this.#next();
  }
}

/** The texts as the thread gets them: copies that are its own. */
function requestOf({ code, runs, ...call }: SandboxCall, isKnown: boolean): SandboxRequest {
  return {
    ...call,
    code: isKnown ? undefined : concatBytes(code),
    runs: runs.map((run) => (typeof run === "string" ? run : run.map(concatBytes))),
  };
}

function memoryOf({ code, runs }: SandboxRequest): ArrayBuffer[] {
  const texts = runs.flatMap((run) => (typeof run === "string" ? [] : run));
  return (code === undefined ? texts : [code, ...texts]).map(({ buffer }) => buffer);
}

function ended(): SandboxError {
  return new SandboxError("os_process_error", "The server is stopping.");
}

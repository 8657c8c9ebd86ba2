/** One design document in QuickJS: compiled on first use, with limits of time, memory and stack. */
import type {
  QuickJSContext,
  QuickJSHandle,
  QuickJSRuntime,
  QuickJSWASMModule,
} from "quickjs-emscripten-core";
import { LateTexts } from "./late-texts.ts";
import type { SandboxAnswer, SandboxRequest } from "./messages.ts";
import { SANDBOX_PRELUDE } from "./prelude.ts";

/** Enough for the largest document and its parsed form. */
const MEMORY_BYTES_MAX = 96 * 1024 * 1024;
/** With more, a deep recursion overflows the stack of the host before QuickJS sees it. */
const STACK_BYTES_MAX = 256 * 1024;
const LOG_LINES_MAX = 100;
const LOG_LINE_LENGTH_MAX = 1_000;

export class SandboxCode {
  readonly #runtime: QuickJSRuntime;
  readonly #context: QuickJSContext;
  readonly #run: QuickJSHandle;
  readonly #logged: string[] = [];
  readonly #texts = new LateTexts();
  #timeoutMs = 0;
  #deadlineMs = Number.POSITIVE_INFINITY;

  /** The memory of the code has to stay. */
  constructor(module: QuickJSWASMModule, code: Uint8Array) {
    const runtime = module.newRuntime();
    runtime.setMemoryLimit(MEMORY_BYTES_MAX);
    runtime.setMaxStackSize(STACK_BYTES_MAX);
    runtime.setInterruptHandler(() => performance.now() > this.#deadlineMs);
    const context = runtime.newContext();
    this.#runtime = runtime;
    this.#context = context;
    const startRun = context.newFunction("startRun", () => {
      this.#deadlineMs = performance.now() + this.#timeoutMs;
    });
    const writeLog = context.newFunction("writeLog", (text) => {
      if (this.#logged.length >= LOG_LINES_MAX) return;
      this.#logged.push(context.getString(text).slice(0, LOG_LINE_LENGTH_MAX));
    });
    const readPiece = context.newFunction("readPiece", (id, index) => {
      const piece = this.#texts.piece(context.getNumber(id), context.getNumber(index));
      return piece === undefined ? context.undefined : context.newString(piece);
    });
    const design = context.newString(JSON.stringify(this.#texts.add(code)));
    const prelude = context.unwrapResult(context.evalCode(SANDBOX_PRELUDE, "sandbox.js"));
    this.#run = context.unwrapResult(
      context.callFunction(prelude, context.undefined, design, startRun, writeLog, readPiece),
    );
    for (const handle of [prelude, design, startRun, writeLog, readPiece]) handle.dispose();
  }

  call(request: SandboxRequest): SandboxAnswer {
    const { mark } = this.#texts;
    try {
      return this.#call(request);
    } finally {
      this.#texts.forgetSince(mark);
    }
  }

  #call({ kind, path, runs, shared, timeoutMs }: SandboxRequest): SandboxAnswer {
    const context = this.#context;
    this.#logged.length = 0;
    this.#timeoutMs = timeoutMs;
    this.#deadlineMs = performance.now() + timeoutMs;
    const runTexts = runs.map((run) => {
      if (typeof run === "string") return run;
      return JSON.stringify({ late: run.map((argument) => this.#texts.add(argument)) });
    });
    const texts = [kind, JSON.stringify(path), `[${runTexts.join(",")}]`, shared];
    const handles = texts.map((text) => context.newString(text));
    const result = context.callFunction(this.#run, context.undefined, ...handles);
    for (const handle of handles) handle.dispose();
    const logged = [...this.#logged];
    if (result.error !== undefined) return spent("OS process timed out.", logged);
    const text = context.getString(result.value);
    result.value.dispose();
    if (text === "undefined") return spent(OUT_OF_MEMORY, logged);
    const answer = JSON.parse(text);
    if (answer.failure === undefined) return { kind: "results", results: answer.results, logged };
    const { error, reason } = answer.failure;
    if (error === "InternalError" && reason === "out of memory")
      return spent(OUT_OF_MEMORY, logged);
    return { kind: "failed", failure: { error, reason }, logged, isSpent: false };
  }

  dispose(): void {
    this.#run.dispose();
    this.#context.dispose();
    this.#runtime.dispose();
  }
}

const OUT_OF_MEMORY = `The function took more memory than ${MEMORY_BYTES_MAX / 1024 / 1024} MiB.`;

function spent(reason: string, logged: readonly string[]): SandboxAnswer {
  return { kind: "failed", failure: { error: "os_process_error", reason }, logged, isSpent: true };
}

/** One design document in QuickJS: compiled on first use, with limits of time, memory and stack. */
import type {
  QuickJSContext,
  QuickJSHandle,
  QuickJSRuntime,
  QuickJSWASMModule,
} from "quickjs-emscripten-core";
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
  #timeoutMs = 0;
  #deadlineMs = Number.POSITIVE_INFINITY;

  constructor(module: QuickJSWASMModule, code: string) {
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
    const design = context.newString(code);
    const prelude = context.unwrapResult(context.evalCode(SANDBOX_PRELUDE, "sandbox.js"));
    this.#run = context.unwrapResult(
      context.callFunction(prelude, context.undefined, design, startRun, writeLog),
    );
    for (const handle of [prelude, design, startRun, writeLog]) handle.dispose();
  }

  call({ kind, path, runs, shared, timeoutMs }: SandboxRequest): SandboxAnswer {
    const context = this.#context;
    this.#logged.length = 0;
    this.#timeoutMs = timeoutMs;
    this.#deadlineMs = performance.now() + timeoutMs;
    const texts = [kind, JSON.stringify(path), `[${runs.join(",")}]`, shared];
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

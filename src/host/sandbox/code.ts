/**
 * A design document in its own QuickJS, with limits on time, memory and stack. Each call starts
 * from a memory image in which functions and modules are compiled, but no request has run. Changes
 * to globals, prototypes or closures are therefore not visible to later requests.
 */
import type { QuickJSContext, QuickJSHandle, QuickJSWASMModule } from "quickjs-emscripten-core";
import { LateTexts } from "./late-texts.ts";
import { MemoryImage } from "./memory-image.ts";
import type { SandboxAnswer, SandboxRequest } from "./messages.ts";
import { SANDBOX_PRELUDE } from "./prelude.ts";

/** Maximum memory of a QuickJS instance, enough for the largest document and its parsed form. */
const MEMORY_BYTES_MAX = 96 * 1024 * 1024;
/**
 * Maximum stack size. With a larger stack, deep recursion would overflow the host's stack first.
 */
const STACK_BYTES_MAX = 256 * 1024;
/** Time slice after which a call returns its completed runs, so that other calls can proceed. */
const SLICE_MS = 200;
/** Time limit for compiling modules between calls. */
const COMPILE_MS_MAX = 1_000;

/** Maximum number of precompiled functions or module sets per design document. */
const COMPILED_MAX = 100;

const LOG_LINES_MAX = 100;
const LOG_LINE_LENGTH_MAX = 1_000;

export interface SandboxLimits {
  /** Whether the caller has cancelled. */
  readonly isStopped: () => boolean;
}

/** A QuickJS instance, and an image of its initial memory. */
export class Instance {
  readonly module: QuickJSWASMModule;
  readonly image: MemoryImage;

  constructor(module: QuickJSWASMModule) {
    this.module = module;
    this.image = new MemoryImage(module.getWasmMemory());
  }
}

export class SandboxCode {
  readonly instance: Instance;
  readonly #context: QuickJSContext;
  readonly #run: QuickJSHandle;
  readonly #image: MemoryImage;
  readonly #logged: string[] = [];
  readonly #texts = new LateTexts();
  readonly #compiled = new Set<string>();
  /** Modules that calls have used, but that the image does not contain. */
  readonly #wanted = new Set<string>();
  #timeoutMs = 0;
  #deadlineMs = Number.POSITIVE_INFINITY;
  #sliceEndMs = 0;

  /** `code` must not be modified. An instance serves one design document at a time. */
  constructor(instance: Instance, code: Uint8Array, { isStopped }: SandboxLimits) {
    this.instance = instance;
    instance.image.restoreAll();
    const runtime = instance.module.newRuntime();
    runtime.setMemoryLimit(MEMORY_BYTES_MAX);
    runtime.setMaxStackSize(STACK_BYTES_MAX);
    runtime.setInterruptHandler(() => performance.now() > this.#deadlineMs || isStopped());
    const context = runtime.newContext();
    this.#context = context;
    const startRun = context.newFunction("startRun", () => {
      this.#deadlineMs = performance.now() + this.#timeoutMs;
    });
    const isSliceOver = context.newFunction("isSliceOver", () =>
      performance.now() > this.#sliceEndMs ? context.true : context.false,
    );
    const writeLog = context.newFunction("writeLog", (text) => {
      if (this.#logged.length >= LOG_LINES_MAX) return;
      this.#logged.push(context.getString(text).slice(0, LOG_LINE_LENGTH_MAX));
    });
    const readPiece = context.newFunction("readPiece", (id, index) => {
      const piece = this.#texts.piece(context.getNumber(id), context.getNumber(index));
      return piece === undefined ? context.undefined : context.newString(piece);
    });
    // Replaces QuickJS's own random generator, whose state would be part of the image.
    const random = context.newFunction("random", () => context.newNumber(Math.random()));
    const host = context.newObject();
    const functions = { startRun, isSliceOver, writeLog, readPiece, random };
    for (const [name, handle] of Object.entries(functions)) context.setProp(host, name, handle);
    const design = context.newString(JSON.stringify(this.#texts.add(code)));
    const prelude = context.unwrapResult(context.evalCode(SANDBOX_PRELUDE, "sandbox.js"));
    this.#run = context.unwrapResult(
      context.callFunction(prelude, context.undefined, design, host),
    );
    for (const handle of [prelude, design, host, ...Object.values(functions)]) handle.dispose();
    this.#image = new MemoryImage(instance.module.getWasmMemory(), instance.image);
  }

  get byteLength(): number {
    return this.#image.byteLength;
  }

  /** Whether the instance's memory has grown. Memory is released only with the instance. */
  get hasGrown(): boolean {
    return this.#image.hasGrown;
  }

  call(request: SandboxRequest): SandboxAnswer {
    const { mark } = this.#texts;
    try {
      this.#compile([request.path, []], request.timeoutMs);
      this.#image.restore();
      return this.#call(request);
    } finally {
      this.#texts.forgetSince(mark);
    }
  }

  /**
   * Called between function calls. Compiles the modules that earlier calls loaded with `require`.
   */
  rest(): void {
    if (this.#wanted.size === 0) return;
    const modules = [...this.#wanted];
    this.#wanted.clear();
    this.#compile([[], modules], COMPILE_MS_MAX);
  }

  /**
   * Adds a function and modules to the image. Ignores compile errors, because later calls report
   * them.
   */
  #compile(
    places: readonly [path: readonly string[], modules: readonly string[]],
    ms: number,
  ): void {
    const key = JSON.stringify(places);
    if (this.#compiled.has(key) || this.#compiled.size > COMPILED_MAX) return;
    this.#compiled.add(key);
    this.#image.restoreAll();
    this.#timeoutMs = ms;
    this.#deadlineMs = performance.now() + ms;
    const answer = this.#answer(["compile", key, "[]", "[]"]);
    if (answer?.isCompiled === true && !this.#image.hasGrown) this.#image.take();
  }

  #call({ kind, path, runs, shared, timeoutMs }: SandboxRequest): SandboxAnswer {
    this.#logged.length = 0;
    this.#timeoutMs = timeoutMs;
    const nowMs = performance.now();
    this.#deadlineMs = nowMs + timeoutMs;
    this.#sliceEndMs = nowMs + SLICE_MS;
    const runTexts = runs.map((run) => {
      if (typeof run === "string") return run;
      return JSON.stringify({ late: run.map((argument) => this.#texts.add(argument)) });
    });
    const answer = this.#answer([kind, JSON.stringify(path), `[${runTexts.join(",")}]`, shared]);
    const logged = [...this.#logged];
    if (answer === undefined) return failed(TIMED_OUT, logged);
    if (answer === "out of memory") return failed(OUT_OF_MEMORY, logged);
    this.#note(answer.modules);
    if (answer.failure === undefined) return { kind: "results", results: answer.results, logged };
    const { error, reason } = answer.failure;
    if (error === "InternalError" && reason === "out of memory") {
      return failed(OUT_OF_MEMORY, logged);
    }
    return { kind: "failed", failure: { error, reason }, logged };
  }

  /**
   * Records module names, after validating them, because user code might have tampered with the
   * list.
   */
  #note(modules: unknown): void {
    if (!Array.isArray(modules) || this.#compiled.size > COMPILED_MAX) return;
    for (const id of modules.slice(0, COMPILED_MAX)) {
      if (typeof id === "string") this.#wanted.add(id);
    }
  }

  /**
   * Calls the program with these texts. Returns its parsed result, or `undefined` if the program
   * was interrupted.
   */
  #answer(texts: readonly string[]) {
    const context = this.#context;
    const handles = texts.map((text) => context.newString(text));
    const result = context.callFunction(this.#run, context.undefined, ...handles);
    for (const handle of handles) handle.dispose();
    if (result.error !== undefined) {
      result.error.dispose();
      return undefined;
    }
    const text = context.getString(result.value);
    result.value.dispose();
    return text === "undefined" ? "out of memory" : JSON.parse(text);
  }
}

const TIMED_OUT = "OS process timed out.";
const OUT_OF_MEMORY = `The function used more than ${MEMORY_BYTES_MAX / 1024 / 1024} MiB of memory.`;

function failed(reason: string, logged: readonly string[]): SandboxAnswer {
  return { kind: "failed", failure: { error: "os_process_error", reason }, logged };
}

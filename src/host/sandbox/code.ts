/**
 * One design document in a QuickJS of its own, with limits of time, memory and stack. Each call starts from an image of the memory in
 * which functions and modules are compiled and nothing has run on behalf of a request: no global, prototype or closure that one request
 * changed is seen by the next.
 */
import type { QuickJSContext, QuickJSHandle, QuickJSWASMModule } from "quickjs-emscripten-core";
import { LateTexts } from "./late-texts.ts";
import { MemoryImage } from "./memory-image.ts";
import type { SandboxAnswer, SandboxRequest } from "./messages.ts";
import { SANDBOX_PRELUDE } from "./prelude.ts";

/** Enough for the largest document and its parsed form. */
const MEMORY_BYTES_MAX = 96 * 1024 * 1024;
/** With more, a deep recursion overflows the stack of the host before QuickJS sees it. */
const STACK_BYTES_MAX = 256 * 1024;
/** Time after which a call answers the runs that it has done, so that others have their turn. */
const SLICE_MS = 200;
/** For the compilation of modules between two calls. */
const COMPILE_MS_MAX = 1_000;

/** Functions, or sets of modules, that are compiled ahead for a design document. */
const COMPILED_MAX = 100;

const LOG_LINES_MAX = 100;
const LOG_LINE_LENGTH_MAX = 1_000;

export interface SandboxLimits {
  /** Whether the caller has given up. */
  readonly isStopped: () => boolean;
}

/** An instance of QuickJS, and its memory before any use. */
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
  /** Modules that calls have needed and the image does not have. */
  readonly #wanted = new Set<string>();
  #timeoutMs = 0;
  #deadlineMs = Number.POSITIVE_INFINITY;
  #sliceEndMs = 0;

  /** The memory of the code has to stay. An instance serves one code at a time. */
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
    // QuickJS keeps the state of its own generator in the image.
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

  /** Whether the instance's memory has grown: it is given back only with the instance. */
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

  /** Compiles the modules that calls have needed, for later calls. */
  rest(): void {
    if (this.#wanted.size === 0) return;
    const modules = [...this.#wanted];
    this.#wanted.clear();
    this.#compile([[], modules], COMPILE_MS_MAX);
  }

  /** Adds a function and modules to the image. Those that do not compile are left to the calls, which report it. */
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

  /** The names come through code of users, who may have replaced what made them. */
  #note(modules: unknown): void {
    if (!Array.isArray(modules) || this.#compiled.size > COMPILED_MAX) return;
    for (const id of modules.slice(0, COMPILED_MAX)) {
      if (typeof id === "string") this.#wanted.add(id);
    }
  }

  /** Undefined when it was interrupted. */
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
const OUT_OF_MEMORY = `The function took more memory than ${MEMORY_BYTES_MAX / 1024 / 1024} MiB.`;

function failed(reason: string, logged: readonly string[]): SandboxAnswer {
  return { kind: "failed", failure: { error: "os_process_error", reason }, logged };
}

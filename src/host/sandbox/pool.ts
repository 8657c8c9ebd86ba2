/**
 * Runs user code in threads: functions of design documents, and expensive selectors. Functions and
 * selectors use separate threads, because every reader can send selectors, while writes wait for
 * validation functions.
 */
import {
  type JsonText,
  joinYielding,
  type LongText,
  type Runtime,
  Yielder,
} from "../../base/index.ts";
import {
  type Refusal,
  type Sandbox,
  type SandboxCall,
  SandboxError,
  type SandboxResult,
  type SelectorCall,
  type Share,
} from "../../databases/index.ts";
import { builtFile } from "../system/built-file.ts";
import type { SandboxAnswer, SandboxRequest, SelectorAnswer, SelectorRequest } from "./messages.ts";
import { ThreadPool } from "./thread-pool.ts";

/** Maximum number of threads for functions. One more than a user or database can occupy. */
const THREADS_MAX = 3;
/** Maximum number of threads for selectors. One more than a user or database can occupy. */
const SELECTOR_THREADS_MAX = 2;
const COMMON_SHARE: Share = { user: "", database: "" };

/**
 * Time that a thread is allowed to take beyond the time limits of its runs. A thread that takes
 * longer is considered hung.
 */
const GRACE_MS = 5_000;

export class SandboxPool implements Sandbox {
  readonly #clock: Runtime["clock"];
  readonly #trace: Runtime["trace"];
  readonly #functions: ThreadPool<SandboxRequest, SandboxAnswer>;
  readonly #selectors: ThreadPool<SelectorRequest, SelectorAnswer>;

  /** Threads are started on demand. */
  constructor({ clock, trace }: Runtime) {
    this.#clock = clock;
    this.#trace = trace;
    this.#functions = new ThreadPool(clock, {
      file: builtFile(import.meta.url, "function-thread.js"),
      countMax: THREADS_MAX,
      shareMax: THREADS_MAX - 1,
      memoryOf,
    });
    this.#selectors = new ThreadPool(clock, {
      file: builtFile(import.meta.url, "selector-thread.js"),
      countMax: SELECTOR_THREADS_MAX,
      shareMax: SELECTOR_THREADS_MAX - 1,
      youngMibMax: 8,
      endsStopped: true,
      memoryOf: ({ document }) => [document.buffer],
    });
  }

  call(call: SandboxCall & { readonly kind: "filter" | "view" }): Promise<boolean[]>;
  call(call: SandboxCall & { readonly kind: "validate" }): Promise<(Refusal | null)[]>;
  call(call: SandboxCall & { readonly kind: "resolve" }): Promise<(number | JsonText | null)[]>;
  async call(call: SandboxCall): Promise<SandboxResult[]> {
    const results: SandboxResult[] = [];
    do {
      const runs = call.runs.slice(results.length);
      const answered = await this.#slice({ ...call, runs });
      const isPlausible = answered.length > 0 || runs.length === 0;
      if (!isPlausible || answered.length > runs.length) {
        const reason = `The function returned ${answered.length} results for ${runs.length} documents.`;
        throw new SandboxError("os_process_error", reason);
      }
      for (const answer of answered) results.push(answer);
    } while (results.length < call.runs.length);
    return results;
  }

  /** Executes the call's runs in order until the time slice ends. Returns the results so far. */
  async #slice(call: SandboxCall): Promise<readonly SandboxResult[]> {
    const { codeId, runs, timeoutMs, share = COMMON_SHARE, signal } = call;
    const answer = await this.#functions.call({
      subjectId: codeId,
      request: (isKnown) => requestOf(call, isKnown, new Yielder(this.#clock)),
      limitMs: timeoutMs * (runs.length + 1) + GRACE_MS,
      lateReason: "The process running the function did not respond.",
      share,
      signal,
    });
    for (const message of answer.logged) {
      this.#trace.event("design.logged", { codeId, message });
    }
    if (answer.kind === "results") return answer.results;
    throw new SandboxError(answer.failure.error, answer.failure.reason);
  }

  async matches({ selector, document, timeoutMs, share, signal }: SelectorCall): Promise<boolean> {
    const answer = await this.#selectors.call({
      subjectId: selector,
      request: async (isKnown) => ({
        selector: isKnown ? undefined : selector,
        document: await joinYielding(document, new Yielder(this.#clock)),
      }),
      limitMs: timeoutMs,
      share,
      signal,
      lateReason: `The selector took more than ${timeoutMs} ms for one document.`,
    });
    if (answer.kind === "matched") return answer.isMatch;
    throw new SandboxError("os_process_error", answer.reason);
  }

  /** Ends all threads; pending calls fail. */
  async close(): Promise<void> {
    await Promise.all([this.#functions.close(), this.#selectors.close()]);
  }
}

/** Copies code and arguments, for transfer to the thread. */
async function requestOf(
  { code, runs, share: _, signal: __, ...call }: SandboxCall,
  isKnown: boolean,
  yielder: Yielder,
): Promise<SandboxRequest> {
  const copies: SandboxRequest["runs"][number][] = [];
  for (const run of runs) copies.push(typeof run === "string" ? run : await joined(run, yielder));
  return { ...call, code: isKnown ? undefined : await joinYielding(code, yielder), runs: copies };
}

async function joined(
  texts: readonly LongText[],
  yielder: Yielder,
): Promise<Uint8Array<ArrayBuffer>[]> {
  const copies: Uint8Array<ArrayBuffer>[] = [];
  for (const text of texts) copies.push(await joinYielding(text, yielder));
  return copies;
}

function memoryOf({ code, runs }: SandboxRequest): ArrayBuffer[] {
  const texts = runs.flatMap((run) => (typeof run === "string" ? [] : run));
  return (code === undefined ? texts : [code, ...texts]).map(({ buffer }) => buffer);
}

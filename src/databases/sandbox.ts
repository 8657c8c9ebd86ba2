/**
 * The port that runs what users wrote, isolated, with limits of time and memory: functions of design documents, and selectors that would
 * take long. The host implements it. Only JSON texts cross it, so changes that a function makes to its arguments are not seen outside. Long
 * ones are copied when their call is carried out.
 */
import { type JsonText, type LongText, OperationalError } from "../base/index.ts";

/** Whose call it is. Threads are shared fairly among users and among databases. */
export interface Share {
  readonly user: string;
  readonly database: string;
}

export function shareOf(database: string, userName: string | null | undefined): Share {
  return { user: userName ?? "", database };
}

/** Share of an index, apart from those of users: writes wait for its selector. */
export function shareOfIndexes(database: string): Share {
  const name = `\u0000indexes of ${database}`;
  return { user: name, database: name };
}

/** One function of a design document, run over a batch of arguments. */
export interface SandboxCall {
  /** Names these very sources: what was compiled for them may serve again. */
  readonly codeId: string;
  /** The design document, in which functions find their modules (`require`), and which is their `this`. */
  readonly code: LongText;
  /**
   * What is answered for each run.
   *
   *   filter      whether the function returned something true
   *   view        whether the function called `emit`
   *   validate    null, or a `Refusal` for what the function threw
   */
  readonly kind: "filter" | "view" | "validate";
  /** The place of the function's source in the document. */
  readonly path: readonly string[];
  /** The first arguments of each run: a JSON array, or each of them by itself, where they are long. */
  readonly runs: readonly (JsonText | readonly LongText[])[];
  /** The further arguments of every run, as a JSON array. */
  readonly shared: JsonText;
  /** Of one run. */
  readonly timeoutMs: number;
  /** Calls without one share as if they came from one user and one database. */
  readonly share?: Share;
  /** Aborts when the answer is no longer needed. */
  readonly signal?: AbortSignal | undefined;
}

/** What a validation function threw: CouchDB's `forbidden`, `unauthorized`, or any other name of an error. */
export interface Refusal {
  readonly error: string;
  readonly reason: string;
}

/** A document that is held against a selector. */
export interface SelectorCall {
  /** One that compiles. */
  readonly selector: JsonText;
  readonly document: LongText;
  readonly timeoutMs: number;
  readonly share: Share;
  /** Aborts when the answer is no longer needed. */
  readonly signal?: AbortSignal | undefined;
}

export interface Sandbox {
  /**
   * An answer for each run, in order. Throws a SandboxError when the source does not compile, a function that is no validation
   * throws, or a limit is reached, and the signal's reason.
   */
  call(call: SandboxCall & { readonly kind: "filter" | "view" }): Promise<boolean[]>;
  call(call: SandboxCall & { readonly kind: "validate" }): Promise<(Refusal | null)[]>;
  /** Whether the document matches. Throws a SandboxError when a limit is reached, and the signal's reason. */
  matches(call: SelectorCall): Promise<boolean>;
}

/** A function, or a selector, failed, not the server. `error` and `reason` are CouchDB's words. */
export class SandboxError extends OperationalError {
  override readonly name = "SandboxError";
  readonly error: string;
  readonly reason: string;

  constructor(error: string, reason: string) {
    super("STORE_FUNCTION_FAILED", "A function of a design document failed", { error, reason });
    this.error = error;
    this.reason = reason;
  }

  /** Whether time or memory ran out: of a batch, another run may be to blame. */
  get isLimit(): boolean {
    return this.error === "os_process_error";
  }
}

/**
 * Interface for running user-supplied code in isolation, with limits on time and memory: functions
 * of design documents, and expensive selectors. The host implements it. Only JSON text is
 * exchanged, so functions cannot change values outside.
 */
import { type JsonText, type LongText, OperationalError } from "../base/index.ts";

/** User and database of a call. Threads are shared fairly among users and among databases. */
export interface Share {
  readonly user: string;
  readonly database: string;
}

export function shareOf(database: string, userName: string | null | undefined): Share {
  return { user: userName ?? "", database };
}

/**
 * Returns the share under which the selectors of a database's indexes are evaluated. It is separate
 * from the shares of users, because writes wait for the selectors.
 */
export function shareOfIndexes(database: string): Share {
  const name = `\u0000indexes of ${database}`;
  return { user: name, database: name };
}

/** A call of one function of a design document for a batch of arguments. */
export interface SandboxCall {
  /** Identifies these exact sources, so that compiled code can be reused. */
  readonly codeId: string;
  /**
   * The whole design document. Functions load modules from it with `require`. It is also the `this`
   * of functions.
   */
  readonly code: LongText;
  /**
   * Kind of function, which determines the result of each run:
   *
   *   filter      whether the function returned a truthy value
   *   view        whether the function called `emit`
   *   validate    null, or a `Refusal` for the error that the function threw
   *   resolve     the index of an argument, if the function returned that argument unchanged; the
   *               JSON text of any other object that the function returned; otherwise null. The
   *               function receives all arguments of the run as one array.
   */
  readonly kind: "filter" | "view" | "validate" | "resolve";
  /** Path of the function's source in the document. */
  readonly path: readonly string[];
  /** Leading arguments of each run: a JSON array, or separate JSON texts if they are long. */
  readonly runs: readonly (JsonText | readonly LongText[])[];
  /** Arguments that follow the leading ones and are the same in every run, as a JSON array. */
  readonly shared: JsonText;
  /** Time limit of one run. */
  readonly timeoutMs: number;
  /**
   * User and database for fair scheduling. All calls without a share are scheduled as one user and
   * one database.
   */
  readonly share?: Share;
  /** Signal that aborts when the result is no longer needed. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * The error thrown by a validation function: CouchDB's `forbidden` or `unauthorized`, or another
 * error name.
 */
export interface Refusal {
  readonly error: string;
  readonly reason: string;
}

/** Result of one run, depending on the kind of the call. */
export type SandboxResult = boolean | Refusal | number | JsonText | null;

/** A document to be matched against a selector. */
export interface SelectorCall {
  /** The selector, which must compile. */
  readonly selector: JsonText;
  readonly document: LongText;
  readonly timeoutMs: number;
  readonly share: Share;
  /** Signal that aborts when the result is no longer needed. */
  readonly signal?: AbortSignal | undefined;
}

export interface Sandbox {
  /**
   * Returns a result for each run, in order. Throws a SandboxError if the source does not compile,
   * if a function other than `validate` throws, or if a limit is reached. Throws the signal's
   * reason if the signal aborts.
   */
  call(call: SandboxCall & { readonly kind: "filter" | "view" }): Promise<boolean[]>;
  call(call: SandboxCall & { readonly kind: "validate" }): Promise<(Refusal | null)[]>;
  call(call: SandboxCall & { readonly kind: "resolve" }): Promise<(number | JsonText | null)[]>;
  /**
   * Returns whether the document matches. Throws a SandboxError if a limit is reached, and the
   * signal's reason if the signal aborts.
   */
  matches(call: SelectorCall): Promise<boolean>;
}

/** Failure of user-supplied code rather than of the server. `error` and `reason` are CouchDB's. */
export class SandboxError extends OperationalError {
  override readonly name = "SandboxError";
  readonly error: string;
  readonly reason: string;

  constructor(error: string, reason: string) {
    super("STORE_FUNCTION_FAILED", "A function of a design document failed", { error, reason });
    this.error = error;
    this.reason = reason;
  }

  /** Whether a run exceeded its time or memory limit. In a batch, it can have been any run. */
  get isLimit(): boolean {
    return this.error === "os_process_error";
  }
}

/** Messages between the pools and the threads that run users' functions and selectors. */
import type { JsonText } from "../../base/index.ts";
import type { Refusal, SandboxCall, SandboxResult } from "../../databases/index.ts";

/** A call to be run by a thread. Its code and arguments are transferred to the thread. */
export interface SandboxRequest extends Omit<SandboxCall, "code" | "runs" | "share" | "signal"> {
  /**
   * Code of the design document, which can be long. Absent if the code is that of the thread's last
   * call.
   */
  readonly code: Uint8Array<ArrayBuffer> | undefined;
  /** The arguments of each run, as one JSON array or as one UTF-8 text per argument. */
  readonly runs: readonly (JsonText | readonly Uint8Array<ArrayBuffer>[])[];
}

export type SandboxAnswer =
  | {
      readonly kind: "results";
      /** Results of the runs that were completed within the time slice, in order. */
      readonly results: readonly SandboxResult[];
      readonly logged: readonly string[];
    }
  | {
      readonly kind: "failed";
      readonly failure: Refusal;
      readonly logged: readonly string[];
    };

/** A document to be matched by a thread. The document is transferred to the thread. */
export interface SelectorRequest {
  /** The selector; absent if it is that of the thread's last call. */
  readonly selector: JsonText | undefined;
  /** The document in UTF-8. */
  readonly document: Uint8Array<ArrayBuffer>;
}

export type SelectorAnswer =
  | { readonly kind: "matched"; readonly isMatch: boolean }
  | { readonly kind: "failed"; readonly reason: string };

/** Messages between the pools and the threads that run users' functions and selectors. */
import type { JsonText } from "../../base/index.ts";
import type { Refusal, SandboxCall } from "../../databases/index.ts";

/** Its texts are transferred to the thread. */
export interface SandboxRequest extends Omit<SandboxCall, "code" | "runs" | "share" | "signal"> {
  /** Absent if it equals that of the thread's last call, because it may be long. */
  readonly code: Uint8Array<ArrayBuffer> | undefined;
  /** A JSON array of arguments, or individual arguments. */
  readonly runs: readonly (JsonText | readonly Uint8Array<ArrayBuffer>[])[];
}

export type SandboxAnswer =
  | {
      readonly kind: "results";
      /** Results by kind of call. Fewer than the runs if the time slice ended. */
      readonly results: readonly (boolean | Refusal | null)[];
      readonly logged: readonly string[];
    }
  | {
      readonly kind: "failed";
      readonly failure: Refusal;
      readonly logged: readonly string[];
    };

/** Its document is transferred to the thread. */
export interface SelectorRequest {
  /** Absent if it equals that of the thread's last call. */
  readonly selector: JsonText | undefined;
  /** UTF-8. */
  readonly document: Uint8Array<ArrayBuffer>;
}

export type SelectorAnswer =
  | { readonly kind: "matched"; readonly isMatch: boolean }
  | { readonly kind: "failed"; readonly reason: string };

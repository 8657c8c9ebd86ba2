/** The messages between the pools and the threads in which users' functions and selectors run. */
import type { JsonText } from "../../base/index.ts";
import type { Refusal, SandboxCall } from "../../databases/index.ts";

/** The memory of its texts is the thread's. */
export interface SandboxRequest extends Omit<SandboxCall, "code" | "runs" | "share" | "signal"> {
  /** Absent when it is that of the thread's last call: it may be long. */
  readonly code: Uint8Array<ArrayBuffer> | undefined;
  /** A JSON array of arguments, or each of them by itself. */
  readonly runs: readonly (JsonText | readonly Uint8Array<ArrayBuffer>[])[];
}

export type SandboxAnswer =
  | {
      readonly kind: "results";
      /** As the kind of the call has them. Fewer than runs when the call's time slice is over. */
      readonly results: readonly (boolean | Refusal | null)[];
      readonly logged: readonly string[];
    }
  | {
      readonly kind: "failed";
      readonly failure: Refusal;
      readonly logged: readonly string[];
    };

/** The memory of its document is the thread's. */
export interface SelectorRequest {
  /** Absent when it is that of the thread's last call. */
  readonly selector: JsonText | undefined;
  /** In UTF-8. */
  readonly document: Uint8Array<ArrayBuffer>;
}

export type SelectorAnswer =
  | { readonly kind: "matched"; readonly isMatch: boolean }
  | { readonly kind: "failed"; readonly reason: string };

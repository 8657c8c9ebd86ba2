/** The messages between the pool and the threads in which functions of design documents run. */
import type { Refusal, SandboxCall } from "../../databases/index.ts";

export interface SandboxRequest extends Omit<SandboxCall, "code"> {
  /** Absent when it is that of the thread's last call: it may be long. */
  readonly code: SandboxCall["code"] | undefined;
}

export type SandboxAnswer =
  | { readonly kind: "ready" }
  | {
      readonly kind: "results";
      /** As the kind of the call has them. */
      readonly results: readonly (boolean | Refusal | null)[];
      readonly logged: readonly string[];
    }
  | {
      readonly kind: "failed";
      readonly failure: Refusal;
      readonly logged: readonly string[];
      /** A limit was reached: nothing of the thread can be used again, and it ends. */
      readonly isSpent: boolean;
    };

/** The messages between the pool and the threads in which functions of design documents run. */
import type { JsonText } from "../../base/index.ts";
import type { Refusal, SandboxCall } from "../../databases/index.ts";

/** The memory of its texts is the thread's. */
export interface SandboxRequest extends Omit<SandboxCall, "code" | "runs"> {
  /** Absent when it is that of the thread's last call: it may be long. */
  readonly code: Uint8Array<ArrayBuffer> | undefined;
  /** A JSON array of arguments, or each of them by itself. */
  readonly runs: readonly (JsonText | readonly Uint8Array<ArrayBuffer>[])[];
}

export type SandboxAnswer =
  | { readonly kind: "ready" }
  /** Memory of arguments that are not needed any more. Left to the thread it would lie about: it makes few objects, and seldom collects garbage. */
  | { readonly kind: "spent"; readonly memory: readonly ArrayBuffer[] }
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

/**
 * A workload of a simulated cluster, with its invariants (as in FoundationDB). A run combines
 * several workloads, concurrently and under faults.
 */
import type { ReadTransaction } from "../../src/kv/index.ts";

export interface Workload {
  /** Prepares the workload before the first fault. */
  setup?(): Promise<void>;
  /**
   * Runs the workload during faults. It ends by itself soon after `untilMs` of the world's time.
   */
  start?(untilMs: number): Promise<void>;
  /**
   * Called repeatedly after all faults are healed. Undoes whatever would prevent the workload from
   * reaching its goals.
   */
  tend?(): Promise<void>;
  /** Returns the goals that are not reached yet. */
  lacking?(tx: ReadTransaction): Promise<readonly string[]>;
  /** Returns the invariants that are violated at this moment. */
  watch?(tx: ReadTransaction): Promise<readonly string[]>;
  /** Returns the invariants that are violated at the end. */
  check?(tx: ReadTransaction): Promise<readonly string[]>;
}

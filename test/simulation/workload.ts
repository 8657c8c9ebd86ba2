/**
 * A workload of a simulated cluster, with its invariants (FoundationDB's workloads). A run combines
 * several of them, concurrently and under faults.
 */
import type { ReadTransaction } from "../../src/kv/index.ts";

export interface Workload {
  /** Prepares the workload before any fault. */
  setup?(): Promise<void>;
  /** Runs during faults. Ends by itself soon after `untilMs` of the world's time. */
  start?(untilMs: number): Promise<void>;
  /** Called repeatedly after all faults are healed: undoes what would keep the rest from ending. */
  tend?(): Promise<void>;
  /** Returns the goals that are not reached yet. */
  lacking?(tx: ReadTransaction): Promise<readonly string[]>;
  /** Returns the violations at this moment. */
  watch?(tx: ReadTransaction): Promise<readonly string[]>;
  /** Returns the violations at the end. */
  check?(tx: ReadTransaction): Promise<readonly string[]>;
}

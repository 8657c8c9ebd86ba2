/**
 * A workload of a simulated cluster, with its invariants (FoundationDB's workloads). A run combines
 * several of them, concurrently and under faults.
 */
import type { ReadTransaction } from "../../src/kv/index.ts";

export interface Workload {
  /** Before any fault. */
  setup?(): Promise<void>;
  /** During faults. Ends by itself soon after `untilMs` of the world's time. */
  start?(untilMs: number): Promise<void>;
  /**
   * After all faults are healed: undoes what would keep the rest from ending. Called repeatedly.
   */
  tend?(): Promise<void>;
  /** Goals that are not reached yet. */
  lacking?(tx: ReadTransaction): Promise<readonly string[]>;
  /** Violations at this moment. */
  watch?(tx: ReadTransaction): Promise<readonly string[]>;
  /** Violations at the end. */
  check?(tx: ReadTransaction): Promise<readonly string[]>;
}

/**
 * One thing that a simulated cluster is put to, and what has to hold of it (FoundationDB's workloads). A run composes several of
 * them, beside each other and beside the faults.
 */
import type { ReadTransaction } from "../../src/kv/index.ts";

export interface Workload {
  /** Before anything goes wrong. */
  setup?(): Promise<void>;
  /** While everything goes wrong; ends by itself soon after `untilMs` of the world's time. */
  start?(untilMs: number): Promise<void>;
  /** When all faults are healed: takes back what would keep the rest from its end. Called again and again. */
  tend?(): Promise<void>;
  /** What has not come about yet, and will. */
  lacking?(tx: ReadTransaction): Promise<readonly string[]>;
  /** What must not be at any moment. */
  watch?(tx: ReadTransaction): Promise<readonly string[]>;
  /** What must not be in the end. */
  check?(tx: ReadTransaction): Promise<readonly string[]>;
}

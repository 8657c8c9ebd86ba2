/**
 * Stored record of a held job's hazardous work (work that can crash the node), and of the nodes
 * that crashed during this work.
 */
import type { KeyValueStore, Transaction } from "../../kv/index.ts";
import type { ReplicationFailure } from "../jobs/failing.ts";
import { afterDeath, type Hazard, NO_HAZARD, quarantine } from "../jobs/hazard.ts";

export interface HazardRecordParts {
  readonly kv: KeyValueStore;
  /** Writes the record. Throws if the job is lost. */
  readonly write: (tx: Transaction, hazard: Hazard) => Promise<void>;
}

export class HazardRecord {
  readonly #parts: HazardRecordParts;
  #hazard: Hazard = NO_HAZARD;
  #underWayCount = 0;

  constructor(parts: HazardRecordParts) {
    this.#parts = parts;
  }

  /**
   * Loads the stored record. `decision` is the number of the latest decision by an operator. If it
   * differs from the number in the record, that decision has cleared the record.
   */
  load(stored: Hazard, decision: number): void {
    this.#hazard = stored.decision === decision ? stored : { ...NO_HAZARD, decision };
  }

  /**
   * If a node crashed during hazardous work of the job, counts the crash. Returns the failure of
   * the job if it must be quarantined. Called once, after `load` and before the run.
   */
  async findQuarantine(): Promise<ReplicationFailure | undefined> {
    const { kv, write } = this.#parts;
    const { work } = this.#hazard;
    this.#hazard = afterDeath(this.#hazard);
    if (work !== undefined) await kv.transact((tx) => write(tx, this.#hazard));
    return quarantine(this.#hazard, work);
  }

  /** Performs work that can crash the node, and keeps a record of it while it is in progress. */
  async during<T>(work: string, perform: () => Promise<T>): Promise<T> {
    if (this.#underWayCount++ === 0) await this.#store({ ...this.#hazard, work });
    try {
      return await perform();
    } finally {
      this.#hazard = { ...NO_HAZARD, decision: this.#hazard.decision };
      if (--this.#underWayCount === 0) await this.#store(this.#hazard);
    }
  }

  #store(hazard: Hazard): Promise<void> {
    const { kv, write } = this.#parts;
    return kv.transact((tx) => write(tx, hazard), { whenUnknown: "retry" });
  }
}

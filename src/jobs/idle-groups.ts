/**
 * Removes the records of unused groups. A group's usage outlives its last job, so that removing and
 * adding a job does not reset it. But usage decays, and a group without jobs and usage is
 * equivalent to an unknown one.
 *
 * The transaction that removes a record reads the group's counters, so it conflicts with a
 * concurrent transaction that adds a job of the group.
 */
import type { Runtime } from "../base/index.ts";
import type { ReadTransaction, Transaction } from "../kv/index.ts";
import { decodeStanding } from "./group-record.ts";
import type { JobType } from "./job.ts";
import type { JobCounts } from "./job-counts.ts";
import type { JobKeys } from "./job-keys.ts";
import { SHARES_DEFAULT, USAGE_SEC_MIN, usageSec } from "./standing.ts";

export interface SweptPage {
  readonly forgottenCount: number;
  /** The last group checked; undefined at the end of the list. */
  readonly last: string | undefined;
}

export class IdleGroups {
  readonly #runtime: Runtime;
  readonly #keys: JobKeys;
  readonly #counts: JobCounts;

  constructor(runtime: Runtime, keys: JobKeys, counts: JobCounts) {
    this.#runtime = runtime;
    this.#keys = keys;
    this.#counts = counts;
  }

  /**
   * Checks up to `limit` groups after `after`, in name order, and removes the records of unused
   * groups.
   */
  async forget(
    tx: Transaction,
    type: JobType,
    { after, limit }: { readonly after: string | undefined; readonly limit: number },
  ): Promise<SweptPage> {
    const page = await this.#counts.groupsPage(tx, type, { after, limit });
    let forgottenCount = 0;
    for (const group of page.idle) {
      if (!(await this.#isForgettable(tx, type, group))) continue;
      if (!(await this.#counts.clearZero(tx, type, group))) continue;
      tx.clear(this.#keys.standing.key({ type, group }));
      forgottenCount++;
    }
    return { forgottenCount, last: page.last };
  }

  /**
   * Whether the record of the group can be removed. A record with configured shares is kept; the
   * configuration bounds the number of such records.
   */
  async #isForgettable(tx: ReadTransaction, type: JobType, group: string): Promise<boolean> {
    const value = await tx.get(this.#keys.standing.key({ type, group }));
    if (value === undefined) return true;
    const standing = decodeStanding(value);
    const nowSec = this.#runtime.clock.nowMs() / 1000;
    return standing.shares === SHARES_DEFAULT && usageSec(standing, nowSec) < USAGE_SEC_MIN;
  }
}

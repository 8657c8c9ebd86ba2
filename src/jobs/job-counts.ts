/**
 * The number of jobs by type, state and group. Transactions add to the counters without reading
 * them, so counts cause no conflicts. They are exact, because each counter changes in the same
 * transaction as the jobs that it counts.
 */
import {
  decodeCounter,
  type KeyValue,
  type ReadTransaction,
  type Transaction,
} from "../kv/index.ts";
import type { JobFacts, JobState, JobType } from "./job.ts";
import { countsOfGroups, type JobKeys } from "./job-keys.ts";
import { decodeFacts } from "./job-record.ts";

export type StateCounts = Readonly<Record<JobState, number>>;

const STATES: readonly JobState[] = ["pending", "running", "finished"];
const PENDING = STATES.indexOf("pending");

/** The facts of a job that determine its counters. */
export type Counted = Pick<JobFacts, "state" | "group">;

export class JobCounts {
  readonly #keys: JobKeys;

  constructor(keys: JobKeys) {
    this.#keys = keys;
  }

  /** Records that a job was added (no `from`), removed (no `to`) or changed. */
  change(tx: Transaction, type: JobType, from: Counted | undefined, to: Counted | undefined): void {
    if (from?.state === to?.state && from?.group === to?.group) return;
    if (from !== undefined) this.#add(tx, type, from, -1n);
    if (to !== undefined) this.#add(tx, type, to, 1n);
  }

  /** Returns the counts for a type or one of its groups. A snapshot read. */
  async read(tx: ReadTransaction, type: JobType, group?: string): Promise<StateCounts> {
    const counts = await Promise.all(
      STATES.map(async (state) =>
        decodeCounter(await tx.snapshot.get(this.#key(type, state, group))),
      ),
    );
    return stateCounts(counts);
  }

  /**
   * Returns the number of running jobs of a group. Conflicts with transactions that change this
   * number.
   */
  async running(tx: ReadTransaction, type: JobType, group: string): Promise<number> {
    return decodeCounter(await tx.get(this.#key(type, "running", group)));
  }

  /**
   * Reads up to `limit` groups after `after`, in name order, including groups that no longer have
   * jobs. `idle`: those of them without pending jobs. `last`: the last group read, as a cursor;
   * undefined at the end. A snapshot read.
   */
  async groupsPage(
    tx: ReadTransaction,
    type: JobType,
    { after, limit }: { readonly after: string | undefined; readonly limit: number },
  ): Promise<{ readonly idle: readonly string[]; readonly last: string | undefined }> {
    // Every job starts as pending, so these counters list all groups.
    const range = countsOfGroups(this.#keys, type, PENDING, after);
    const { entries, stoppedBy } = await tx.snapshot.getRangePage(range, { limit });
    const groupOf = ({ key }: KeyValue): string => this.#keys.count.unpack(key).group as string;
    const idle = entries.filter(({ value }) => decodeCounter(value) === 0).map(groupOf);
    const last = entries.at(-1);
    return { idle, last: stoppedBy === "exhausted" || !last ? undefined : groupOf(last) };
  }

  /**
   * Returns up to `limit` groups after `after`, in name order. Includes groups that no longer have
   * jobs, unless their counters were removed. A snapshot read.
   */
  async groupNames(
    tx: ReadTransaction,
    type: JobType,
    { after, limit }: { readonly after: string | undefined; readonly limit: number },
  ): Promise<readonly string[]> {
    const range = countsOfGroups(this.#keys, type, PENDING, after);
    const { entries } = await tx.snapshot.getRangePage(range, { limit });
    return entries.map(({ key }) => this.#keys.count.unpack(key).group as string);
  }

  /**
   * Removes the counters of a group without jobs. Returns false if the group has jobs. Conflicts
   * with transactions that add a job.
   */
  async clearZero(tx: Transaction, type: JobType, group: string): Promise<boolean> {
    const keys = STATES.map((state) => this.#key(type, state, group));
    const values = await Promise.all(keys.map((key) => tx.get(key)));
    if (values.some((value) => decodeCounter(value) !== 0)) return false;
    for (const key of keys) tx.clear(key);
    return true;
  }

  /**
   * Counts by reading every job in one transaction, for tests with few jobs. Without `group`,
   * counts the jobs of the whole type.
   */
  async recount(tx: ReadTransaction, type: JobType, group?: string): Promise<StateCounts> {
    const counts = STATES.map(() => 0);
    for await (const { value } of tx.snapshot.getRange(this.#keys.job.range({ type }))) {
      const facts = decodeFacts(value);
      if (group !== undefined && facts.group !== group) continue;
      const index = STATES.indexOf(facts.state);
      counts[index] = (counts[index] as number) + 1;
    }
    return stateCounts(counts);
  }

  #add(tx: Transaction, type: JobType, { state, group }: Counted, delta: bigint): void {
    tx.add(this.#key(type, state, undefined), delta);
    if (group !== undefined) tx.add(this.#key(type, state, group), delta);
  }

  #key(type: JobType, state: JobState, group: string | undefined): Uint8Array {
    return this.#keys.count.key({ type, state: STATES.indexOf(state), group: group ?? null });
  }
}

function stateCounts([pending = 0, running = 0, finished = 0]: readonly number[]): StateCounts {
  return { pending, running, finished };
}

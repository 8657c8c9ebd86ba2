/**
 * The number of jobs by type and state and by group. Transactions add to the counters without reading them, so counts
 * cause no conflicts. They are exact, because each change of a counter is in the transaction of the change that it
 * counts.
 */
import type { KeyValue, ReadTransaction, Transaction } from "../kv/index.ts";
import type { JobFacts, JobState, JobType } from "./job.ts";
import type { JobKeys } from "./job-keys.ts";
import { decodeFacts } from "./job-record.ts";

export type StateCounts = Readonly<Record<JobState, number>>;

const STATES: readonly JobState[] = ["pending", "running", "finished"];
const PENDING = STATES.indexOf("pending");

/** What a counter has to know of a job. */
export type Counted = Pick<JobFacts, "state" | "group">;

export class JobCounts {
  readonly #keys: JobKeys;

  constructor(keys: JobKeys) {
    this.#keys = keys;
  }

  /** A job came (no `from`), went (no `to`) or changed. */
  change(tx: Transaction, type: JobType, from: Counted | undefined, to: Counted | undefined): void {
    if (from?.state === to?.state && from?.group === to?.group) return;
    if (from !== undefined) this.#add(tx, type, from, -1n);
    if (to !== undefined) this.#add(tx, type, to, 1n);
  }

  /** All jobs of a type, or of one group of it. A snapshot: nothing conflicts with it. */
  async read(tx: ReadTransaction, type: JobType, group?: string): Promise<StateCounts> {
    const counts = await Promise.all(
      STATES.map(async (state) =>
        decodeCounter(await tx.snapshot.get(this.#key(type, state, group))),
      ),
    );
    return stateCounts(counts);
  }

  /** How many jobs of a group run. Conflicts with each transaction that changes that. */
  async running(tx: ReadTransaction, type: JobType, group: string): Promise<number> {
    return decodeCounter(await tx.get(this.#key(type, "running", group)));
  }

  /**
   * Up to `limit` groups that ever had a job, behind `after`, in order of their names: which of them have none that is pending, and
   * the last that was looked at, undefined behind all. A snapshot: nothing conflicts with it.
   */
  async groupsPage(
    tx: ReadTransaction,
    type: JobType,
    { after, limit }: { readonly after: string | undefined; readonly limit: number },
  ): Promise<{ readonly idle: readonly string[]; readonly last: string | undefined }> {
    // Every job is pending first.
    const range = this.#keys.countsOfGroups(type, PENDING, after);
    const { entries, stoppedBy } = await tx.snapshot.getRangePage(range, { limit });
    const groupOf = ({ key }: KeyValue): string => this.#keys.lastElement(key) as string;
    const idle = entries.filter(({ value }) => decodeCounter(value) === 0).map(groupOf);
    const last = entries.at(-1);
    return { idle, last: stoppedBy === "exhausted" || !last ? undefined : groupOf(last) };
  }

  /** Up to `limit` groups that ever had a job and are not forgotten, behind `after`, in order of their names. A snapshot. */
  async groupNames(
    tx: ReadTransaction,
    type: JobType,
    { after, limit }: { readonly after: string | undefined; readonly limit: number },
  ): Promise<readonly string[]> {
    const range = this.#keys.countsOfGroups(type, PENDING, after);
    const { entries } = await tx.snapshot.getRangePage(range, { limit });
    return entries.map(({ key }) => this.#keys.lastElement(key) as string);
  }

  /** Removes the counters of a group that has no jobs; false when it has some. Conflicts with a transaction that adds a job. */
  async clearZero(tx: Transaction, type: JobType, group: string): Promise<boolean> {
    const keys = STATES.map((state) => this.#key(type, state, group));
    const values = await Promise.all(keys.map((key) => tx.get(key)));
    if (values.some((value) => decodeCounter(value) !== 0)) return false;
    for (const key of keys) tx.clear(key);
    return true;
  }

  /** How many there are by looking at every job: for tests, in one transaction that has to be short. Without a group, all of the type. */
  async recount(tx: ReadTransaction, type: JobType, group?: string): Promise<StateCounts> {
    const counts = STATES.map(() => 0);
    for await (const { value } of tx.snapshot.getRange(this.#keys.jobsOfType(type))) {
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
    return this.#keys.count(type, STATES.indexOf(state), group);
  }
}

function stateCounts([pending = 0, running = 0, finished = 0]: readonly number[]): StateCounts {
  return { pending, running, finished };
}

function decodeCounter(value: Uint8Array | undefined): number {
  if (value === undefined) return 0;
  const view = new DataView(value.buffer, value.byteOffset, value.byteLength);
  return Number(view.getBigInt64(0, true));
}

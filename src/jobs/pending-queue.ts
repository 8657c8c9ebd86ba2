/**
 * The pending jobs of a type. Jobs without a group are ordered by due time (RFC 007), jobs with a
 * group as in `group-queue.ts`. If a type has both kinds of jobs, an acceptor chooses at random
 * which kind to try first.
 */
import { EMPTY_BYTES, type Runtime, randomHex } from "../base/index.ts";
import type { KeyValue, ReadTransaction, Transaction } from "../kv/index.ts";
import { AcceptContention } from "./accept-contention.ts";
import type { GroupQueue } from "./group-queue.ts";
import type { JobName, JobPlan, JobType } from "./job.ts";
import type { JobKeys } from "./job-keys.ts";

/**
 * Probability that an acceptor tries the groups before the jobs without a group. The first value
 * applies if its last attempt found jobs in groups; otherwise the second applies.
 */
const GROUPS_FIRST_RATIO = 1 / 2;
const GROUPS_FIRST_RATIO_UNSEEN = 1 / 8;

/**
 * Interval after which acceptors try again even without a notification, because due times are
 * measured on wall clocks, which can be changed. Adding a job that is due only after this interval
 * wakes no acceptor.
 */
export const LOOK_AGAIN_SEC = 60;

export interface Wanted {
  /** Seconds since the epoch. Jobs due later are ignored. */
  readonly dueBySec: number;
  /** Maximum number of jobs, at least 1. */
  readonly countMax: number;
  /**
   * Whether to start at a random id, so that acceptors rarely collide. For types whose jobs have no
   * due times.
   */
  readonly noSchedule?: boolean;
}

export class PendingQueue {
  readonly #runtime: Runtime;
  readonly #keys: JobKeys;
  readonly #groups: GroupQueue;
  readonly #contention = new AcceptContention();
  /** Whether the last attempt found jobs in groups. */
  #groupsHadJobs = false;

  constructor(runtime: Runtime, keys: JobKeys, groups: GroupQueue) {
    this.#runtime = runtime;
    this.#keys = keys;
    this.#groups = groups;
  }

  /** Adds a job and wakes waiting acceptors, unless they will try again before it is due. */
  async enter(tx: Transaction, job: JobName, { scheduledAtSec, group }: JobPlan): Promise<void> {
    const announcedSec = this.#runtime.clock.nowMs() / 1000 + LOOK_AGAIN_SEC;
    if (scheduledAtSec <= announcedSec) tx.add(this.#keys.enqueued.key({ type: job.type }), 1n);
    if (group === undefined)
      tx.set(this.#keys.pending.key({ ...job, scheduledAtSec }), EMPTY_BYTES);
    else await this.#groups.enter(tx, job, group, scheduledAtSec);
  }

  /** Removes a job from the queue without accepting it. */
  async leave(tx: Transaction, job: JobName, { scheduledAtSec, group }: JobPlan): Promise<void> {
    if (group === undefined) tx.clear(this.#keys.pending.key({ ...job, scheduledAtSec }));
    else await this.#groups.leave(tx, job, group, scheduledAtSec);
  }

  /** Called when a job of the group has ended or the group's limit is raised. */
  async released(tx: Transaction, type: JobType, group: string | undefined): Promise<void> {
    if (group !== undefined) await this.#groups.released(tx, type, group);
  }

  /**
   * Removes due jobs from the queue. Each job has its own conflict key, so that acceptors conflict
   * only if they choose the same job.
   */
  async take(tx: Transaction, type: JobType, wanted: Wanted): Promise<JobName[]> {
    const ratio = this.#groupsHadJobs ? GROUPS_FIRST_RATIO : GROUPS_FIRST_RATIO_UNSEEN;
    const groupsFirst = this.#runtime.random.ratio() < ratio;
    const first = groupsFirst ? await this.#takeGrouped(tx, type, wanted) : [];
    if (first.length > 0) return first;
    const plain = await this.#takePlain(tx, type, wanted);
    if (plain.length > 0 || groupsFirst) return plain;
    return this.#takeGrouped(tx, type, wanted);
  }

  /** Random wait in milliseconds before accepting a job that woke all acceptors. */
  acceptDelayMs(): number {
    return this.#contention.acceptDelayMs(this.#runtime.random);
  }

  /** Jobs due at `dueBySec`, up to `limit`. A snapshot read. */
  async due(
    tx: ReadTransaction,
    type: JobType,
    { dueBySec, limit }: { readonly dueBySec: number; readonly limit: number },
  ): Promise<JobName[]> {
    const range = this.#keys.pending.rangeUntil({ type, scheduledAtSec: dueBySec });
    const { entries } = await tx.snapshot.getRangePage(range, { limit });
    const plain = entries.map(({ key }) => ({ type, id: this.#keys.pending.unpack(key).id }));
    const rest = { dueBySec, limit: limit - plain.length };
    return [...plain, ...(await this.#groups.due(tx.snapshot, type, rest))];
  }

  /** Due time of the first job, past or future. */
  async firstDueSec(tx: ReadTransaction, type: JobType): Promise<number | undefined> {
    const range = this.#keys.pending.rangeUntil({ type, scheduledAtSec: Number.MAX_SAFE_INTEGER });
    const [{ entries }, groupDueSec] = await Promise.all([
      tx.snapshot.getRangePage(range, { limit: 1 }),
      this.#groups.nextDueSec(tx.snapshot, type),
    ]);
    const plainDueSec = entries[0] && this.#keys.pending.unpack(entries[0].key).scheduledAtSec;
    if (plainDueSec === undefined || groupDueSec === undefined) return plainDueSec ?? groupDueSec;
    return Math.min(plainDueSec, groupDueSec);
  }

  async #takeGrouped(tx: Transaction, type: JobType, wanted: Wanted): Promise<JobName[]> {
    const taken = await this.#groups.take(tx, type, wanted);
    this.#groupsHadJobs = taken.length > 0;
    if (taken.length > 0) this.#contention.note(tx);
    return taken;
  }

  async #takePlain(tx: Transaction, type: JobType, wanted: Wanted): Promise<JobName[]> {
    const rows = wanted.noSchedule
      ? await this.#anywhere(tx, type, wanted)
      : await this.#amongFirst(tx, type, wanted);
    return rows.map(({ key }) => {
      tx.addReadConflictKey(key);
      tx.clear(key);
      return { type, id: this.#keys.pending.unpack(key).id };
    });
  }

  /**
   * Chooses a random batch among the first due jobs. The number of candidates grows with the
   * estimated number of other acceptors.
   */
  async #amongFirst(
    tx: Transaction,
    type: JobType,
    { dueBySec, countMax }: Wanted,
  ): Promise<readonly KeyValue[]> {
    const range = this.#keys.pending.rangeUntil({ type, scheduledAtSec: dueBySec });
    const limit = this.#contention.rowCount(countMax);
    const { entries } = await tx.snapshot.getRangePage(range, { limit });
    const batchCount = Math.ceil(entries.length / countMax);
    if (batchCount === 0) return [];
    this.#contention.note(tx);
    const start = this.#runtime.random.integer(batchCount) * countMax;
    return entries.slice(start, start + countMax);
  }

  /** Jobs after a random id, or, at the end of the queue, the jobs before it. */
  async #anywhere(
    tx: Transaction,
    type: JobType,
    { dueBySec, countMax: limit }: Wanted,
  ): Promise<readonly KeyValue[]> {
    const range = this.#keys.pending.rangeUntil({ type, scheduledAtSec: dueBySec });
    const pivot = this.#keys.pending.key({
      type,
      id: randomHex(this.#runtime.random),
      scheduledAtSec: 0,
    });
    const { snapshot } = tx;
    const behind = await snapshot.getRangePage({ begin: pivot, end: range.end }, { limit });
    if (behind.entries.length > 0) return behind.entries;
    const before = { begin: range.begin, end: pivot };
    return (await snapshot.getRangePage(before, { limit, reverse: true })).entries;
  }
}

/**
 * The pending jobs of a type. Jobs without a group are ordered by due time (RFC 007), jobs with a
 * group as in `group-queue.ts`. An acceptor treats the queues for its labels as one queue. If a
 * type has both kinds of jobs, an acceptor chooses at random which kind to try first.
 */
import { append, EMPTY_BYTES, type Runtime, randomHex, smallest } from "../base/index.ts";
import type { Key, KeyValue, ReadTransaction, Transaction } from "../kv/index.ts";
import { AcceptContention } from "./accept-contention.ts";
import type { GroupQueue } from "./group-queue.ts";
import type { DueWanted } from "./groups.ts";
import type { JobName, JobPlan, JobType } from "./job.ts";
import { type JobKeys, labelledBelow } from "./job-keys.ts";
import {
  hasLabels,
  type Labels,
  labelsOfQueue,
  NO_LABELS,
  type Queue,
  queueOf,
  queuesFor,
  typeOfQueue,
} from "./labels.ts";

/**
 * Probability that an acceptor tries the groups before the jobs without a group, if its last
 * attempt found jobs in groups.
 */
const GROUPS_FIRST_RATIO = 1 / 2;
/** The same probability, if the last attempt found no jobs in groups. */
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

export interface UnplacedWanted {
  readonly dueBySec: number;
  /** Labels of each worker. */
  readonly workers: readonly Labels[];
  readonly rowsMax: number;
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

  /**
   * Adds a job. Wakes waiting acceptors, unless they will try again anyway before the job is due.
   */
  async enter(tx: Transaction, job: JobName, plan: JobPlan): Promise<void> {
    const { scheduledAtSec, group } = plan;
    const announcedSec = this.#runtime.clock.nowMs() / 1000 + LOOK_AGAIN_SEC;
    if (scheduledAtSec <= announcedSec) tx.add(this.#keys.enqueued.key({ type: job.type }), 1n);
    if (group === undefined) tx.set(this.#pendingKey(job, plan), EMPTY_BYTES);
    else await this.#groups.enter(tx, job, { ...plan, group });
  }

  /** Removes a job from the queue without accepting it. */
  async leave(tx: Transaction, job: JobName, plan: JobPlan): Promise<void> {
    const { group } = plan;
    if (group === undefined) tx.clear(this.#pendingKey(job, plan));
    else await this.#groups.leave(tx, job, { ...plan, group });
  }

  #pendingKey({ type, id }: JobName, { scheduledAtSec, labels }: JobPlan): Key {
    return this.#keys.pending.key({ queue: queueOf(type, labels), scheduledAtSec, id });
  }

  /**
   * Called when a job of the group has ended or the group's limit is raised. Only jobs that require
   * these labels or no labels become ready. Other jobs become ready when the group is checked
   * again.
   */
  async released(
    tx: Transaction,
    type: JobType,
    { group, labels }: Pick<JobPlan, "group" | "labels">,
  ): Promise<void> {
    if (group === undefined) return;
    await this.#groups.released(tx, type, group);
    if (labels.length > 0) await this.#groups.released(tx, queueOf(type, labels), group);
  }

  /**
   * Removes due jobs from the queue. Each job has its own conflict key, so that acceptors conflict
   * only if they choose the same job.
   */
  async take(tx: Transaction, type: JobType, wanted: Wanted, labels: Labels): Promise<JobName[]> {
    const queues = queuesFor(type, labels);
    const ratio = this.#groupsHadJobs ? GROUPS_FIRST_RATIO : GROUPS_FIRST_RATIO_UNSEEN;
    const groupsFirst = this.#runtime.random.ratio() < ratio;
    const first = groupsFirst ? await this.#takeGrouped(tx, queues, wanted) : [];
    if (first.length > 0) return first;
    const plain = await this.#takePlain(tx, queues, wanted);
    if (plain.length > 0 || groupsFirst) return plain;
    return this.#takeGrouped(tx, queues, wanted);
  }

  /** Returns a random delay in milliseconds before accepting a job that woke all acceptors. */
  acceptDelayMs(): number {
    return this.#contention.acceptDelayMs(this.#runtime.random);
  }

  /** Returns up to `limit` jobs for these labels that are due at `dueBySec`. A snapshot read. */
  async due(tx: ReadTransaction, type: JobType, wanted: DueWanted): Promise<JobName[]> {
    const { dueBySec, limit, labels = NO_LABELS } = wanted;
    const due: JobName[] = [];
    for (const queue of queuesFor(type, labels)) {
      if (due.length >= limit) break;
      const range = this.#keys.pending.rangeUntil({ queue, scheduledAtSec: dueBySec });
      const { entries } = await tx.snapshot.getRangePage(range, { limit: limit - due.length });
      for (const { key } of entries) due.push({ type, id: this.#keys.pending.unpack(key).id });
      const rest = { dueBySec, limit: limit - due.length };
      append(due, await this.#groups.due(tx.snapshot, queue, rest));
    }
    return due;
  }

  /** Returns the due time of the first job for these labels, in the past or the future. */
  async firstDueSec(
    tx: ReadTransaction,
    type: JobType,
    labels: Labels,
  ): Promise<number | undefined> {
    const dueSecs = await Promise.all(
      queuesFor(type, labels).flatMap((queue) => [
        this.#firstPlainDueSec(tx, queue),
        this.#groups.nextDueSec(tx.snapshot, queue),
      ]),
    );
    const firstSec = smallest(
      dueSecs.filter((dueSec) => dueSec !== undefined),
      Number.POSITIVE_INFINITY,
    );
    return firstSec === Number.POSITIVE_INFINITY ? undefined : firstSec;
  }

  async #firstPlainDueSec(tx: ReadTransaction, queue: Queue): Promise<number | undefined> {
    const range = this.#keys.pending.rangeUntil({ queue, scheduledAtSec: Number.MAX_SAFE_INTEGER });
    const [first] = (await tx.snapshot.getRangePage(range, { limit: 1 })).entries;
    return first && this.#keys.pending.unpack(first.key).scheduledAtSec;
  }

  /**
   * Returns the number of jobs that have a group and are due at `dueBySec`, but that no worker is
   * allowed to run, given the labels of the workers. Reads at most `rowsMax` rows. A snapshot read.
   */
  async unplacedCount(
    tx: ReadTransaction,
    type: JobType,
    { dueBySec, workers, rowsMax }: UnplacedWanted,
  ): Promise<number> {
    const { groupPending } = this.#keys;
    let { begin, end } = labelledBelow(this.#keys, type);
    let count = 0;
    for (let left = rowsMax; left > 0; ) {
      const { entries } = await tx.snapshot.getRangePage({ begin, end }, { limit: 1 });
      left--;
      const [first] = entries;
      if (first === undefined) return count;
      const { queue } = groupPending.unpack(first.key);
      const range = groupPending.range({ queue });
      begin = range.end;
      if (workers.some((own) => hasLabels(own, labelsOfQueue(queue)))) continue;
      for await (const { key } of tx.snapshot.getRange(range, { limit: left })) {
        left--;
        if (groupPending.unpack(key).scheduledAtSec <= dueBySec) count++;
      }
    }
    return count;
  }

  async #takeGrouped(
    tx: Transaction,
    queues: readonly Queue[],
    wanted: Wanted,
  ): Promise<JobName[]> {
    const taken = await this.#groups.take(tx, queues, wanted);
    this.#groupsHadJobs = taken.length > 0;
    if (taken.length > 0) this.#contention.note(tx);
    return taken;
  }

  async #takePlain(tx: Transaction, queues: readonly Queue[], wanted: Wanted): Promise<JobName[]> {
    const rows = wanted.noSchedule
      ? await this.#anywhere(tx, queues, wanted)
      : await this.#amongFirst(tx, queues, wanted);
    const type = typeOfQueue(queues[0] as Queue);
    return rows.map((key) => {
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
    queues: readonly Queue[],
    { dueBySec, countMax }: Wanted,
  ): Promise<readonly Key[]> {
    const limit = this.#contention.rowCount(countMax);
    const first = await Promise.all(
      queues.map(async (queue) => {
        const range = this.#keys.pending.rangeUntil({ queue, scheduledAtSec: dueBySec });
        return keysOf(await tx.snapshot.getRangePage(range, { limit }));
      }),
    );
    const keys = first.length === 1 ? (first[0] as readonly Key[]) : this.#byDueTime(first.flat());
    const found = keys.slice(0, limit);
    const batchCount = Math.ceil(found.length / countMax);
    if (batchCount === 0) return [];
    this.#contention.note(tx);
    const start = this.#runtime.random.integer(batchCount) * countMax;
    return found.slice(start, start + countMax);
  }

  #byDueTime(keys: readonly Key[]): readonly Key[] {
    return keys
      .map((key) => ({ key, dueSec: this.#keys.pending.unpack(key).scheduledAtSec }))
      .sort((left, right) => left.dueSec - right.dueSec)
      .map(({ key }) => key);
  }

  /** Returns due jobs of the first queue that has any, beginning with a random queue. */
  async #anywhere(
    tx: Transaction,
    queues: readonly Queue[],
    wanted: Wanted,
  ): Promise<readonly Key[]> {
    const start = queues.length === 1 ? 0 : this.#runtime.random.integer(queues.length);
    for (const queue of [...queues.slice(start), ...queues.slice(0, start)]) {
      const keys = await this.#anywhereIn(tx, queue, wanted);
      if (keys.length > 0) return keys;
    }
    return [];
  }

  /** Returns due jobs after a random id, or the last due jobs before it if no job follows it. */
  async #anywhereIn(
    tx: Transaction,
    queue: Queue,
    { dueBySec, countMax: limit }: Wanted,
  ): Promise<readonly Key[]> {
    const range = this.#keys.pending.rangeUntil({ queue, scheduledAtSec: dueBySec });
    const pivot = this.#keys.pending.key({
      queue,
      id: randomHex(this.#runtime.random),
      scheduledAtSec: 0,
    });
    const { snapshot } = tx;
    const behind = await snapshot.getRangePage({ begin: pivot, end: range.end }, { limit });
    if (behind.entries.length > 0) return keysOf(behind);
    const before = { begin: range.begin, end: pivot };
    return keysOf(await snapshot.getRangePage(before, { limit, reverse: true }));
  }
}

function keysOf({ entries }: { readonly entries: readonly KeyValue[] }): readonly Key[] {
  return entries.map(({ key }) => key);
}

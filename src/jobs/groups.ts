/**
 * The groups of jobs: their shares, their usage, and the selection of groups that must yield slots
 * (fair share: RFC 017). `standing.ts` orders groups, `group-queue.ts` finds the next one.
 */
import { type Runtime, smallest } from "../base/index.ts";
import {
  type Key,
  type KeyRange,
  type KeyValueStore,
  keyAfter,
  packTuple,
  type ReadTransaction,
  type Transaction,
  unpackTuple,
} from "../kv/index.ts";
import type { Candidate, GroupIndex } from "./group-index.ts";
import { decodeFairShare, encodeFairShare } from "./group-record.ts";
import type { JobType } from "./job.ts";
import type { JobCounts } from "./job-counts.ts";
import { type JobKeys, readyGroup } from "./job-keys.ts";
import { type Labels, NO_LABELS, type Queue, queuesFor } from "./labels.ts";
import {
  charged,
  checkFairShare,
  compareStandings,
  FAIR_SHARE_DEFAULT,
  type FairShare,
  type FairShareGeneration,
  SHARES_DEFAULT,
  type Standing,
  withShares,
} from "./standing.ts";

/** Maximum number of groups read per transaction when all groups are read. */
const READY_ROWS_MAX = 500;

export interface DueWanted {
  readonly dueBySec: number;
  readonly limit: number;
  /** Labels of the worker that would run the jobs. Default: no labels. */
  readonly labels?: Labels;
}

export class Groups {
  readonly #runtime: Runtime;
  readonly #keys: JobKeys;
  readonly #index: GroupIndex;
  readonly #counts: JobCounts;

  constructor(
    runtime: Runtime,
    {
      keys,
      index,
      counts,
    }: {
      readonly keys: JobKeys;
      readonly index: GroupIndex;
      readonly counts: JobCounts;
    },
  ) {
    this.#runtime = runtime;
    this.#keys = keys;
    this.#index = index;
    this.#counts = counts;
  }

  /**
   * Sets how usage decays. Existing usage is kept. Writes nothing if the fair share is unchanged.
   */
  async setFairShare(tx: Transaction, type: JobType, fairShare: FairShare): Promise<void> {
    checkFairShare(fairShare);
    const { generation, ...stored } = await this.fairShare(tx, type);
    const { usageCoefficient, intervalSec, instalmentSec } = fairShare;
    if (
      stored.usageCoefficient === usageCoefficient &&
      stored.intervalSec === intervalSec &&
      stored.instalmentSec === instalmentSec
    ) {
      return;
    }
    tx.set(
      this.#keys.fairShare.key({ type }),
      encodeFairShare({
        usageCoefficient,
        intervalSec,
        instalmentSec,
        generation: generation + 1,
      }),
    );
  }

  async fairShare(tx: ReadTransaction, type: JobType): Promise<FairShareGeneration> {
    const value = await tx.get(this.#keys.fairShare.key({ type }));
    return value === undefined ? { ...FAIR_SHARE_DEFAULT, generation: 0 } : decodeFairShare(value);
  }

  /** Sets the shares of a group, from 1 to 1000. Takes effect immediately, also for queued jobs. */
  async setShares(tx: Transaction, type: JobType, group: string, shares: number): Promise<void> {
    const before = await this.standing(tx, type, group);
    if (before.shares === shares) return;
    await this.#index.restand(tx, type, group, before, withShares(before, shares));
    if (shares === SHARES_DEFAULT) tx.clear(this.#keys.shares.key({ type, group }));
    else tx.set(this.#keys.shares.key({ type, group }), packTuple([shares]));
  }

  /** Sets the shares of all groups of a type. Groups that are not named receive the default. */
  async setAllShares(
    tx: Transaction,
    type: JobType,
    shares: ReadonlyMap<string, number>,
  ): Promise<void> {
    const stored = await this.#sharesThatDiffer(tx, type);
    for (const group of stored.keys()) {
      if (!shares.has(group)) await this.setShares(tx, type, group, SHARES_DEFAULT);
    }
    for (const [group, count] of shares) await this.setShares(tx, type, group, count);
  }

  async #sharesThatDiffer(tx: ReadTransaction, type: JobType): Promise<Map<string, number>> {
    const { entries } = await tx.getRangePage(this.#keys.shares.range({ type }));
    return new Map(
      entries.map(({ key, value }) => [
        this.#keys.shares.unpack(key).group,
        unpackTuple(value)[0] as number,
      ]),
    );
  }

  /** Returns shares and usage of a group. `usageSec` computes the usage at a given time. */
  standing(tx: ReadTransaction, type: JobType, group: string): Promise<Standing> {
    return this.#index.standing(tx, type, group);
  }

  /**
   * Sets the maximum number of concurrently running jobs of the group, cluster-wide; undefined for
   * no limit.
   */
  setLimit(tx: Transaction, type: JobType, group: string, countMax: number | undefined): void {
    const key = this.#keys.groupLimit.key({ type, group });
    if (countMax === undefined) tx.clear(key);
    else tx.set(key, packTuple([countMax]));
  }

  /**
   * Returns the number of additional jobs of the group that are allowed to run. If the group has a
   * limit, the transaction conflicts with every start and end of the group's jobs.
   */
  async room(tx: ReadTransaction, type: JobType, group: string): Promise<number> {
    const value = await tx.get(this.#keys.groupLimit.key({ type, group }));
    if (value === undefined) return Number.POSITIVE_INFINITY;
    return limitOf(value) - (await this.#counts.running(tx, type, group));
  }

  /**
   * Whether the group has a limit. A snapshot read, so the result might be outdated; callers check
   * again soon.
   */
  async isLimited(tx: ReadTransaction, type: JobType, group: string): Promise<boolean> {
    return (await tx.snapshot.get(this.#keys.groupLimit.key({ type, group }))) !== undefined;
  }

  /**
   * Returns the groups at or above their limit in which this worker should stop jobs, with the
   * number of jobs to stop. Cluster-wide, a group must stop as many jobs as it runs above its
   * limit, plus one per due job (counting at most `limit`). This worker stops its proportional part
   * of these, rounded up. `held` is the number of jobs that this worker runs, by group; `labels`
   * are the labels of this worker. A snapshot read.
   */
  async crowded(
    tx: ReadTransaction,
    type: JobType,
    held: ReadonlyMap<string, number>,
    { dueBySec, limit, labels = NO_LABELS }: DueWanted,
  ): Promise<ReadonlyMap<string, number>> {
    const { snapshot } = tx;
    const queues = queuesFor(type, labels);
    const { entries } = await snapshot.getRangePage(this.#keys.groupLimit.range({ type }));
    const found = new Map<string, number>();
    for (const { key, value } of entries) {
      const group = this.#keys.groupLimit.unpack(key).group;
      const heldCount = held.get(group);
      if (heldCount === undefined) continue;
      const { running } = await this.#counts.read(tx, type, group);
      const excess = running - limitOf(value);
      if (excess < 0) continue;
      const waiting = await Promise.all(
        queues.map(async (queue) => {
          const due = { queue, group, scheduledAtSec: dueBySec };
          const range = this.#keys.groupPending.rangeUntil(due);
          return (await snapshot.getRangePage(range, { limit })).entries.length;
        }),
      );
      const waitingCount = waiting.reduce((sum, count) => sum + count, 0);
      const stopCount = excess + Math.min(limit, waitingCount);
      const ownCount = Math.ceil((stopCount * heldCount) / Math.max(1, running));
      if (ownCount > 0) found.set(group, ownCount);
    }
    return found;
  }

  /** Charges groups for run time in seconds. Negative values refund charges made in advance. */
  async charge(
    tx: Transaction,
    type: JobType,
    runSecByGroup: ReadonlyMap<string, number>,
  ): Promise<void> {
    if (runSecByGroup.size === 0) return;
    const fairShare = await this.fairShare(tx, type);
    const nowSec = this.#nowSec();
    for (const [group, runSec] of runSecByGroup) {
      const before = await this.standing(tx, type, group);
      await this.#index.restand(
        tx,
        type,
        group,
        before,
        charged(before, fairShare, runSec, nowSec),
      );
    }
  }

  /**
   * Returns the groups in `running` whose jobs can be stopped in favour of the next group, highest
   * standing first. The next group is the group with the lowest standing that has a job due at
   * `dueBySec` for a worker with these labels. If the next group is itself in `running`, it comes
   * last, because its due jobs can replace its running ones. A snapshot read.
   */
  async givingWay(
    tx: ReadTransaction,
    type: JobType,
    running: Iterable<string>,
    dueBySec: number,
    labels: Labels = NO_LABELS,
  ): Promise<string[]> {
    const reader = tx.snapshot;
    const lowest = await this.#next(reader, type, dueBySec, labels);
    if (lowest === undefined) return [];
    const standings = await this.#standings(reader, type, new Set(running));
    return standings
      .filter((standing) => compareStandings(standing, lowest) >= 0)
      .toSorted((left, right) => compareStandings(right, left))
      .map(({ group }) => group);
  }

  /**
   * Returns those of `groups` whose standing is higher than that of the next group: the group with
   * the lowest standing that has a job due at `dueBySec` for a worker with these labels. A snapshot
   * read.
   */
  async notNext(
    tx: ReadTransaction,
    type: JobType,
    groups: ReadonlySet<string>,
    dueBySec: number,
    labels: Labels = NO_LABELS,
  ): Promise<ReadonlySet<string>> {
    if (groups.size === 0) return new Set();
    const lowest = await this.#next(tx.snapshot, type, dueBySec, labels);
    if (lowest === undefined) return new Set();
    const standings = await this.#standings(tx.snapshot, type, groups);
    const higher = standings.filter((standing) => compareStandings(standing, lowest) > 0);
    return new Set(higher.map(({ group }) => group));
  }

  /**
   * Returns the group with the lowest standing among the groups that have a job due at `dueBySec`.
   */
  async #next(
    tx: ReadTransaction,
    type: JobType,
    dueBySec: number,
    labels: Labels,
  ): Promise<Candidate | undefined> {
    const queues = queuesFor(type, labels);
    const waiting = [...(await this.#index.candidates(tx, queues, 1))];
    for (const { group } of await this.#index.comeDue(tx, queues, dueBySec)) {
      waiting.push({ ...(await this.standing(tx, type, group)), group });
    }
    return waiting.toSorted(compareStandings)[0];
  }

  #standings(
    tx: ReadTransaction,
    type: JobType,
    groups: ReadonlySet<string>,
  ): Promise<Candidate[]> {
    const read = async (group: string): Promise<Candidate> => ({
      ...(await this.standing(tx, type, group)),
      group,
    });
    return Promise.all([...groups].map(read));
  }

  /**
   * Returns the due time of the due job that has waited longest, among the grouped jobs that a
   * worker with one of these sets of labels is allowed to run; `undefined` if no such job is due.
   * Reads every ready group, in several transactions if necessary.
   */
  async longestDueSec(
    kv: KeyValueStore,
    type: JobType,
    sets: readonly Labels[] = [NO_LABELS],
  ): Promise<number | undefined> {
    const queues = sets.flatMap((labels) => queuesFor(type, labels));
    const distinct = new Map(queues.map((queue) => [JSON.stringify(queue), queue]));
    let earliestSec = Infinity;
    for (const queue of distinct.values()) {
      const nextDueSec = await kv.read((tx) => this.#index.nextDueSec(tx.snapshot, queue));
      if (nextDueSec !== undefined && nextDueSec <= this.#nowSec()) {
        earliestSec = Math.min(earliestSec, nextDueSec);
      }
      const { begin, end } = this.#keys.ready.range({ queue });
      for (let from: Key | undefined = begin; from !== undefined; ) {
        const range: KeyRange = { begin: from, end };
        const page = await kv.read((tx) => this.#firstDueSecs(tx.snapshot, queue, range));
        earliestSec = smallest(page.dueSecs, earliestSec);
        from = page.next;
      }
    }
    return earliestSec === Infinity ? undefined : earliestSec;
  }

  /**
   * Returns the due time of the group's first pending job, possibly in the past, or `undefined` if
   * no job is pending. Ignores jobs that require labels if the group is not ready in their queue.
   */
  async firstDueSec(
    tx: ReadTransaction,
    type: JobType,
    group: string,
  ): Promise<number | undefined> {
    const queues = [type, ...(await this.#index.readyQueues(tx, type, group))];
    const dueSecs = await Promise.all(queues.map((queue) => this.#firstDueSec(tx, queue, group)));
    const known = dueSecs.filter((dueSec) => dueSec !== undefined);
    return known.length === 0 ? undefined : smallest(known, Infinity);
  }

  async #firstDueSec(
    tx: ReadTransaction,
    queue: Queue,
    group: string,
  ): Promise<number | undefined> {
    const range = this.#keys.groupPending.range({ queue, group });
    const [first] = (await tx.getRangePage(range, { limit: 1 })).entries;
    return first && this.#keys.groupPending.unpack(first.key).scheduledAtSec;
  }

  /**
   * Reads a page of the groups that are ready in a queue. Returns the due time of the first job of
   * each group.
   */
  async #firstDueSecs(tx: ReadTransaction, queue: Queue, range: KeyRange) {
    const { entries, stoppedBy } = await tx.getRangePage(range, { limit: READY_ROWS_MAX });
    const dueSecs = await Promise.all(
      entries.map(async ({ key }) => {
        const { group } = readyGroup(this.#keys, key);
        return (await this.#firstDueSec(tx, queue, group)) ?? Infinity;
      }),
    );
    const last = entries.at(-1);
    const next = stoppedBy === "exhausted" || last === undefined ? undefined : keyAfter(last.key);
    return { dueSecs, next };
  }

  #nowSec(): number {
    return this.#runtime.clock.nowMs() / 1000;
  }
}

function limitOf(value: Uint8Array): number {
  return Number(unpackTuple(value)[0]);
}

/**
 * Which group is next (fair share: RFC 017). The queue of grouped jobs has two levels: first the group with the lowest standing,
 * then, in it, the job that has waited longest. `standing.ts` says what a standing is.
 *
 *   none    no job of the group is pending
 *   later   all its pending jobs are due in the future: in the index by the earliest of these times
 *   ready   it has a job that is due: in the index by its standing
 *
 * Who adds a job reads nothing but the group's place, which changes only when the group's queue runs empty or comes due; so it
 * conflicts neither with others that add nor with charges. Who accepts charges the group, and two that accept from one group at
 * the same time conflict: the second has to look who is next now.
 */
import { EMPTY_BYTES, type Runtime } from "../base/index.ts";
import {
  type Key,
  type KeyRange,
  type KeyValue,
  type KeyValueStore,
  keyAfter,
  packTuple,
  type ReadTransaction,
  type Transaction,
  unpackTuple,
} from "../kv/index.ts";
import {
  decodeFairShare,
  decodePlace,
  decodeStanding,
  encodeFairShare,
  encodePlace,
  encodeStanding,
  type Place,
} from "./group-record.ts";
import type { JobName, JobType } from "./job.ts";
import type { JobKeys } from "./job-keys.ts";
import {
  charged,
  checkFairShare,
  compareStandings,
  FAIR_SHARE_DEFAULT,
  type FairShare,
  type FairShareGeneration,
  NO_USAGE,
  type Order,
  SHARES_DEFAULT,
  type Standing,
  withShares,
} from "./standing.ts";

/** Groups that an acceptor looks at. */
const CANDIDATE_COUNT_MAX = 8;
/** Standings within so much (2 %) of the lowest count as equal, and one of them is taken at random: fewer conflicts. */
const SIMILAR_SCORE = 0.02;
/** Groups that an acceptor moves from later to ready when their time has come. */
const COME_DUE_COUNT_MAX = 8;
/** Groups that are looked at in one transaction where all are to be. */
const READY_ROWS_MAX = 500;

type Candidate = Order & { readonly group: string };

export class Groups {
  readonly #runtime: Runtime;
  readonly #keys: JobKeys;

  constructor(runtime: Runtime, keys: JobKeys) {
    this.#runtime = runtime;
    this.#keys = keys;
  }

  // Fair share

  /** Sets how usage is forgotten. What was used so far stays used. Writes nothing when it is so already. */
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
      this.#keys.fairShare(type),
      encodeFairShare({ ...fairShare, generation: generation + 1 }),
    );
  }

  async fairShare(tx: ReadTransaction, type: JobType): Promise<FairShareGeneration> {
    const value = await tx.get(this.#keys.fairShare(type));
    return value === undefined ? { ...FAIR_SHARE_DEFAULT, generation: 0 } : decodeFairShare(value);
  }

  /** Sets the shares of a group, from 1 to 1000. Takes effect at once, on jobs that wait already. */
  async setShares(tx: Transaction, type: JobType, group: string, shares: number): Promise<void> {
    const before = await this.standing(tx, type, group);
    if (before.shares === shares) return;
    await this.#restand(tx, type, group, before, withShares(before, shares));
    if (shares === SHARES_DEFAULT) tx.clear(this.#keys.shares(type, group));
    else tx.set(this.#keys.shares(type, group), packTuple([shares]));
  }

  /** Sets the shares of all groups of a type: those that are not named have the default again. */
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
    const { entries } = await tx.getRangePage(this.#keys.sharesOfType(type));
    return new Map(
      entries.map(({ key, value }) => [
        this.#keys.lastElement(key) as string,
        unpackTuple(value)[0] as number,
      ]),
    );
  }

  /** Shares and usage of a group; `usageSec` tells how much that is at a given time. */
  async standing(tx: ReadTransaction, type: JobType, group: string): Promise<Standing> {
    const value = await tx.get(this.#keys.standing(type, group));
    return value === undefined ? NO_USAGE : decodeStanding(value);
  }

  /** Charges groups for run time in seconds; less than zero gives back what was charged ahead. */
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
      await this.#restand(tx, type, group, before, charged(before, fairShare, runSec, nowSec));
    }
  }

  /**
   * Which of `running` have to give way, highest first: those that stand higher than some group that has a job due at `dueBySec`,
   * and last that group itself, whose jobs take turns. A snapshot: nothing conflicts with it.
   */
  async givingWay(
    tx: ReadTransaction,
    type: JobType,
    running: Iterable<string>,
    dueBySec: number,
  ): Promise<string[]> {
    const reader = tx.snapshot;
    const waiting: Candidate[] = await this.#candidates(reader, type, 1);
    for (const { group } of await this.#comeDue(reader, type, dueBySec)) {
      waiting.push({ ...(await this.standing(reader, type, group)), group });
    }
    const [lowest] = waiting.toSorted(compareStandings);
    if (lowest === undefined) return [];
    const standings = await Promise.all(
      [...new Set(running)].map(async (group) => ({
        ...(await this.standing(reader, type, group)),
        group,
      })),
    );
    return standings
      .filter((standing) => compareStandings(standing, lowest) >= 0)
      .toSorted((left, right) => compareStandings(right, left))
      .map(({ group }) => group);
  }

  // The queue

  /** Puts a job into its group's queue. */
  async enter(tx: Transaction, job: JobName, group: string, scheduledAtSec: number): Promise<void> {
    tx.set(this.#keys.groupPending(job, group, scheduledAtSec), EMPTY_BYTES);
    const place = await this.#place(tx, job.type, group);
    if (place.kind === "ready") return;
    if (place.kind === "later" && place.dueAtSec <= scheduledAtSec) return;
    await this.#move(tx, job.type, group, place, { kind: "later", dueAtSec: scheduledAtSec });
  }

  /** Takes a job out of its group's queue that nobody accepts. */
  async leave(tx: Transaction, job: JobName, group: string, scheduledAtSec: number): Promise<void> {
    const { type } = job;
    tx.clear(this.#keys.groupPending(job, group, scheduledAtSec));
    const place = await this.#place(tx, type, group);
    const { entries } = await tx.getRangePage(this.#keys.groupQueue(type, group), { limit: 1 });
    const next = this.#placeFor(entries[0]);
    const isDue = next.kind === "later" && next.dueAtSec <= this.#nowSec();
    if (place.kind === "ready" && isDue) return;
    await this.#move(tx, type, group, place, next);
  }

  /** Takes up to `countMax` jobs that are due at `dueBySec` from the group that is next; none when no group has any. */
  async take(
    tx: Transaction,
    type: JobType,
    { dueBySec, countMax }: { readonly dueBySec: number; readonly countMax: number },
  ): Promise<JobName[]> {
    for (const { group, dueAtSec } of await this.#comeDue(tx.snapshot, type, dueBySec)) {
      await this.#move(tx, type, group, { kind: "later", dueAtSec }, { kind: "ready" });
    }
    const candidates = await this.#candidates(tx.snapshot, type, CANDIDATE_COUNT_MAX);
    while (candidates.length > 0) {
      const chosen = this.#choose(candidates);
      const taken = await this.#takeFrom(tx, type, chosen.group, {
        dueBySec,
        countMax,
        next: candidates[0],
      });
      if (taken.length > 0) return taken;
    }
    return [];
  }

  /** How many jobs of groups are due at `dueBySec`, counted up to `limit`. */
  async dueCount(
    tx: ReadTransaction,
    type: JobType,
    { dueBySec, limit }: { readonly dueBySec: number; readonly limit: number },
  ): Promise<number> {
    let count = 0;
    const visit = async (group: string): Promise<void> => {
      const range = this.#keys.groupPendingUntil(type, group, dueBySec);
      count += (await tx.getRangePage(range, { limit: limit - count })).entries.length;
    };
    for await (const { key } of tx.getRange(this.#keys.readyGroups(type))) {
      if (count >= limit) return count;
      await visit(this.#keys.readyGroup(key).group);
    }
    for await (const { key } of tx.getRange(this.#keys.laterGroupsUntil(type, dueBySec))) {
      if (count >= limit) return count;
      await visit(this.#keys.laterGroup(key).group);
    }
    return count;
  }

  /** When the next group comes due that is not due yet; undefined when all are, or there is none. */
  async nextDueSec(tx: ReadTransaction, type: JobType): Promise<number | undefined> {
    const { entries } = await tx.getRangePage(this.#keys.laterGroups(type), { limit: 1 });
    return entries[0] && this.#keys.laterGroup(entries[0].key).dueAtSec;
  }

  /**
   * Since when the job has been due that waits longest; undefined when none of the groups has one that is due. Looks at every
   * ready group, in as many transactions as that takes.
   */
  async longestDueSec(kv: KeyValueStore, type: JobType): Promise<number | undefined> {
    const nextDueSec = await kv.read((tx) => this.nextDueSec(tx.snapshot, type));
    let earliestSec =
      nextDueSec !== undefined && nextDueSec <= this.#nowSec() ? nextDueSec : Infinity;
    const { begin, end } = this.#keys.readyGroups(type);
    for (let from: Key | undefined = begin; from !== undefined; ) {
      const range: KeyRange = { begin: from, end };
      const page = await kv.read((tx) => this.#firstDueSecs(tx.snapshot, type, range));
      earliestSec = Math.min(earliestSec, ...page.dueSecs);
      from = page.next;
    }
    return earliestSec === Infinity ? undefined : earliestSec;
  }

  /** Of each ready group of a page, when its first job came due. */
  async #firstDueSecs(tx: ReadTransaction, type: JobType, range: KeyRange) {
    const { entries, stoppedBy } = await tx.getRangePage(range, { limit: READY_ROWS_MAX });
    const dueSecs = await Promise.all(
      entries.map(async ({ key }) => {
        const queue = this.#keys.groupQueue(type, this.#keys.readyGroup(key).group);
        const [first] = (await tx.getRangePage(queue, { limit: 1 })).entries;
        return first === undefined ? Infinity : this.#keys.queued(first.key).scheduledAtSec;
      }),
    );
    const last = entries.at(-1);
    const next = stoppedBy === "exhausted" || last === undefined ? undefined : keyAfter(last.key);
    return { dueSecs, next };
  }

  async #takeFrom(
    tx: Transaction,
    type: JobType,
    group: string,
    {
      dueBySec,
      countMax,
      next,
    }: {
      readonly dueBySec: number;
      readonly countMax: number;
      readonly next: Order | undefined;
    },
  ): Promise<JobName[]> {
    const [fairShare, before] = await Promise.all([
      this.fairShare(tx, type),
      this.standing(tx, type, group),
    ]);
    const queue = this.#keys.groupQueue(type, group);
    const { entries: rows } = await tx.snapshot.getRangePage(queue, { limit: countMax + 1 });
    const isDue = ({ key }: KeyValue): boolean => this.#keys.queued(key).scheduledAtSec <= dueBySec;
    const due = rows.filter(isDue);
    let standing = before;
    const nowSec = this.#nowSec();
    const taken: JobName[] = [];
    for (const { key } of due.slice(0, countMax)) {
      // As many as if each were accepted alone: until another group's turn has come.
      const isOthersTurn = next !== undefined && compareStandings(next, standing) < 0;
      if (taken.length > 0 && isOthersTurn) break;
      tx.addReadConflictKey(key);
      tx.clear(key);
      taken.push({ type, id: this.#keys.queued(key).id });
      standing = charged(standing, fairShare, fairShare.instalmentSec, nowSec);
    }
    const rest = rows[taken.length];
    if (rest !== undefined && isDue(rest)) {
      // As long as this one is there, the group is ready.
      tx.addReadConflictKey(rest.key);
    } else {
      const end = rest === undefined ? queue.end : keyAfter(rest.key);
      tx.addReadConflictRange({ begin: queue.begin, end });
      await this.#move(tx, type, group, { kind: "ready" }, this.#placeFor(rest));
    }
    await this.#restand(tx, type, group, before, standing);
    return taken;
  }

  /** Takes one of those that stand lowest out of the list. */
  #choose(candidates: Candidate[]): Candidate {
    const lowest = candidates[0] as Candidate;
    const isSimilar = ({ generation, score }: Candidate): boolean =>
      generation === lowest.generation &&
      (lowest.score === undefined
        ? score === undefined
        : score !== undefined && score - lowest.score <= SIMILAR_SCORE);
    const similarCount = candidates.filter(isSimilar).length;
    return candidates.splice(this.#runtime.random.integer(similarCount), 1)[0] as Candidate;
  }

  /** The first ready groups, lowest standing first. */
  async #candidates(tx: ReadTransaction, type: JobType, limit: number): Promise<Candidate[]> {
    const { entries } = await tx.getRangePage(this.#keys.readyGroups(type), { limit });
    return entries.map(({ key }) => this.#keys.readyGroup(key));
  }

  /** Groups that wait in the index by time although their time has come. */
  async #comeDue(tx: ReadTransaction, type: JobType, dueBySec: number) {
    const range = this.#keys.laterGroupsUntil(type, dueBySec);
    const { entries } = await tx.getRangePage(range, { limit: COME_DUE_COUNT_MAX });
    return entries.map(({ key }) => this.#keys.laterGroup(key));
  }

  async #place(tx: ReadTransaction, type: JobType, group: string): Promise<Place> {
    const value = await tx.get(this.#keys.place(type, group));
    return value === undefined ? { kind: "none" } : decodePlace(value);
  }

  /** The place of a group whose queue begins with this row. */
  #placeFor(first: KeyValue | undefined): Place {
    if (first === undefined) return { kind: "none" };
    return { kind: "later", dueAtSec: this.#keys.queued(first.key).scheduledAtSec };
  }

  async #move(
    tx: Transaction,
    type: JobType,
    group: string,
    from: Place,
    to: Place,
  ): Promise<void> {
    tx.addReadConflictKey(this.#keys.place(type, group));
    const fromKey = await this.#indexKey(tx, type, group, from);
    const toKey = await this.#indexKey(tx, type, group, to);
    if (fromKey !== undefined) tx.clear(fromKey);
    if (toKey !== undefined) tx.set(toKey, EMPTY_BYTES);
    if (to.kind === "none") tx.clear(this.#keys.place(type, group));
    else tx.set(this.#keys.place(type, group), encodePlace(to));
  }

  async #indexKey(
    tx: ReadTransaction,
    type: JobType,
    group: string,
    place: Place,
  ): Promise<Key | undefined> {
    if (place.kind === "none") return undefined;
    if (place.kind === "later") return this.#keys.later(type, place.dueAtSec, group);
    return this.#keys.ready(type, await this.standing(tx, type, group), group);
  }

  /** Writes a standing, and the group's row in the index if it is there. */
  async #restand(
    tx: Transaction,
    type: JobType,
    group: string,
    from: Standing,
    to: Standing,
  ): Promise<void> {
    if (from === to) return;
    tx.set(this.#keys.standing(type, group), encodeStanding(to));
    if ((await this.#place(tx, type, group)).kind !== "ready") return;
    tx.clear(this.#keys.ready(type, from, group));
    tx.set(this.#keys.ready(type, to, group), EMPTY_BYTES);
  }

  #nowSec(): number {
    return this.#runtime.clock.nowMs() / 1000;
  }
}

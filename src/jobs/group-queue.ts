/**
 * The queue of grouped jobs, in two levels: first the group with the lowest standing, then the job
 * of that group that has waited longest. `standing.ts` defines standings.
 *
 * A transaction that adds a job reads only the group's index position, which changes when the
 * group's queue becomes empty or due. It therefore conflicts neither with other additions nor with
 * charges. Acceptors charge the group, so two acceptors that accept from the same group
 * concurrently conflict, and the second one determines the next group again.
 */
import { compareBytes, EMPTY_BYTES, type Runtime } from "../base/index.ts";
import {
  type Key,
  type KeyValue,
  keyAfter,
  type ReadTransaction,
  type Transaction,
} from "../kv/index.ts";
import type { Candidate, GroupIndex } from "./group-index.ts";
import type { Place } from "./group-record.ts";
import type { Groups } from "./groups.ts";
import type { JobName, JobType } from "./job.ts";
import { type JobKeys, readyGroup } from "./job-keys.ts";
import { charged, compareStandings, type Order } from "./standing.ts";

/** Maximum number of groups that an acceptor considers. */
const CANDIDATE_COUNT_MAX = 8;
/**
 * Interval after which a group at its limit is checked again, unless a job of the group ends
 * earlier.
 */
const FULL_SEC = 10;
/**
 * Groups with a standing up to 2 % above the lowest are treated as equal: one of them is chosen at
 * random, to reduce conflicts.
 */
const SIMILAR_SCORE = 0.02;

/**
 * The queue has no job before this key. Without this knowledge, a command that removes many jobs in
 * a transaction would read past all rows that it has cleared, once per job.
 */
interface Beginning {
  readonly emptyUntil: Key;
  /** False while the first row is being read. */
  readonly isRead: boolean;
}

export class GroupQueue {
  readonly #runtime: Runtime;
  readonly #keys: JobKeys;
  readonly #groups: Groups;
  readonly #index: GroupIndex;
  /** Known beginnings of queues, by transaction and group. */
  readonly #beginnings = new WeakMap<Transaction, Map<string, Beginning>>();

  constructor(
    runtime: Runtime,
    parts: { readonly keys: JobKeys; readonly groups: Groups; readonly index: GroupIndex },
  ) {
    this.#runtime = runtime;
    this.#keys = parts.keys;
    this.#groups = parts.groups;
    this.#index = parts.index;
  }

  /** Adds a job to its group's queue. */
  async enter(tx: Transaction, job: JobName, group: string, scheduledAtSec: number): Promise<void> {
    const key = this.#keys.groupPending.key({ ...job, group, scheduledAtSec });
    tx.set(key, EMPTY_BYTES);
    const beginnings = this.#beginnings.get(tx);
    const name = nameOf(job.type, group);
    const known = beginnings?.get(name);
    if (known?.isRead === false || (known && compareBytes(key, known.emptyUntil) < 0)) {
      beginnings?.delete(name);
    }
    await this.#index.change(tx, job.type, group, (place) => {
      if (place.kind === "ready") return undefined;
      if (place.kind === "later" && place.dueAtSec <= scheduledAtSec) return undefined;
      return { kind: "later", dueAtSec: scheduledAtSec };
    });
  }

  /** Removes a job from its group's queue without accepting it. */
  async leave(tx: Transaction, job: JobName, group: string, scheduledAtSec: number): Promise<void> {
    const { type } = job;
    tx.clear(this.#keys.groupPending.key({ ...job, group, scheduledAtSec }));
    await this.#index.change(tx, type, group, async (place) => {
      // A job after the first one does not determine the position of its group.
      if (place.kind === "later" && scheduledAtSec > place.dueAtSec) return undefined;
      if (place.kind === "ready" && scheduledAtSec > this.#nowSec()) return undefined;
      const next = this.#index.placeFor(await this.#first(tx, type, group));
      const isDue = next.kind === "later" && next.dueAtSec <= this.#nowSec();
      return place.kind === "ready" && isDue ? undefined : next;
    });
  }

  /** Reads the first row of the group's queue. */
  async #first(tx: Transaction, type: JobType, group: string): Promise<KeyValue | undefined> {
    const beginnings = this.#beginnings.get(tx) ?? new Map<string, Beginning>();
    this.#beginnings.set(tx, beginnings);
    const name = nameOf(type, group);
    const queue = this.#keys.groupPending.range({ type, group });
    const begin = beginnings.get(name)?.emptyUntil ?? queue.begin;
    const reading: Beginning = { emptyUntil: begin, isRead: false };
    beginnings.set(name, reading);
    const page = await tx.getRangePage({ begin, end: queue.end }, { limit: 1 });
    const [first] = page.entries;
    // If a job has entered the queue meanwhile, it has deleted this entry of `beginnings`.
    if (beginnings.get(name) === reading) {
      beginnings.set(name, { emptyUntil: first?.key ?? queue.end, isRead: true });
    }
    return first;
  }

  /**
   * Removes up to `countMax` jobs due at `dueBySec` from the queue of the next group. Returns an
   * empty list if no group has a due job.
   */
  async take(
    tx: Transaction,
    type: JobType,
    { dueBySec, countMax }: { readonly dueBySec: number; readonly countMax: number },
  ): Promise<JobName[]> {
    for (const { group, dueAtSec } of await this.#index.comeDue(tx.snapshot, type, dueBySec)) {
      await this.#index.move(tx, type, group, { kind: "later", dueAtSec }, { kind: "ready" });
    }
    const candidates = await this.#index.candidates(tx.snapshot, type, CANDIDATE_COUNT_MAX);
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

  /** Jobs of groups due at `dueBySec`, up to `limit`. */
  async due(
    tx: ReadTransaction,
    type: JobType,
    { dueBySec, limit }: { readonly dueBySec: number; readonly limit: number },
  ): Promise<JobName[]> {
    const names: JobName[] = [];
    const visit = async (group: string): Promise<void> => {
      const range = this.#keys.groupPending.rangeUntil({ type, group, scheduledAtSec: dueBySec });
      const { entries } = await tx.getRangePage(range, { limit: limit - names.length });
      for (const { key } of entries)
        names.push({ type, id: this.#keys.groupPending.unpack(key).id });
    };
    for await (const { key } of tx.getRange(this.#keys.ready.range({ type }))) {
      if (names.length >= limit) return names;
      await visit(readyGroup(this.#keys, key).group);
    }
    for await (const { key } of tx.getRange(
      this.#keys.later.rangeUntil({ type, dueAtSec: dueBySec }),
    )) {
      if (names.length >= limit) return names;
      await visit(this.#keys.later.unpack(key).group);
    }
    return names;
  }

  /**
   * Time at which the next group becomes due, in seconds since the epoch; undefined if no group has
   * a job. 0 if the last `take` found no jobs in the groups that it considered, but other groups
   * are ready.
   */
  async nextDueSec(tx: ReadTransaction, type: JobType): Promise<number | undefined> {
    const [ready, laterSec] = await Promise.all([
      this.#index.candidates(tx, type, 1),
      this.#index.nextDueSec(tx, type),
    ]);
    return ready.length > 0 ? 0 : laterSec;
  }

  /**
   * Called when the number of the group's running jobs decreases or its limit is raised. A group
   * that was waiting at its limit becomes ready again.
   */
  async released(tx: Transaction, type: JobType, group: string): Promise<void> {
    await this.#index.change(tx, type, group, async (place) => {
      if (place.kind !== "later") return undefined;
      const { entries } = await tx.getRangePage(this.#keys.groupPending.range({ type, group }), {
        limit: 1,
      });
      const first = this.#index.placeFor(entries[0]);
      const isWaiting = first.kind === "later" && first.dueAtSec < place.dueAtSec;
      if (!isWaiting) return undefined;
      tx.add(this.#keys.enqueued.key({ type }), 1n);
      return first;
    });
  }

  async #takeFrom(
    tx: Transaction,
    type: JobType,
    group: string,
    {
      dueBySec,
      countMax: wantedCount,
      next,
    }: {
      readonly dueBySec: number;
      readonly countMax: number;
      readonly next: Order | undefined;
    },
  ): Promise<JobName[]> {
    const [fairShare, before] = await Promise.all([
      this.#groups.fairShare(tx, type),
      this.#index.standing(tx, type, group),
    ]);
    const countMax = Math.min(wantedCount, await this.#groups.room(tx, type, group));
    if (countMax <= 0) {
      const full: Place = { kind: "later", dueAtSec: dueBySec + FULL_SEC };
      await this.#index.move(tx, type, group, { kind: "ready" }, full);
      return [];
    }
    const queue = this.#keys.groupPending.range({ type, group });
    const { entries: rows } = await tx.snapshot.getRangePage(queue, { limit: countMax + 1 });
    const isDue = ({ key }: KeyValue): boolean =>
      this.#keys.groupPending.unpack(key).scheduledAtSec <= dueBySec;
    const due = rows.filter(isDue);
    let standing = before;
    const nowSec = this.#nowSec();
    const taken: JobName[] = [];
    for (const { key } of due.slice(0, countMax)) {
      // Stops taking jobs when another group is next, as if each job were accepted separately.
      const isOthersTurn = next !== undefined && compareStandings(next, standing) < 0;
      if (taken.length > 0 && isOthersTurn) break;
      tx.addReadConflictKey(key);
      tx.clear(key);
      taken.push({ type, id: this.#keys.groupPending.unpack(key).id });
      standing = charged(standing, fairShare, fairShare.instalmentSec, nowSec);
    }
    const rest = rows[taken.length];
    if (rest !== undefined && isDue(rest)) {
      // A concurrent removal of this job must conflict, because the group is ready only while the
      // job is queued.
      tx.addReadConflictKey(rest.key);
    } else {
      const end = rest === undefined ? queue.end : keyAfter(rest.key);
      tx.addReadConflictRange({ begin: queue.begin, end });
      await this.#index.move(tx, type, group, { kind: "ready" }, this.#index.placeFor(rest));
    }
    await this.#index.restand(tx, type, group, before, standing);
    return taken;
  }

  /** Removes one of the groups with the lowest standing from the list, and returns the group. */
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

  #nowSec(): number {
    return this.#runtime.clock.nowMs() / 1000;
  }
}

function nameOf(type: JobType, group: string): string {
  return JSON.stringify([type, group]);
}

/**
 * The queues of grouped jobs, in two levels: first the group with the lowest standing, then the job
 * of that group that has waited longest. `standing.ts` defines standings. An acceptor treats the
 * queues for its labels as one queue.
 *
 * A transaction that adds a job reads only the group's index position, and conflicts with a
 * concurrent change of the position only if acceptors would then not find the job. Therefore, it
 * conflicts neither with most other additions nor with charges. Acceptors charge the group, so two
 * acceptors that accept from the same group concurrently conflict, and the second one determines
 * the next group again.
 */
import { compareBytes, EMPTY_BYTES, type Runtime } from "../base/index.ts";
import {
  type Key,
  type KeyBounds,
  type KeyValue,
  keyAfter,
  type ReadTransaction,
  type Transaction,
} from "../kv/index.ts";
import type { Candidate, GroupIndex } from "./group-index.ts";
import type { Place } from "./group-record.ts";
import type { Groups } from "./groups.ts";
import type { JobName, JobPlan } from "./job.ts";
import { type JobKeys, readyGroup } from "./job-keys.ts";
import { type Queue, queueOf, typeOfQueue } from "./labels.ts";
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

/** The plan of a job with a group. */
export type GroupedPlan = JobPlan & { readonly group: string };

/**
 * A key before which the queue has no job. A command that removes many jobs in one transaction
 * starts reading at this key. Otherwise, it would step over all rows that it has cleared, once per
 * job.
 */
interface Beginning {
  readonly emptyUntil: Key;
  /** False while the first row is being read. */
  readonly isRead: boolean;
}

/** A due job in a queue. */
interface DueRow {
  readonly key: Key;
  readonly scheduledAtSec: number;
  readonly id: string;
}

/** The first jobs of a group in a queue. */
interface Head {
  readonly queue: Queue;
  readonly range: KeyBounds;
  readonly rows: readonly KeyValue[];
  readonly due: readonly DueRow[];
  takenCount: number;
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
  async enter(
    tx: Transaction,
    { type, id }: JobName,
    { group, scheduledAtSec, labels }: GroupedPlan,
  ): Promise<void> {
    const queue = queueOf(type, labels);
    const key = this.#keys.groupPending.key({ queue, id, group, scheduledAtSec });
    tx.set(key, EMPTY_BYTES);
    const beginnings = this.#beginnings.get(tx);
    const name = nameOf(queue, group);
    const known = beginnings?.get(name);
    if (known?.isRead === false || (known && compareBytes(key, known.emptyUntil) < 0)) {
      beginnings?.delete(name);
    }
    await this.#index.enter(tx, queue, group, scheduledAtSec);
  }

  /** Removes a job from its group's queue without accepting it. */
  async leave(
    tx: Transaction,
    { type, id }: JobName,
    { group, scheduledAtSec, labels }: GroupedPlan,
  ): Promise<void> {
    const queue = queueOf(type, labels);
    tx.clear(this.#keys.groupPending.key({ queue, id, group, scheduledAtSec }));
    await this.#index.change(tx, queue, group, async (place) => {
      // Only the first job determines the position of its group.
      if (place.kind === "later" && scheduledAtSec > place.dueAtSec) return undefined;
      if (place.kind === "ready" && scheduledAtSec > this.#nowSec()) return undefined;
      const next = this.#index.placeFor(await this.#first(tx, queue, group));
      const isDue = next.kind === "later" && next.dueAtSec <= this.#nowSec();
      return place.kind === "ready" && isDue ? undefined : next;
    });
  }

  /** Reads the first row of the group's queue. */
  async #first(tx: Transaction, queue: Queue, group: string): Promise<KeyValue | undefined> {
    const beginnings = this.#beginnings.get(tx) ?? new Map<string, Beginning>();
    this.#beginnings.set(tx, beginnings);
    const name = nameOf(queue, group);
    const rows = this.#keys.groupPending.range({ queue, group });
    const begin = beginnings.get(name)?.emptyUntil ?? rows.begin;
    const reading: Beginning = { emptyUntil: begin, isRead: false };
    beginnings.set(name, reading);
    const page = await tx.getRangePage({ begin, end: rows.end }, { limit: 1 });
    const [first] = page.entries;
    // If a job entered the queue during the read, `enter` has deleted `reading`, because the row
    // just read might no longer be the first.
    if (beginnings.get(name) === reading) {
      beginnings.set(name, { emptyUntil: first?.key ?? rows.end, isRead: true });
    }
    return first;
  }

  /**
   * Removes up to `countMax` jobs due at `dueBySec` from the queues, all from the next group, and
   * returns them. The queues must have the same job type. Returns an empty list if no group has a
   * due job.
   */
  async take(
    tx: Transaction,
    queues: readonly Queue[],
    { dueBySec, countMax }: { readonly dueBySec: number; readonly countMax: number },
  ): Promise<JobName[]> {
    const due = await this.#index.comeDue(tx.snapshot, queues, dueBySec);
    for (const { queue, group, dueAtSec } of due) {
      await this.#index.move(tx, queue, group, { kind: "later", dueAtSec }, { kind: "ready" });
    }
    const candidates = await this.#index.candidates(tx.snapshot, queues, CANDIDATE_COUNT_MAX);
    while (candidates.length > 0) {
      const chosen = this.#choose(candidates);
      const wanted = { dueBySec, countMax, next: candidates[0] };
      const taken = await this.#takeFrom(tx, queues, chosen.group, wanted);
      if (taken.length > 0) return taken;
    }
    return [];
  }

  /** Returns up to `limit` grouped jobs in a queue that are due at `dueBySec`. */
  async due(
    tx: ReadTransaction,
    queue: Queue,
    { dueBySec, limit }: { readonly dueBySec: number; readonly limit: number },
  ): Promise<JobName[]> {
    const names: JobName[] = [];
    const type = typeOfQueue(queue);
    const visit = async (group: string): Promise<void> => {
      const range = this.#keys.groupPending.rangeUntil({ queue, group, scheduledAtSec: dueBySec });
      const { entries } = await tx.getRangePage(range, { limit: limit - names.length });
      for (const { key } of entries)
        names.push({ type, id: this.#keys.groupPending.unpack(key).id });
    };
    for await (const { key } of tx.getRange(this.#keys.ready.range({ queue }))) {
      if (names.length >= limit) return names;
      await visit(readyGroup(this.#keys, key).group);
    }
    for await (const { key } of tx.getRange(
      this.#keys.later.rangeUntil({ queue, dueAtSec: dueBySec }),
    )) {
      if (names.length >= limit) return names;
      await visit(this.#keys.later.unpack(key).group);
    }
    return names;
  }

  /**
   * Returns the time at which the next group of a queue becomes due, in seconds since the epoch, or
   * `undefined` if no group has a job. Returns 0 if a group is ready; after a `take` that found no
   * jobs, such a group was not among those that it considered.
   */
  async nextDueSec(tx: ReadTransaction, queue: Queue): Promise<number | undefined> {
    const [ready, laterSec] = await Promise.all([
      this.#index.candidates(tx, [queue], 1),
      this.#index.nextDueSec(tx, queue),
    ]);
    return ready.length > 0 ? 0 : laterSec;
  }

  /**
   * Called when the number of the group's running jobs decreases or its limit is raised. A group
   * that was waiting at its limit becomes ready again.
   */
  async released(tx: Transaction, queue: Queue, group: string): Promise<void> {
    await this.#index.change(tx, queue, group, async (place) => {
      if (place.kind !== "later") return undefined;
      const { entries } = await tx.getRangePage(this.#keys.groupPending.range({ queue, group }), {
        limit: 1,
      });
      const first = this.#index.placeFor(entries[0]);
      const isWaiting = first.kind === "later" && first.dueAtSec < place.dueAtSec;
      if (!isWaiting) return undefined;
      tx.add(this.#keys.enqueued.key({ type: typeOfQueue(queue) }), 1n);
      return first;
    });
  }

  async #takeFrom(
    tx: Transaction,
    queues: readonly Queue[],
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
    const type = typeOfQueue(queues[0] as Queue);
    const [fairShare, before, ready] = await Promise.all([
      this.#groups.fairShare(tx, type),
      this.#index.standing(tx, type, group),
      this.#readyAmong(tx.snapshot, queues, group),
    ]);
    const countMax = Math.min(wantedCount, await this.#groups.room(tx, type, group));
    if (countMax <= 0) {
      const full: Place = { kind: "later", dueAtSec: dueBySec + FULL_SEC };
      for (const queue of ready) {
        await this.#index.move(tx, queue, group, { kind: "ready" }, full);
      }
      return [];
    }
    const heads = await Promise.all(
      ready.map((queue) =>
        this.#head(tx.snapshot, queue, group, { dueBySec, limit: countMax + 1 }),
      ),
    );
    const due = heads.flatMap((head) => head.due.map((row) => ({ ...row, head })));
    if (heads.length > 1) due.sort(byDueTime);
    let standing = before;
    const nowSec = this.#nowSec();
    const taken: JobName[] = [];
    for (const { key, id, head } of due.slice(0, countMax)) {
      // Stop as soon as another group has the lower standing, as if each job were accepted
      // separately.
      const isOthersTurn = next !== undefined && compareStandings(next, standing) < 0;
      if (taken.length > 0 && isOthersTurn) break;
      tx.addReadConflictKey(key);
      tx.clear(key);
      taken.push({ type, id });
      head.takenCount++;
      standing = charged(standing, fairShare, fairShare.instalmentSec, nowSec);
    }
    for (const head of heads) await this.#leaveHead(tx, group, head);
    await this.#index.restand(tx, type, group, before, standing);
    return taken;
  }

  /** Returns the queues in which the group is ready. */
  async #readyAmong(
    tx: ReadTransaction,
    queues: readonly Queue[],
    group: string,
  ): Promise<readonly Queue[]> {
    if (queues.length === 1) return queues;
    const places = await Promise.all(queues.map((queue) => this.#index.place(tx, queue, group)));
    return queues.filter((_, index) => places[index]?.kind === "ready");
  }

  async #head(
    tx: ReadTransaction,
    queue: Queue,
    group: string,
    { dueBySec, limit }: { readonly dueBySec: number; readonly limit: number },
  ): Promise<Head> {
    const range = this.#keys.groupPending.range({ queue, group });
    const { entries: rows } = await tx.getRangePage(range, { limit });
    const due = rows.flatMap(({ key }) => {
      const { scheduledAtSec, id } = this.#keys.groupPending.unpack(key);
      return scheduledAtSec <= dueBySec ? [{ key, scheduledAtSec, id }] : [];
    });
    return { queue, range, rows, due, takenCount: 0 };
  }

  /** Updates the position of the group in a queue after some of its first jobs were taken. */
  async #leaveHead(
    tx: Transaction,
    group: string,
    { queue, range, rows, due, takenCount }: Head,
  ): Promise<void> {
    const rest = rows[takenCount];
    if (rest !== undefined && takenCount < due.length) {
      // A concurrent removal of this job must conflict, because the group is ready only while the
      // job is queued.
      tx.addReadConflictKey(rest.key);
      return;
    }
    const end = rest === undefined ? range.end : keyAfter(rest.key);
    tx.addReadConflictRange({ begin: range.begin, end });
    await this.#index.move(tx, queue, group, { kind: "ready" }, this.#index.placeFor(rest));
  }

  /**
   * Removes a randomly chosen group with one of the lowest standings from `candidates`, and returns
   * this group.
   */
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

function nameOf(queue: Queue, group: string): string {
  return JSON.stringify([queue, group]);
}

function byDueTime(left: DueRow, right: DueRow): number {
  return left.scheduledAtSec - right.scheduledAtSec || (left.id < right.id ? -1 : 1);
}

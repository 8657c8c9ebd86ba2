/**
 * The index of jobs for those who look: which jobs are in a state, fail, are paused and so on, in pages, and how many.
 *
 * The transaction that changes a job (`JobObserver`) writes its status beside the job, and the change to the log of events, and no
 * row: those of one job are in as many places as there are lists. A fold writes the rows and counters of many changes at once.
 * Readers add the changes that were not folded yet (`view`), so lists are as new as the jobs.
 *
 * A node of a version without the index may change jobs beside us. So `repair` compares the statuses with the jobs, page by page. `build`
 * makes the index of a store that has none, or another one.
 */
import { equalBytes } from "../../base/index.ts";
import type { Job, JobChange, JobName, JobObserver, Jobs } from "../../jobs/index.ts";
import {
  type KeyValueStore,
  keyAfter,
  packTuple,
  type ReadTransaction,
  type Subspace,
  type Transaction,
  unpackTuple,
} from "../../kv/index.ts";
import { ReplicatorKeys } from "../replicator-keys.ts";
import { baseIdOf } from "../request/replication-id.ts";
import { decodeBacklog } from "./backlog.ts";
import { IndexTail } from "./index-tail.ts";
import { IndexView } from "./index-view.ts";
import { REPLICATION_JOB_TYPE, unreadableJobData } from "./job-data.ts";
import { decodeIndexed, type IndexedJob, isReadable } from "./job-data-record.ts";
import type { EncodedChange, JobEventLog, StatusChange } from "./job-event-log.ts";
import { askedStatus, encodeStatus, type JobStatus, jobStatus, withFacts } from "./job-status.ts";
import { JobStatuses } from "./job-statuses.ts";
import { RowChanges, StatusKeyCache } from "./row-changes.ts";

/** Jobs compared with the index in one transaction. */
const PAGE_ROWS_MAX = 200;
/** Events whose changes are folded in one transaction. */
const FOLDED_EVENTS_MAX = 1000;
/** Events that a reader takes into memory, some ten megabytes: nodes fold before there are so many, unless they all wrote at once. */
const TAIL_EVENTS_MAX = 5000;
/** Rows of an older index that are removed in one transaction. */
const REMOVED_ROWS_MAX = 1000;

/** What one page of a comparison did; `lastId`: where the next one begins, undefined behind the last. */
export interface RepairedPage {
  readonly lastId: string | undefined;
  readonly repairedCount: number;
}

/** A transient job that has ended, and its place among them. */
export interface EndedJob {
  readonly endedMs: number;
  readonly jobId: string;
}

export class JobIndex implements JobObserver {
  /** By what lists find each job. */
  readonly statuses: JobStatuses;
  readonly #jobs: Jobs;
  readonly #keys: ReplicatorKeys;
  readonly #events: JobEventLog;
  readonly #statusKeys: StatusKeyCache;
  readonly #tail: IndexTail;
  #folding: Promise<void> | undefined;

  constructor(jobs: Jobs, subspace: Subspace, events: JobEventLog) {
    this.#jobs = jobs;
    this.#keys = new ReplicatorKeys(subspace);
    this.#events = events;
    this.#statusKeys = new StatusKeyCache(this.#keys);
    this.#tail = new IndexTail(events, this.#statusKeys);
    this.statuses = new JobStatuses(jobs.notes);
  }

  /**
   * Runs `body` on the lists and counters as they are in one snapshot, which is the view's. Where more changes wait for a fold than a
   * reader should hold in memory, they are folded first.
   */
  async read<T>(
    kv: KeyValueStore,
    body: (view: IndexView) => Promise<T>,
    eventCountMax = TAIL_EVENTS_MAX,
  ): Promise<T> {
    for (;;) {
      // Nothing can be folded in a store that is full, and its jobs are to be seen.
      const limit = kv.isFull() ? Number.POSITIVE_INFINITY : eventCountMax;
      const read = await kv.read(async (tx) => {
        const view = await this.#view(tx, limit);
        return view && { value: await body(view) };
      });
      if (read !== undefined) return read.value;
      // Once for all readers of this node.
      this.#folding ??= this.foldAll(kv).finally(() => {
        this.#folding = undefined;
      });
      await this.#folding;
    }
  }

  /** Folds what a reader should not hold in memory: before a transaction that has a `view`. */
  async shorten(kv: KeyValueStore): Promise<void> {
    await this.read(kv, async () => {});
  }

  /** The lists and counters as they are in this snapshot, however much is not folded (`shorten`). */
  async view(tx: ReadTransaction): Promise<IndexView> {
    return (await this.#view(tx, Number.POSITIVE_INFINITY)) as IndexView;
  }

  /** Undefined when more than so many events are not folded. */
  async #view(tx: ReadTransaction, eventCountMax: number): Promise<IndexView | undefined> {
    const changes = await this.#tail.changes(tx, eventCountMax);
    return changes && new IndexView(tx, this.#keys, changes);
  }

  /**
   * Writes the rows and counters of the oldest changes that have not been folded, if there are at least `eventCountMin` events, those of
   * `eventCountMax` at most; returns whether there are more. Any number of nodes may do it: of two at once one finds that the other has done it.
   */
  fold(
    kv: KeyValueStore,
    eventCountMin: number,
    eventCountMax = FOLDED_EVENTS_MAX,
  ): Promise<boolean> {
    return kv.transact(
      async (tx) => {
        // What others fold meanwhile conflicts with this.
        const foldedId = await this.#events.foldedId(tx);
        const lastId = await this.#events.lastId(tx.snapshot);
        if (foldedId >= lastId) return false;
        // However long the log is: one more than it folds says that there are more.
        const limit = eventCountMax + 1;
        const events = await this.#events.statusEvents(tx, foldedId, lastId, limit);
        const folded = events.slice(0, eventCountMax);
        const last = folded.at(-1);
        if (last === undefined || events.length < eventCountMin) return false;
        this.#tail.changesOf(folded).write(tx);
        this.#events.setFoldedId(tx, last.id);
        return events.length > folded.length;
      },
      { whenUnknown: "retry" },
    );
  }

  /** Folds all changes that there are by now. */
  async foldAll(kv: KeyValueStore): Promise<void> {
    while (await this.fold(kv, 1));
  }

  async changed(tx: Transaction, { id }: JobName, change: JobChange): Promise<void> {
    if (change.isLost) this.#events.noteLost(tx, id);
    const before = await this.statuses.get(tx, id);
    if (change.facts === undefined) {
      this.#change(tx, id, before, undefined);
      return;
    }
    const { data, request, facts } = change;
    if (before !== undefined && data === undefined && request === undefined) {
      this.#change(tx, id, before, withFacts(before, facts));
      return;
    }
    // In a sign of life what was asked for is what it was.
    const isAsked = before === undefined || request !== undefined;
    const job = readable(isAsked ? await change.load() : { data: data ?? {}, request: undefined });
    const isMoved = before === undefined || before.replicationId !== job.replicationId;
    const hasLeftBehind = isMoved
      ? await this.#hasLeftBehind(tx, job.replicationId)
      : before.hasLeftBehind;
    // A job that is added has no backlog: that of an earlier one went with it.
    const status = { hasLeftBehind, behindSinceMs: before?.behindSinceMs };
    const asked = isAsked ? askedStatus(job) : before;
    this.#change(tx, id, before, jobStatus(id, facts, job, asked, status));
  }

  /** The list of failures of this base id has become empty, or is empty no more. */
  async leftBehind(tx: Transaction, baseId: string, hasLeftBehind: boolean): Promise<void> {
    const page = await tx.getRangePage(this.#keys.replicationJobsBelow(baseId));
    const ids = new Set(page.entries.map(({ key }) => this.#keys.replicationJobId(key)));
    for (const id of ids) {
      const before = await this.statuses.get(tx, id);
      if (before === undefined || baseIdOf(before.replicationId) !== baseId) continue;
      this.#change(tx, id, before, { ...before, hasLeftBehind });
    }
  }

  /**
   * Since when it is known that a change of the job has not arrived, is another time; undefined: all have arrived. Only that it falls
   * behind, or has caught up, is an event.
   */
  async behind(tx: Transaction, jobId: string, behindSinceMs: number | undefined): Promise<void> {
    const before = await this.statuses.get(tx, jobId);
    if (before === undefined) return;
    const after = { ...before, behindSinceMs };
    const wasBehind = before.behindSinceMs !== undefined;
    if (wasBehind === (behindSinceMs !== undefined)) this.#adjust(tx, jobId, before, after);
    else this.#change(tx, jobId, before, after);
  }

  /** The next transient jobs that ended before `endMs`, the earliest first, behind `after`. */
  async endedTransients(
    kv: KeyValueStore,
    endMs: number,
    after: EndedJob | undefined,
  ): Promise<readonly EndedJob[]> {
    const { begin } = this.#keys.statusRows("ended");
    const { begin: end } = this.#keys.statusRows("ended", endMs);
    const from =
      after === undefined
        ? begin
        : keyAfter(this.#keys.statusRow("ended", after.endedMs, after.jobId));
    const range = { begin: from, end };
    const rows = await this.read(kv, (view) => view.rows(range, { limit: PAGE_ROWS_MAX }));
    return rows.map(({ value, jobId }) => ({ endedMs: Number(value), jobId }));
  }

  /** Builds the index of a store of an older version, once: in pages, by any number of nodes, which may stop and go on. */
  async build(kv: KeyValueStore): Promise<void> {
    const key = this.#keys.statusIndex();
    const value = await kv.read((tx) => tx.get(key));
    if (value !== undefined && isBuilt(value)) return;
    await kv.transact((tx) => this.#beginTail(tx), { whenUnknown: "retry" });
    await this.#removeOlder(kv);
    for (let isDone = false; !isDone; ) {
      isDone = await kv.transact(
        async (tx) => {
          const built = await tx.get(key);
          if (built !== undefined && isBuilt(built)) return true;
          const { lastId } = await this.#buildPage(tx, builtId(built));
          tx.set(key, packTuple([FORMAT, lastId ?? null]));
          return lastId === undefined;
        },
        { whenUnknown: "retry" },
      );
    }
  }

  /** Events of older versions tell nothing that is to be folded. */
  async #beginTail(tx: Transaction): Promise<void> {
    const hasBegun = (await tx.get(this.#keys.foldedEvent())) !== undefined;
    if (!hasBegun) this.#events.setFoldedId(tx, await this.#events.lastId(tx));
  }

  /** Jobs that have a status have their rows, or will have them by a fold. */
  async #buildPage(tx: Transaction, afterId: string): Promise<Pick<RepairedPage, "lastId">> {
    const { page, lastId } = await this.#page(tx, afterId);
    const changes = [];
    for (const job of page) {
      if ((await this.statuses.get(tx, job.id)) !== undefined) continue;
      const after = await this.#statusOf(tx, job.id, job, readable(job));
      this.statuses.set(tx, job.id, encodeStatus(after));
      changes.push({ jobId: job.id, before: undefined, after });
    }
    RowChanges.of(changes, this.#statusKeys).write(tx);
    return { lastId };
  }

  async #removeOlder(kv: KeyValueStore): Promise<void> {
    const range = this.#keys.olderIndex();
    for (let isGone = false; !isGone; ) {
      isGone = await kv.transact(
        async (tx) => {
          const { entries } = await tx.snapshot.getRangePage(range, { limit: REMOVED_ROWS_MAX });
          const last = entries.at(-1);
          if (last !== undefined) tx.clearRange({ begin: range.begin, end: keyAfter(last.key) });
          return entries.length < REMOVED_ROWS_MAX;
        },
        { whenUnknown: "retry" },
      );
    }
  }

  /**
   * Compares the next jobs behind `afterId` with their statuses, and repairs what an older node beside us left behind. `afterId`: "" for
   * the first ones.
   */
  repair(kv: KeyValueStore, afterId: string): Promise<RepairedPage> {
    return kv.transact((tx) => this.#repairPage(tx, afterId), { whenUnknown: "retry" });
  }

  /** Looks at snapshots, so that nothing conflicts with it but the jobs that it repairs. */
  async #repairPage(tx: Transaction, afterId: string): Promise<RepairedPage> {
    const { page, lastId } = await this.#page(tx.snapshot, afterId);
    const known = await this.statuses.between(tx.snapshot, afterId, lastId);
    const byId = new Map(page.map((job) => [job.id, job]));
    const ids = [...new Set([...byId.keys(), ...known.keys()])];
    // All at once: one after the other would take longer than a transaction may where the store is another machine, and busy.
    const expected = await Promise.all(
      ids.map(async (id) => {
        const seen = byId.get(id);
        return seen && this.#statusOf(tx.snapshot, id, seen, readable(seen));
      }),
    );
    let repairedCount = 0;
    for (const [index, id] of ids.entries()) {
      if (areSame(encoded(known.get(id)), encoded(expected[index]))) continue;
      const job = await this.#jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
      const after = job && (await this.#statusOf(tx, id, job, readable(job)));
      this.#adjust(tx, id, await this.statuses.get(tx, id), after);
      repairedCount++;
    }
    return { lastId, repairedCount };
  }

  async #page(
    tx: ReadTransaction,
    afterId: string,
  ): Promise<{ readonly page: readonly Job[]; readonly lastId: string | undefined }> {
    const { entries, stoppedBy } = await this.#jobs.list(tx, REPLICATION_JOB_TYPE, {
      ...(afterId === "" ? {} : { afterId }),
      limit: PAGE_ROWS_MAX,
    });
    return { page: entries, lastId: stoppedBy === "exhausted" ? undefined : entries.at(-1)?.id };
  }

  async #statusOf(
    tx: ReadTransaction,
    jobId: string,
    facts: Pick<Job, "state" | "scheduledAtSec">,
    job: IndexedJob,
  ): Promise<JobStatus> {
    const hasLeftBehind = await this.#hasLeftBehind(tx, job.replicationId);
    const backlog = await tx.get(this.#keys.backlog(jobId));
    const behindSinceMs = backlog && decodeBacklog(backlog).sinceMs;
    const status = { hasLeftBehind, behindSinceMs };
    return jobStatus(jobId, facts, job, askedStatus(job), status);
  }

  async #hasLeftBehind(tx: ReadTransaction, replicationId: string | undefined): Promise<boolean> {
    const baseId = baseIdOf(replicationId);
    if (baseId === undefined) return false;
    const page = await tx.getRangePage(this.#keys.failureCounts(baseId), { limit: 1 });
    return page.entries.length > 0;
  }

  /** Something happened to the job. */
  #change(
    tx: Transaction,
    jobId: string,
    before: JobStatus | undefined,
    after: JobStatus | undefined,
  ): void {
    const change = this.#store(tx, { jobId, before, after });
    if (change !== undefined) this.#events.noteStatus(tx, change);
  }

  /** Lists find the job in another way, and nothing happened to it. */
  #adjust(
    tx: Transaction,
    jobId: string,
    before: JobStatus | undefined,
    after: JobStatus | undefined,
  ): void {
    const change = this.#store(tx, { jobId, before, after });
    if (change !== undefined) this.#events.noteSilently(tx, change);
  }

  /** Undefined when nothing has changed. */
  #store(tx: Transaction, change: StatusChange): EncodedChange | undefined {
    const { jobId, before, after } = change;
    const encodedBefore = encoded(before);
    const encodedAfter = encoded(after);
    if (areSame(encodedBefore, encodedAfter)) return undefined;
    this.statuses.set(tx, jobId, encodedAfter);
    return { ...change, encodedBefore, encodedAfter };
  }
}

/** 4: statuses lie beside the jobs, and rows are folded. */
const FORMAT = 4;

function isBuilt(value: Uint8Array): boolean {
  const [format, lastId] = unpackTuple(value);
  return format === FORMAT && lastId === null;
}

/** Up to which job the index is built; "": for none. */
function builtId(value: Uint8Array | undefined): string {
  const [format, lastId] = value === undefined ? [] : unpackTuple(value);
  return format === FORMAT ? String(lastId) : "";
}

function readable(job: Pick<Job, "data" | "request">): IndexedJob {
  return isReadable(job) ? decodeIndexed(job) : unreadableJobData();
}

function encoded(status: JobStatus | undefined): Uint8Array | undefined {
  return status && encodeStatus(status);
}

/** Equal statuses are equal in their stored form. */
function areSame(left: Uint8Array | undefined, right: Uint8Array | undefined): boolean {
  if (left === undefined || right === undefined) return left === right;
  return equalBytes(left, right);
}

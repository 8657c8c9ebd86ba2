/**
 * The job index: pages and counts of jobs by state, failure, pause and so on.
 *
 * A transaction that changes a job (`JobObserver`) writes its status and an event. It does not
 * write index rows, because a job occurs in many lists. A fold writes the rows and counters of many
 * changes together. Readers add unfolded changes (`view`), so lists are always current.
 *
 * Nodes of a version without the index can change jobs concurrently; `repair` compares statuses
 * with jobs page by page. `build` creates or upgrades the index.
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
import type { EncodedChange, JobEventLog, StatusChange } from "../job-log/job-event-log.ts";
import { REPLICATION_JOB_TYPE, replicationIdsOf, unreadableJobData } from "../jobs/job-data.ts";
import { decodeIndexed, type IndexedJob, isReadable } from "../jobs/job-data-record.ts";
import {
  askedStatus,
  encodeStatus,
  type JobStatus,
  jobStatus,
  withFacts,
} from "../jobs/job-status.ts";
import { JobStatuses } from "../jobs/job-statuses.ts";
import { idsOfBase, olderIndex, type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import { baseIdOf } from "../request/replication-id.ts";
import { type Backlog, decodeBacklog, isLagUnknown } from "./backlog.ts";
import { IndexTail } from "./index-tail.ts";
import { IndexView } from "./index-view.ts";
import { RowChanges, StatusKeyCache } from "./row-changes.ts";

/** Whether the store's format includes the lists of jobs by tag and of jobs with unknown lag. */
export type HasAllLists = (tx: ReadTransaction) => Promise<boolean>;

/** Number of jobs compared with the index per transaction. */
const PAGE_ROWS_MAX = 200;
/**
 * Maximum number of events folded per transaction, about 25 ms of CPU time. Other requests of the
 * node have to wait that long.
 */
const FOLDED_EVENTS_MAX = 250;
/**
 * Maximum number of events that a reader holds in memory, about ten megabytes. Nodes usually fold
 * earlier.
 */
const TAIL_EVENTS_MAX = 5000;
/** Maximum number of rows of an older index that are removed per transaction. */
const REMOVED_ROWS_MAX = 1000;

/** Result of comparing a page. `lastId` is undefined after the last page. */
export interface RepairedPage {
  readonly lastId: string | undefined;
  readonly repairedCount: number;
}

/** An ended transient job, and its position in the list of ended transient jobs. */
export interface EndedJob {
  readonly endedMs: number;
  readonly jobId: string;
}

export class JobIndex implements JobObserver {
  readonly statuses: JobStatuses;
  readonly #jobs: Jobs;
  readonly #keys: ReplicatorKeys;
  readonly #subspace: Subspace;
  readonly #events: JobEventLog;
  readonly #statusKeys: StatusKeyCache;
  readonly #tail: IndexTail;
  readonly #hasAllLists: HasAllLists;
  #folding: Promise<void> | undefined;

  constructor(
    jobs: Jobs,
    subspace: Subspace,
    events: JobEventLog,
    hasAllLists: HasAllLists = async () => true,
  ) {
    this.#jobs = jobs;
    this.#keys = replicatorKeys(subspace);
    this.#subspace = subspace;
    this.#events = events;
    this.#statusKeys = new StatusKeyCache(this.#keys);
    this.#tail = new IndexTail(events, this.#statusKeys);
    this.statuses = new JobStatuses(jobs.notes);
    this.#hasAllLists = hasAllLists;
  }

  /** Runs `body` with the index in one snapshot. Folds first if too many changes are unfolded. */
  async read<T>(
    kv: KeyValueStore,
    body: (view: IndexView) => Promise<T>,
    eventCountMax = TAIL_EVENTS_MAX,
  ): Promise<T> {
    for (;;) {
      // If the store is full, events cannot be folded, so read without a limit: jobs must remain
      // visible.
      const limit = kv.isFull() ? Number.POSITIVE_INFINITY : eventCountMax;
      const read = await kv.read(async (tx) => {
        const view = await this.#view(tx, limit);
        return view && { value: await body(view) };
      });
      if (read !== undefined) return read.value;
      // All readers of this node wait for the same fold.
      this.#folding ??= this.foldAll(kv).finally(() => {
        this.#folding = undefined;
      });
      await this.#folding;
    }
  }

  /** Folds excess changes. Call it before a transaction that uses `view`. */
  async shorten(kv: KeyValueStore): Promise<void> {
    await this.read(kv, async () => {});
  }

  /**
   * Returns the index in this snapshot, however many changes have not been folded into it yet (see
   * `shorten`).
   */
  async view(tx: ReadTransaction): Promise<IndexView> {
    return (await this.#view(tx, Number.POSITIVE_INFINITY)) as IndexView;
  }

  /**
   * Returns the index in this snapshot, or undefined if more than `eventCountMax` events have not
   * been folded into it yet.
   */
  async #view(tx: ReadTransaction, eventCountMax: number): Promise<IndexView | undefined> {
    const changes = await this.#tail.changes(tx, eventCountMax);
    return changes && new IndexView(tx, this.#keys, changes);
  }

  /**
   * Folds the oldest changes, at most `eventCountMax`, if there are at least `eventCountMin`.
   * Returns whether more changes remain. If several nodes fold concurrently, all but one find
   * nothing to fold.
   */
  fold(
    kv: KeyValueStore,
    eventCountMin: number,
    eventCountMax = FOLDED_EVENTS_MAX,
  ): Promise<boolean> {
    return kv.transact(
      async (tx) => {
        // Not a snapshot read, so that concurrent folds conflict.
        const foldedId = await this.#events.foldedId(tx);
        const lastId = await this.#events.lastId(tx.snapshot);
        if (foldedId >= lastId) return false;
        // Read one more event than will be folded, to detect whether more remain.
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

  /** Folds all current changes. */
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
    // If the request is unchanged, as in a heartbeat, it need not be loaded.
    const isAsked = before === undefined || request !== undefined;
    const job = readable(isAsked ? await change.load() : { data: data ?? {}, request: undefined });
    // For a pair, assume that an id has changed: the status does not contain the id of the reverse
    // direction.
    const isMoved =
      before === undefined ||
      before.replicationId !== job.replicationId ||
      job.reverse !== undefined;
    const hasLeftBehind = isMoved ? await this.#hasLeftBehind(tx, job) : before.hasLeftBehind;
    // The lag of a new job is unknown: the backlog of an earlier job with the same id was removed
    // with that job.
    const isUnread = await this.#isUnread(tx, id, before, job);
    const status = { hasLeftBehind, behindSinceMs: before?.behindSinceMs, isUnread };
    const asked = isAsked ? askedStatus(job, await this.#hasAllLists(tx)) : before;
    this.#change(tx, id, before, jobStatus(id, facts, job, asked, status));
  }

  /**
   * Records in the statuses of a replication's jobs whether their list of failures contains
   * documents.
   */
  async leftBehind(tx: Transaction, baseId: string, hasLeftBehind: boolean): Promise<void> {
    const page = await tx.getRangePage(idsOfBase(this.#keys.replicationJob, baseId));
    const ids = new Set(page.entries.map(({ key }) => this.#keys.replicationJob.unpack(key).jobId));
    for (const id of ids) {
      const before = await this.statuses.get(tx, id);
      const job = await this.#jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
      if (before === undefined || job === undefined) continue;
      const replicationIds = replicationIdsOf(readable(job));
      if (!replicationIds.some((one) => baseIdOf(one) === baseId)) continue;
      // In a pair, the other direction might have failures.
      const others = replicationIds.filter((one) => baseIdOf(one) !== baseId);
      const hasAny = hasLeftBehind || (await this.#areListed(tx, others));
      this.#change(tx, id, before, { ...before, hasLeftBehind: hasAny });
    }
  }

  /** Sets the backlog of a job. Logs an event only if the job falls behind or catches up. */
  async behind(tx: Transaction, jobId: string, backlog: Backlog): Promise<void> {
    const before = await this.statuses.get(tx, jobId);
    if (before === undefined) return;
    const { sinceMs: behindSinceMs } = backlog;
    const { place, lastMs = Number.POSITIVE_INFINITY } = before.failing ?? {};
    const isUnread =
      isLagUnknown(backlog, before.failing && { side: place?.side, lastMs }) &&
      (await this.#hasAllLists(tx));
    const after = { ...before, behindSinceMs, isUnread };
    const wasBehind = before.behindSinceMs !== undefined;
    if (wasBehind === (behindSinceMs !== undefined)) this.#adjust(tx, jobId, before, after);
    else this.#change(tx, jobId, before, after);
  }

  /**
   * Returns the next transient jobs that ended before `endMs`, earliest first, starting after
   * `after`.
   */
  async endedTransients(
    kv: KeyValueStore,
    endMs: number,
    after: EndedJob | undefined,
  ): Promise<readonly EndedJob[]> {
    const { begin } = this.#keys.statusRow.range({ list: "ended" });
    const { begin: end } = this.#keys.statusRow.range({ list: "ended", value: endMs });
    const from =
      after === undefined
        ? begin
        : keyAfter(
            this.#keys.statusRow.key({ list: "ended", value: after.endedMs, jobId: after.jobId }),
          );
    const range = { begin: from, end };
    const rows = await this.read(kv, (view) => view.rows(range, { limit: PAGE_ROWS_MAX }));
    return rows.map(({ value, jobId }) => ({ endedMs: Number(value), jobId }));
  }

  /**
   * Builds the index if the store has no index or one of an older version. Several nodes can build
   * it concurrently. Called again when a format of the store is enabled.
   */
  async build(kv: KeyValueStore): Promise<void> {
    const key = this.#keys.statusIndex.key({});
    const isDone = await kv.read(async (tx) => isBuilt(await tx.get(key), await this.#version(tx)));
    if (isDone) return;
    await kv.transact((tx) => this.#beginTail(tx), { whenUnknown: "retry" });
    await this.#removeOlder(kv);
    for (let isLast = false; !isLast; ) {
      isLast = await kv.transact(
        async (tx) => {
          const built = await tx.get(key);
          const version = await this.#version(tx);
          if (isBuilt(built, version)) return true;
          const { lastId } = await this.#buildPage(tx, builtId(built, version));
          tx.set(key, packTuple([version, lastId ?? null]));
          return lastId === undefined;
        },
        { whenUnknown: "retry" },
      );
    }
  }

  /** Returns the index version that matches the store's format. */
  async #version(tx: ReadTransaction): Promise<number> {
    return (await this.#hasAllLists(tx)) ? VERSION : VERSION_WITHOUT_ALL_LISTS;
  }

  /**
   * Starts the tail at the end of the log if the store has no tail. Events of older versions are
   * not folded.
   */
  async #beginTail(tx: Transaction): Promise<void> {
    const hasBegun = (await tx.get(this.#keys.foldedEvent.key({}))) !== undefined;
    if (!hasBegun) this.#events.setFoldedId(tx, await this.#events.lastId(tx));
  }

  /**
   * Indexes a page of jobs: adds the rows that an older version did not write. Any job with a
   * status already has its rows, or gets them with the next fold.
   */
  async #buildPage(tx: Transaction, afterId: string): Promise<Pick<RepairedPage, "lastId">> {
    const { page, lastId } = await this.#page(tx, afterId);
    const changes = [];
    for (const job of page) {
      const before = await this.statuses.get(tx, job.id);
      const after = await this.#statusOf(tx, job.id, job, readable(job));
      if (before !== undefined) {
        this.#adjust(tx, job.id, before, after);
        continue;
      }
      this.statuses.set(tx, job.id, encodeStatus(after));
      changes.push({ jobId: job.id, before: undefined, after });
    }
    RowChanges.of(changes, this.#statusKeys).write(tx);
    return { lastId };
  }

  async #removeOlder(kv: KeyValueStore): Promise<void> {
    const range = olderIndex(this.#subspace);
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
   * Compares the jobs after `afterId` ("" for all) with their statuses, and repairs the statuses.
   */
  repair(kv: KeyValueStore, afterId: string): Promise<RepairedPage> {
    return kv.transact((tx) => this.#repairPage(tx, afterId), { whenUnknown: "retry" });
  }

  /**
   * Compares a page of jobs with their statuses, and repairs the statuses. Uses snapshot reads, so
   * that a page without repairs cannot conflict.
   */
  async #repairPage(tx: Transaction, afterId: string): Promise<RepairedPage> {
    const { page, lastId } = await this.#page(tx.snapshot, afterId);
    const known = await this.statuses.between(tx.snapshot, afterId, lastId);
    const byId = new Map(page.map((job) => [job.id, job]));
    const ids = [...new Set([...byId.keys(), ...known.keys()])];
    // Read concurrently: sequential reads from a busy remote store could exceed the transaction's
    // time limit.
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

  /**
   * Whether the lag of a changed job is unknown. Of all changes, only failures and recoveries
   * affect this.
   */
  async #isUnread(
    tx: ReadTransaction,
    jobId: string,
    before: JobStatus | undefined,
    { failing }: IndexedJob,
  ): Promise<boolean> {
    if (!(await this.#hasAllLists(tx))) return false;
    if (before === undefined) return true;
    const { sinceMs, tries } = before.failing ?? {};
    if (sinceMs === failing?.sinceMs && tries === failing?.tries) return before.isUnread;
    return isLagUnknown(await this.#backlog(tx, jobId), failing);
  }

  async #backlog(tx: ReadTransaction, jobId: string): Promise<Backlog | undefined> {
    const value = await tx.get(this.#keys.backlog.key({ jobId }));
    return value && decodeBacklog(value);
  }

  async #statusOf(
    tx: ReadTransaction,
    jobId: string,
    facts: Pick<Job, "state" | "scheduledAtSec">,
    job: IndexedJob,
  ): Promise<JobStatus> {
    const hasLeftBehind = await this.#hasLeftBehind(tx, job);
    const backlog = await this.#backlog(tx, jobId);
    const hasAllLists = await this.#hasAllLists(tx);
    const isUnread = hasAllLists && isLagUnknown(backlog, job.failing);
    const status = { hasLeftBehind, behindSinceMs: backlog?.sinceMs, isUnread };
    return jobStatus(jobId, facts, job, askedStatus(job, hasAllLists), status);
  }

  #hasLeftBehind(tx: ReadTransaction, job: IndexedJob): Promise<boolean> {
    return this.#areListed(tx, replicationIdsOf(job));
  }

  /** Whether any of these replications has listed failures. */
  async #areListed(tx: ReadTransaction, replicationIds: readonly string[]): Promise<boolean> {
    for (const baseId of replicationIds.map((id) => baseIdOf(id))) {
      const page = await tx.getRangePage(this.#keys.failureCount.range({ baseId }), { limit: 1 });
      if (page.entries.length > 0) return true;
    }
    return false;
  }

  /** Writes a status change caused by an event of the job. */
  #change(
    tx: Transaction,
    jobId: string,
    before: JobStatus | undefined,
    after: JobStatus | undefined,
  ): void {
    const change = this.#store(tx, { jobId, before, after });
    if (change !== undefined) this.#events.noteStatus(tx, change);
  }

  /** Writes a status change without notifying event followers. */
  #adjust(
    tx: Transaction,
    jobId: string,
    before: JobStatus | undefined,
    after: JobStatus | undefined,
  ): void {
    const change = this.#store(tx, { jobId, before, after });
    if (change !== undefined) this.#events.noteSilently(tx, change);
  }

  /** Stores a changed status. Returns undefined if nothing has changed. */
  #store(tx: Transaction, change: StatusChange): EncodedChange | undefined {
    const { jobId, before, after } = change;
    const encodedBefore = encoded(before);
    const encodedAfter = encoded(after);
    if (areSame(encodedBefore, encodedAfter)) return undefined;
    this.statuses.set(tx, jobId, encodedAfter);
    return { ...change, encodedBefore, encodedAfter };
  }
}

/**
 * Version of the index. Since version 4, statuses are stored with the jobs, and rows are folded.
 * Since version 6, jobs whose lag is unknown are listed; since version 7, jobs by tag.
 */
const VERSION = 7;
const VERSION_WITHOUT_ALL_LISTS = 5;

function isBuilt(value: Uint8Array | undefined, current: number): boolean {
  const [version, lastId] = value === undefined ? [] : unpackTuple(value);
  return version === current && lastId === null;
}

/** Returns the id of the last job indexed so far; "" if none. */
function builtId(value: Uint8Array | undefined, current: number): string {
  const [version, lastId] = value === undefined ? [] : unpackTuple(value);
  return version === current ? String(lastId) : "";
}

function readable(job: Pick<Job, "data" | "request">): IndexedJob {
  return isReadable(job) ? decodeIndexed(job) : unreadableJobData();
}

function encoded(status: JobStatus | undefined): Uint8Array | undefined {
  return status && encodeStatus(status);
}

/** Compares encoded statuses. Equal statuses have equal encodings. */
function areSame(left: Uint8Array | undefined, right: Uint8Array | undefined): boolean {
  if (left === undefined || right === undefined) return left === right;
  return equalBytes(left, right);
}

/**
 * The index of jobs for those who look: which jobs are in a state, fail, are paused and so on, in pages, and how many. It is
 * written in the transactions that change the jobs (`JobObserver`).
 *
 * A node of a version without it may change jobs beside us. So `repair` compares the index with the jobs, page by page; it also
 * builds the index of a store that has none.
 */
import { EMPTY_BYTES, equalBytes } from "../../base/index.ts";
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
import { REPLICATION_JOB_TYPE, unreadableJobData } from "./job-data.ts";
import { decodeIndexed, type IndexedJob, isReadable } from "./job-data-record.ts";
import type { JobEventLog } from "./job-event-log.ts";
import {
  askedRows,
  askedStatus,
  counterOf,
  counterOfDatabase,
  decodeStatus,
  encodeStatus,
  type JobStatus,
  jobStatus,
  progressRows,
  type StatusCounter,
  type StatusRow,
  withFacts,
} from "./job-status.ts";

/** Jobs compared with the index in one transaction. */
const PAGE_ROWS_MAX = 200;

/** As it is stored: equal statuses are equal bytes. */
interface StoredStatus {
  readonly value: Uint8Array;
  readonly status: JobStatus;
}

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
  readonly #keys: ReplicatorKeys;
  readonly #events: JobEventLog;

  constructor(subspace: Subspace, events: JobEventLog) {
    this.#keys = new ReplicatorKeys(subspace);
    this.#events = events;
  }

  async changed(tx: Transaction, { id }: JobName, change: JobChange): Promise<void> {
    if (change.isLost) this.#events.noteLost(tx, id);
    const stored = await this.#stored(tx, id);
    const before = stored?.status;
    if (change.facts === undefined) {
      this.#change(tx, id, stored, undefined);
      return;
    }
    const { data, request, facts } = change;
    if (before !== undefined && data === undefined && request === undefined) {
      this.#change(tx, id, stored, withFacts(before, facts));
      return;
    }
    if (before === undefined || request !== undefined) {
      const job = readable(await change.load());
      this.#change(tx, id, stored, await this.#statusOf(tx, id, facts, job));
      return;
    }
    // A sign of life: what was asked for is what it was.
    const job = readable({ data: data ?? {}, request: undefined });
    const isMoved = before.replicationId !== job.replicationId;
    const hasLeftBehind = isMoved
      ? await this.#hasLeftBehind(tx, job.replicationId)
      : before.hasLeftBehind;
    const { behindSinceMs } = before;
    const after = jobStatus(id, facts, job, before, { hasLeftBehind, behindSinceMs });
    this.#change(tx, id, stored, after);
  }

  async #stored(tx: ReadTransaction, jobId: string): Promise<StoredStatus | undefined> {
    const value = await tx.get(this.#keys.jobStatus(jobId));
    return value && { value, status: decodeStatus(value) };
  }

  async status(tx: ReadTransaction, jobId: string): Promise<JobStatus | undefined> {
    return (await this.#stored(tx, jobId))?.status;
  }

  /** The list of failures of this base id has become empty, or is empty no more. */
  async leftBehind(tx: Transaction, baseId: string, hasLeftBehind: boolean): Promise<void> {
    const page = await tx.getRangePage(this.#keys.replicationJobsBelow(baseId));
    const ids = new Set(page.entries.map(({ key }) => this.#keys.replicationJobId(key)));
    for (const id of ids) {
      const stored = await this.#stored(tx, id);
      if (stored === undefined || baseIdOf(stored.status.replicationId) !== baseId) continue;
      this.#change(tx, id, stored, { ...stored.status, hasLeftBehind });
    }
  }

  /**
   * Since when it is known that a change of the job has not arrived, is another time; undefined: all have arrived. Only that it falls
   * behind, or has caught up, is an event.
   */
  async behind(tx: Transaction, jobId: string, behindSinceMs: number | undefined): Promise<void> {
    const stored = await this.#stored(tx, jobId);
    if (stored === undefined) return;
    const after = { ...stored.status, behindSinceMs };
    const wasBehind = stored.status.behindSinceMs !== undefined;
    if (wasBehind === (behindSinceMs !== undefined)) this.#replace(tx, jobId, stored, after);
    else this.#change(tx, jobId, stored, after);
  }

  /** The next transient jobs that ended before `endMs`, the earliest first, behind `after`. */
  async endedTransients(
    tx: ReadTransaction,
    endMs: number,
    after: EndedJob | undefined,
  ): Promise<readonly EndedJob[]> {
    const { begin } = this.#keys.statusRows("ended");
    const { begin: end } = this.#keys.statusRows("ended", endMs);
    const from =
      after === undefined
        ? begin
        : keyAfter(this.#keys.statusRow("ended", after.endedMs, after.jobId));
    const found: EndedJob[] = [];
    for await (const { key } of tx.getRange({ begin: from, end }, { limit: PAGE_ROWS_MAX })) {
      const { value, jobId } = this.#keys.statusOf(key);
      found.push({ endedMs: Number(value), jobId });
    }
    return found;
  }

  /** Builds the index of a store of an older version, once: in pages, by any number of nodes, which may stop and go on. */
  async build(kv: KeyValueStore, jobs: Jobs): Promise<void> {
    const key = this.#keys.statusIndex();
    for (let isBuilt = false; !isBuilt; ) {
      isBuilt = await kv.transact(
        async (tx) => {
          const value = await tx.get(key);
          const [format, lastBuilt] = value === undefined ? [] : unpackTuple(value);
          const afterId = format === FORMAT ? lastBuilt : "";
          if (afterId === null) return true;
          const { lastId } = await this.#repairPage(tx, jobs, String(afterId));
          tx.set(key, packTuple([FORMAT, lastId ?? null]));
          return lastId === undefined;
        },
        { whenUnknown: "retry" },
      );
    }
  }

  /**
   * Compares the next jobs behind `afterId` with the index, and repairs what an older node beside us left behind. `afterId`: "" for the
   * first ones.
   */
  repair(kv: KeyValueStore, jobs: Jobs, afterId: string): Promise<RepairedPage> {
    return kv.transact((tx) => this.#repairPage(tx, jobs, afterId), { whenUnknown: "retry" });
  }

  /** Looks at snapshots, so that nothing conflicts with it but the jobs that it repairs. */
  async #repairPage(tx: Transaction, jobs: Jobs, afterId: string): Promise<RepairedPage> {
    const page = await jobs.list(tx.snapshot, REPLICATION_JOB_TYPE, {
      ...(afterId === "" ? {} : { afterId }),
      limit: PAGE_ROWS_MAX,
    });
    const lastId = page.stoppedBy === "exhausted" ? undefined : page.entries.at(-1)?.id;
    const known = await this.#idsBetween(tx.snapshot, afterId, lastId);
    const ids = new Set([...page.entries.map(({ id }) => id), ...known]);
    let repairedCount = 0;
    const byId = new Map(page.entries.map((job) => [job.id, job]));
    for (const id of ids) {
      const seen = byId.get(id);
      const expected = seen && (await this.#statusOf(tx.snapshot, id, seen, readable(seen)));
      const stored = await tx.snapshot.get(this.#keys.jobStatus(id));
      if (isSame(stored, expected && encodeStatus(expected))) continue;
      const job = await jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
      const after = job && (await this.#statusOf(tx, id, job, readable(job)));
      this.#replace(tx, id, await this.#stored(tx, id), after);
      repairedCount++;
    }
    return { lastId, repairedCount };
  }

  async #idsBetween(
    tx: ReadTransaction,
    afterId: string,
    lastId: string | undefined,
  ): Promise<readonly string[]> {
    const all = this.#keys.jobStatuses();
    const begin = afterId === "" ? all.begin : keyAfter(this.#keys.jobStatus(afterId));
    const end = lastId === undefined ? all.end : keyAfter(this.#keys.jobStatus(lastId));
    const ids: string[] = [];
    for await (const { key } of tx.getRange({ begin, end }))
      ids.push(this.#keys.statusOf(key).jobId);
    return ids;
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
    stored: StoredStatus | undefined,
    after: JobStatus | undefined,
  ): void {
    const isChanged = this.#replace(tx, jobId, stored, after);
    if (isChanged) this.#events.noteStatus(tx, jobId, stored?.status, after);
  }

  /** Returns whether anything is different now. */
  #replace(
    tx: Transaction,
    jobId: string,
    stored: StoredStatus | undefined,
    after: JobStatus | undefined,
  ): boolean {
    const before = stored?.status;
    const value = after && encodeStatus(after);
    if (isSame(stored?.value, value)) return false;
    const key = this.#keys.jobStatus(jobId);
    if (value === undefined) tx.clear(key);
    else tx.set(key, value);
    const gone = before === undefined ? [] : rowsOf(jobId, before);
    const come = after === undefined ? [] : rowsOf(jobId, after);
    for (const row of gone) if (!isAmong(come, row)) this.#remove(tx, jobId, row);
    for (const row of come) if (!isAmong(gone, row)) this.#add(tx, jobId, row);
    if (before === undefined) this.#count(tx, counterOfDatabase(jobId), 1n);
    if (after === undefined) this.#count(tx, counterOfDatabase(jobId), -1n);
    return true;
  }

  #add(tx: Transaction, jobId: string, row: StatusRow): void {
    tx.set(this.#keys.statusRow(...row, jobId), EMPTY_BYTES);
    this.#count(tx, counterOf(row, jobId), 1n);
  }

  #remove(tx: Transaction, jobId: string, row: StatusRow): void {
    tx.clear(this.#keys.statusRow(...row, jobId));
    this.#count(tx, counterOf(row, jobId), -1n);
  }

  #count(tx: Transaction, counter: StatusCounter | undefined, delta: bigint): void {
    if (counter !== undefined) tx.add(this.#keys.statusCount(...counter), delta);
  }
}

/** 2: statuses say when a transient job ended. 3: and where a job fails; databases of our own have a mark. */
const FORMAT = 3;

function readable(job: Pick<Job, "data" | "request">): IndexedJob {
  return isReadable(job) ? decodeIndexed(job) : unreadableJobData();
}

function isSame(left: Uint8Array | undefined, right: Uint8Array | undefined): boolean {
  if (left === undefined || right === undefined) return left === right;
  return equalBytes(left, right);
}

function rowsOf(jobId: string, status: JobStatus): readonly StatusRow[] {
  return [...askedRows(status), ...progressRows(jobId, status)];
}

/** A job has few rows. */
function isAmong(rows: readonly StatusRow[], [list, value]: StatusRow): boolean {
  return rows.some((row) => row[0] === list && row[1] === value);
}

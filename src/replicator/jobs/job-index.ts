/**
 * The index of jobs for those who look: which jobs are in a state, fail, are paused and so on, in pages, and how many. It is
 * written in the transactions that change the jobs (`JobObserver`).
 *
 * A node of a version without it may change jobs beside us. So `repair` compares the index with the jobs, page by page; it also
 * builds the index of a store that has none.
 */
import { EMPTY_BYTES } from "../../base/index.ts";
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
import { REPLICATION_JOB_TYPE, type ReplicationJobData, unreadableJobData } from "./job-data.ts";
import { decodeJob, isReadable } from "./job-data-record.ts";
import {
  askedStatus,
  countersOf,
  decodeStatus,
  encodeStatus,
  isSameStatus,
  type JobStatus,
  jobStatus,
  type StatusRow,
  statusRows,
  withFacts,
} from "./job-status.ts";

/** Jobs compared with the index in one transaction. */
const PAGE_ROWS_MAX = 200;

/** What one page of a comparison did; `lastId`: where the next one begins, undefined behind the last. */
interface RepairedPage {
  readonly lastId: string | undefined;
  readonly repairedCount: number;
}

export class JobIndex implements JobObserver {
  readonly #keys: ReplicatorKeys;

  constructor(subspace: Subspace) {
    this.#keys = new ReplicatorKeys(subspace);
  }

  async changed(tx: Transaction, { id }: JobName, change: JobChange): Promise<void> {
    const before = await this.status(tx, id);
    if (change.facts === undefined) {
      this.#replace(tx, id, before, undefined);
      return;
    }
    const { data, request, facts } = change;
    if (before !== undefined && data === undefined && request === undefined) {
      this.#replace(tx, id, before, withFacts(before, facts));
      return;
    }
    if (before === undefined || request !== undefined) {
      const job = readable(await change.load());
      this.#replace(tx, id, before, await this.#statusOf(tx, facts, job));
      return;
    }
    // A sign of life: what was asked for is what it was.
    const job = readable({ data: data ?? {}, request: undefined });
    const isMoved = before.replicationId !== job.replicationId;
    const hasLeftBehind = isMoved
      ? await this.#hasLeftBehind(tx, job.replicationId)
      : before.hasLeftBehind;
    this.#replace(tx, id, before, jobStatus(facts, job, before, hasLeftBehind));
  }

  async status(tx: ReadTransaction, jobId: string): Promise<JobStatus | undefined> {
    const value = await tx.get(this.#keys.jobStatus(jobId));
    return value && decodeStatus(value);
  }

  /** The list of failures of this base id has become empty, or is empty no more. */
  async leftBehind(tx: Transaction, baseId: string, hasLeftBehind: boolean): Promise<void> {
    const page = await tx.getRangePage(this.#keys.replicationJobsBelow(baseId));
    const ids = new Set(page.entries.map(({ key }) => this.#keys.replicationJobId(key)));
    for (const id of ids) {
      const before = await this.status(tx, id);
      const isOf = before !== undefined && baseIdOf(before.replicationId) === baseId;
      if (isOf) this.#replace(tx, id, before, { ...before, hasLeftBehind });
    }
  }

  /** Builds the index of a store of an older version, once: in pages, by any number of nodes, which may stop and go on. */
  async build(kv: KeyValueStore, jobs: Jobs): Promise<void> {
    const key = this.#keys.statusIndex();
    for (let isBuilt = false; !isBuilt; ) {
      isBuilt = await kv.transact(
        async (tx) => {
          const value = await tx.get(key);
          const afterId = value === undefined ? "" : unpackTuple(value)[1];
          if (afterId === null) return true;
          const { lastId } = await this.#repairPage(tx, jobs, String(afterId));
          tx.set(key, packTuple([FORMAT, lastId ?? null]));
          return lastId === undefined;
        },
        { whenUnknown: "retry" },
      );
    }
  }

  /** Compares the whole index with the jobs, and repairs what an older node beside us left behind; returns how many jobs. */
  async repair(kv: KeyValueStore, jobs: Jobs): Promise<number> {
    let afterId: string | undefined = "";
    let count = 0;
    while (afterId !== undefined) {
      const from: string = afterId;
      const page: RepairedPage = await kv.transact((tx) => this.#repairPage(tx, jobs, from), {
        whenUnknown: "retry",
      });
      count += page.repairedCount;
      afterId = page.lastId;
    }
    return count;
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
      const expected = seen && (await this.#statusOf(tx.snapshot, seen, readable(seen)));
      if (isSameStatus(expected, await this.status(tx.snapshot, id))) continue;
      const job = await jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
      const after = job && (await this.#statusOf(tx, job, readable(job)));
      this.#replace(tx, id, await this.status(tx, id), after);
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
    facts: Pick<Job, "state" | "scheduledAtSec">,
    data: ReplicationJobData,
  ): Promise<JobStatus> {
    const hasLeftBehind = await this.#hasLeftBehind(tx, data.replicationId);
    return jobStatus(facts, data, askedStatus(data), hasLeftBehind);
  }

  async #hasLeftBehind(tx: ReadTransaction, replicationId: string | undefined): Promise<boolean> {
    const baseId = baseIdOf(replicationId);
    if (baseId === undefined) return false;
    const page = await tx.getRangePage(this.#keys.failureCounts(baseId), { limit: 1 });
    return page.entries.length > 0;
  }

  #replace(
    tx: Transaction,
    jobId: string,
    before: JobStatus | undefined,
    after: JobStatus | undefined,
  ): void {
    if (isSameStatus(before, after)) return;
    const key = this.#keys.jobStatus(jobId);
    if (after === undefined) tx.clear(key);
    else tx.set(key, encodeStatus(after));
    const gone = rowsByName(jobId, before);
    const come = rowsByName(jobId, after);
    for (const [name, row] of gone) {
      if (come.has(name)) continue;
      tx.clear(this.#keys.statusRow(...row, jobId));
      for (const counter of countersOf(row, jobId)) tx.add(this.#keys.statusCount(...counter), -1n);
    }
    for (const [name, row] of come) {
      if (gone.has(name)) continue;
      tx.set(this.#keys.statusRow(...row, jobId), EMPTY_BYTES);
      for (const counter of countersOf(row, jobId)) tx.add(this.#keys.statusCount(...counter), 1n);
    }
  }
}

const FORMAT = 1;

function readable(job: Pick<Job, "data" | "request">): ReplicationJobData {
  return isReadable(job) ? decodeJob(job) : unreadableJobData();
}

function rowsByName(jobId: string, status: JobStatus | undefined): Map<string, StatusRow> {
  const rows = status === undefined ? [] : statusRows(jobId, status);
  return new Map(rows.map((row) => [JSON.stringify(row), row]));
}

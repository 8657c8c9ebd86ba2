/**
 * Pages of jobs from the index (`JobListPlanner`). Conditions not guaranteed by a list are tested
 * against each job's status. A page reads about as many keys as it has rows. If matching jobs can
 * be counted only by testing them, a page tests at most `TESTED_ROWS_MAX` rows, and returns where
 * to continue.
 */
import { append, chunksOf, compareBytes } from "../../base/index.ts";
import type { Job, Jobs, Worker } from "../../jobs/index.ts";
import {
  type Key,
  type KeyBounds,
  type KeyValueStore,
  keyAfter,
  type ReadTransaction,
  type Subspace,
} from "../../kv/index.ts";
import { isAwaiting } from "../jobs/decide.ts";
import { REPLICATION_JOB_TYPE, replicationState, unreadableJobData } from "../jobs/job-data.ts";
import { decodeJob, isReadable } from "../jobs/job-data-record.ts";
import type { JobStatus } from "../jobs/job-status.ts";
import { replicatorKeys } from "../replicator-keys.ts";
import { type Backlog, isUnread } from "./backlog.ts";
import type { Backlogs } from "./backlogs.ts";
import type { IndexView } from "./index-view.ts";
import {
  isOfDatabase,
  isProvenCaughtUp,
  type JobFilter,
  matchesName,
  matchesReason,
  matchesStatus,
} from "./job-filter.ts";
import type { JobIndex } from "./job-index.ts";
import {
  type JobListPlan,
  JobListPlanner,
  type JobListSource,
  type JobOrder,
  type JobPosition,
} from "./job-list-plan.ts";
import type { AwaitReason, JobEntry } from "./job-views.ts";

/** Maximum number of rows read per transaction. */
const CHUNK_ROWS_MAX = 200;
/**
 * Safety factor for the number of rows to read, which is estimated from the share of matches so
 * far.
 */
const LIKELY_RATIO = 1.5;
/** Maximum number of rows tested per page if matching jobs can be counted only by testing them. */
const TESTED_ROWS_MAX = 1000;

export interface JobPageRequest {
  readonly filter: JobFilter;
  readonly order?: JobOrder;
  readonly descending?: boolean;
  /** Position after which the page starts. */
  readonly after?: JobPosition | undefined;
  readonly skip?: number;
  readonly limit: number;
}

export interface JobPage {
  readonly entries: readonly JobEntry[];
  /** Number of matching jobs; undefined if too expensive to count. */
  readonly total: number | undefined;
  /** Start of the next page; undefined after the last. */
  readonly next: JobPosition | undefined;
}

export interface FoundJob {
  readonly entry: JobEntry;
  readonly status: JobStatus;
}

interface Row {
  readonly position: JobPosition;
  readonly key: Key;
}

/** Range of rows to read. */
interface RowsWanted {
  /** Position after which reading starts. */
  readonly position: JobPosition | undefined;
  readonly descending: boolean;
  readonly limit: number;
}

export interface JobListsParts {
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly backlogs: Backlogs;
  readonly index: JobIndex;
  readonly subspace: Subspace;
  /** Returns the ids of the jobs that no node may run. */
  readonly unplaced: (tx: ReadTransaction, jobs: readonly Job[]) => Promise<ReadonlySet<string>>;
  readonly chains: {
    reasons(tx: ReadTransaction, jobs: readonly Job[]): Promise<ReadonlyMap<string, AwaitReason>>;
  };
}

export class JobLists {
  readonly #parts: JobListsParts;
  readonly #planner: JobListPlanner;

  constructor(parts: JobListsParts) {
    this.#parts = parts;
    this.#planner = new JobListPlanner(parts.jobs, replicatorKeys(parts.subspace));
  }

  async page(request: JobPageRequest): Promise<JobPage> {
    const { filter, order = "id", after, limit, skip = 0, descending = false } = request;
    const { kv, index } = this.#parts;
    const plan = await this.#plan(filter, order);
    const known = plan.total;
    const entries: JobEntry[] = [];
    let position = after;
    let next: JobPosition | undefined;
    let matchedCount = 0;
    let testedCount = 0;
    for (;;) {
      const wantedCount = skip + limit - matchedCount;
      const rowCountMax = nextRowCount(plan, { wantedCount, testedCount, matchedCount });
      const from = { position, descending, limit: rowCountMax };
      const { rows, matching, shown } = await index.read(kv, async (view) => {
        const { tx } = view;
        const found = await this.#rows(view, plan, from);
        const passed = plan.isTested ? await this.#matching(tx, found, filter) : found;
        const first = Math.max(0, skip - matchedCount);
        const last = Math.max(first, wantedCount);
        const wanted = passed.slice(first, last);
        return { rows: found, matching: passed, shown: await this.#entries(tx, wanted.map(idOf)) };
      });
      const isFull = wantedCount > 0 && matching.length >= wantedCount;
      if (isFull) next = matching[wantedCount - 1]?.position;
      append(entries, shown);
      matchedCount += matching.length;
      testedCount += rows.length;
      position = rows.at(-1)?.position;
      if (rows.length < rowCountMax) {
        const isLast = next === undefined || matchedCount === skip + limit;
        const counted = after === undefined ? matchedCount : undefined;
        return { entries, total: known ?? counted, next: isLast ? undefined : next };
      }
      const isEnough = next !== undefined || limit === 0;
      const isTooMuch = known === undefined && testedCount >= TESTED_ROWS_MAX;
      if ((isEnough && known !== undefined) || isTooMuch) {
        return { entries, total: known, next: isEnough ? next : position };
      }
    }
  }

  async entry(tx: ReadTransaction, jobId: string): Promise<JobEntry | undefined> {
    const [entry] = await this.#entries(tx, [jobId]);
    return entry;
  }

  /** Returns the existing jobs with these ids, as a map by id. */
  async entries(jobIds: readonly string[]): Promise<ReadonlyMap<string, JobEntry>> {
    const found = new Map<string, JobEntry>();
    for (const chunk of chunksOf([...new Set(jobIds)], CHUNK_ROWS_MAX)) {
      const entries = await this.#parts.kv.read((tx) => this.#entries(tx, chunk));
      for (const entry of entries) found.set(entry.jobId, entry);
    }
    return found;
  }

  /** Returns the existing jobs with these ids, and their statuses, as a map by id. */
  async byId(jobIds: readonly string[]): Promise<ReadonlyMap<string, FoundJob>> {
    return this.#parts.kv.read(async (tx) => {
      const [statuses, found] = await Promise.all([
        this.#parts.index.statuses.getMany(tx.snapshot, jobIds),
        this.#entries(tx, jobIds),
      ]);
      const entries = new Map(found.map((entry) => [entry.jobId, entry]));
      return new Map(
        jobIds.flatMap((id, index) => {
          const [entry, status] = [entries.get(id), statuses[index]];
          const isThere = entry !== undefined && status !== undefined;
          return isThere ? [[id, { entry, status }] as const] : [];
        }),
      );
    });
  }

  /** Yields all matching jobs. Changing the jobs of one page does not affect the next page. */
  async *all(filter: JobFilter): AsyncIterable<JobEntry> {
    let after: JobPosition | undefined;
    do {
      const page: JobPage = await this.page({ filter, after, limit: CHUNK_ROWS_MAX });
      yield* page.entries;
      after = page.next;
    } while (after !== undefined);
  }

  /** Yields the ids of all matching jobs, in pages. */
  async *ids(filter: JobFilter): AsyncIterable<readonly string[]> {
    const { kv, index } = this.#parts;
    const plan = await this.#plan(filter, "id");
    let position: JobPosition | undefined;
    for (;;) {
      const wanted = { position, descending: false, limit: CHUNK_ROWS_MAX };
      const { rows, matching } = await index.read(kv, async (view) => {
        const found = await this.#rows(view, plan, wanted);
        const passed = plan.isTested ? await this.#matching(view.tx, found, filter) : found;
        return { rows: found, matching: passed };
      });
      yield matching.map(idOf);
      if (rows.length < CHUNK_ROWS_MAX) return;
      position = rows.at(-1)?.position;
    }
  }

  #plan(filter: JobFilter, order: JobOrder): Promise<JobListPlan> {
    const { kv, index, backlogs } = this.#parts;
    return index.read(kv, async (view) => {
      const isChecked = filter.unknown !== undefined;
      const hasSilent = isChecked && (await backlogs.silentSources(view.tx)).size > 0;
      return this.#planner.plan(view, filter, order, hasSilent);
    });
  }

  /** Returns the next rows of all sources, each job once. */
  async #rows(
    view: IndexView,
    { sources, orderKey }: JobListPlan,
    wanted: RowsWanted,
  ): Promise<readonly Row[]> {
    const sign = wanted.descending ? -1 : 1;
    const afterKey = wanted.position && orderKey(wanted.position);
    const found = await Promise.all(sources.map((source) => this.#positions(view, source, wanted)));
    return found
      .flat()
      .map((position): Row => ({ position, key: orderKey(position) }))
      .filter(({ key }) => afterKey === undefined || sign * compareBytes(key, afterKey) > 0)
      .toSorted((left, right) => sign * compareBytes(left.key, right.key))
      .filter(
        ({ key }, index, all) => index === 0 || compareBytes(key, all[index - 1]?.key ?? key) !== 0,
      )
      .slice(0, wanted.limit);
  }

  async #positions(
    view: IndexView,
    source: JobListSource,
    { position, descending: reverse, limit }: RowsWanted,
  ): Promise<readonly JobPosition[]> {
    if (source.kind === "positions") return source.positions;
    if (source.kind === "jobs") {
      const wanted = { prefix: source.prefix, afterId: position?.[1], reverse, limit };
      const ids = await this.#parts.jobs.ids(view.tx, REPLICATION_JOB_TYPE, wanted);
      return ids.map((id): JobPosition => [null, id]);
    }
    const { range, keyOf } = source;
    const rest = position === undefined ? range : behind(range, keyOf(position), reverse);
    const rows = await view.rows(rest, { limit, reverse });
    return rows.map(({ value, jobId }): JobPosition => [value, jobId]);
  }

  async #matching(
    tx: ReadTransaction,
    rows: readonly Row[],
    filter: JobFilter,
  ): Promise<readonly Row[]> {
    const { reason, name, databaseUuid, states } = filter;
    const running = new Set(
      states && (await this.#parts.jobs.runningIds(tx.snapshot, REPLICATION_JOB_TYPE)),
    );
    const statuses = await this.#parts.index.statuses.getMany(tx.snapshot, rows.map(idOf));
    const unwatched =
      filter.unknown === undefined
        ? new Set()
        : await this.#parts.backlogs.unwatched(tx.snapshot, rows.map(idOf));
    const passed = rows.filter(({ position: [, id] }, index) => {
      const status = statuses[index];
      if (status === undefined || !isOfDatabase(id, databaseUuid)) return false;
      const known = unwatched.has(id) ? { ...status, isUnread: true } : status;
      return matchesStatus(filter, known, running.has(id));
    });
    const { isCaughtUp = false } = filter;
    if (reason === undefined && name === undefined && !isCaughtUp) return passed;
    const entries = await this.#entries(tx, passed.map(idOf));
    const matching = entries.filter(
      (entry) =>
        (!isCaughtUp || isProvenCaughtUp(entry.backlog)) &&
        (reason === undefined || matchesReason(reason, entry.data)) &&
        (name === undefined || matchesName(name, entry)),
    );
    const ids = new Set(matching.map(({ jobId }) => jobId));
    return passed.filter(({ position: [, id] }) => ids.has(id));
  }

  async #entries(tx: ReadTransaction, ids: readonly string[]): Promise<readonly JobEntry[]> {
    const { jobs, backlogs } = this.#parts;
    if (ids.length === 0) return [];
    const workers = new Map(
      (await jobs.workers.members(tx.snapshot)).map((worker) => [worker.id, worker]),
    );
    const found = await jobs.getMany(tx.snapshot, REPLICATION_JOB_TYPE, ids);
    const known = await backlogs.getMany(
      tx.snapshot,
      found.map(({ id }) => id),
    );
    const unplaced = await this.#parts.unplaced(tx, found);
    const reasons = await this.#parts.chains.reasons(tx, found);
    return found.map((job, index) =>
      entryOf(job, workers.get(job.worker ?? ""), known[index], {
        isUnplaced: unplaced.has(job.id),
        awaits: reasons.get(job.id),
      }),
    );
  }
}

export function entryOf(
  job: Job,
  worker: Worker | undefined,
  stored: Backlog | undefined,
  { isUnplaced, awaits }: Pick<JobEntry, "isUnplaced" | "awaits"> = {
    isUnplaced: false,
    awaits: undefined,
  },
): JobEntry {
  const { id: jobId, scheduledAtSec } = job;
  const data = isReadable(job) ? decodeJob(job) : unreadableJobData();
  const hasNoLag = isAwaiting(job) || isUnread(stored, data.failing);
  const backlog = hasNoLag ? undefined : stored;
  const state = replicationState(job, data);
  return { jobId, data, state, worker, scheduledAtSec, backlog, isUnplaced, awaits };
}

/** Returns the number of rows to read next, given the share of matches so far. */
function nextRowCount(
  { isTested, total }: JobListPlan,
  {
    wantedCount,
    testedCount,
    matchedCount,
  }: {
    readonly wantedCount: number;
    readonly testedCount: number;
    readonly matchedCount: number;
  },
): number {
  // One extra row shows whether there is a next page.
  if (!isTested || testedCount === 0) return Math.min(CHUNK_ROWS_MAX, wantedCount + 1);
  // If the total is unknown, rows have to be tested to count matches anyway, so read full chunks.
  if (total === undefined) return CHUNK_ROWS_MAX;
  const likelyCount = (wantedCount + 1) * (testedCount / matchedCount) * LIKELY_RATIO;
  return Math.min(CHUNK_ROWS_MAX, Math.ceil(likelyCount));
}

function idOf({ position: [, id] }: Row): string {
  return id;
}

function behind({ begin, end }: KeyBounds, key: Key, descending: boolean): KeyBounds {
  return descending ? { begin, end: key } : { begin: keyAfter(key), end };
}

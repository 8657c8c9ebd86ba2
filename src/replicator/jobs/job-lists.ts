/**
 * Lists of jobs, in pages, from the index. A page is read from the shortest list that has all that is asked for; what else is asked for
 * is tested by the status of each job. So a page costs as many keys as it has rows. Only where conditions have to be tested is it more:
 * at most `TESTED_ROWS_MAX`, and the page then says where to go on.
 */
import { compareBytes } from "../../base/index.ts";
import type { Job, Jobs, Worker } from "../../jobs/index.ts";
import {
  type Key,
  type KeyRange,
  type KeyValueStore,
  keyAfter,
  type ReadTransaction,
  type Subspace,
} from "../../kv/index.ts";
import { ReplicatorKeys, type StatusValue } from "../replicator-keys.ts";
import {
  REPLICATION_JOB_TYPE,
  type ReplicationState,
  replicationState,
  unreadableJobData,
} from "./job-data.ts";
import { decodeJob, isReadable } from "./job-data-record.ts";
import { type JobFilter, matchesReason, matchesStatus, placeNamed } from "./job-filter.ts";
import { decodeStatus, listedName, STATUS_FLAGS, type StatusRow } from "./job-status.ts";
import type { JobEntry } from "./job-views.ts";

/** Rows read in one transaction. */
const CHUNK_ROWS_MAX = 200;
/** Rows that one page tests at most. */
const TESTED_ROWS_MAX = 1000;

const STATES: readonly ReplicationState[] = [
  "running",
  "pending",
  "crashing",
  "completed",
  "failed",
];

/** `id`: of the job; `shown-id`: the replication's, of jobs that have not ended; `since`, `tries`: of jobs that fail. */
export type JobOrder = "id" | "shown-id" | "since" | "tries";

/** Where a page ended: the row's value, where the order has one, and the job. */
export type JobPosition = readonly [value: StatusValue, jobId: string];

export interface JobPageRequest {
  readonly filter: JobFilter;
  readonly order?: JobOrder;
  readonly descending?: boolean;
  /** Begins behind it. */
  readonly after?: JobPosition | undefined;
  readonly skip?: number;
  readonly limit: number;
}

export interface JobPage {
  readonly entries: readonly JobEntry[];
  /** How many jobs match; undefined where that would take a look at too many. */
  readonly total: number | undefined;
  /** Where the next page begins; undefined behind the last. */
  readonly next: JobPosition | undefined;
}

interface Row {
  readonly position: JobPosition;
}

/** A part of a list, and the key of a position in it. */
interface Source {
  readonly range: KeyRange;
  readonly keyOf: (position: JobPosition) => Key;
}

/** What a page is read from. */
interface Plan {
  readonly sources: readonly Source[];
  readonly count: number;
  /** Whether all rows match, so that the count is the total. */
  readonly isExact: boolean;
}

export interface JobListsParts {
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly subspace: Subspace;
}

export class JobLists {
  readonly #parts: JobListsParts;
  readonly #keys: ReplicatorKeys;

  constructor(parts: JobListsParts) {
    this.#parts = parts;
    this.#keys = new ReplicatorKeys(parts.subspace);
  }

  async page(request: JobPageRequest): Promise<JobPage> {
    const { filter, after, limit, skip = 0, descending = false } = request;
    const { kv } = this.#parts;
    const { plan, known } = await kv.read(async (tx) => {
      const chosen = await this.#plan(tx, request);
      return { plan: chosen, known: await this.#total(tx, filter, chosen) };
    });
    const entries: JobEntry[] = [];
    let position = after;
    let next: JobPosition | undefined;
    let matchedCount = 0;
    let testedCount = 0;
    for (;;) {
      const wantedCount = skip + limit - matchedCount;
      // One more than wanted tells whether there is a next page.
      const rowCountMax = plan.isExact ? Math.min(CHUNK_ROWS_MAX, wantedCount + 1) : CHUNK_ROWS_MAX;
      const from = { position, descending, limit: rowCountMax };
      const { rows, matching, shown } = await kv.read(async (tx) => {
        const found = await this.#rows(tx, plan, from);
        const passed = plan.isExact ? found : await this.#matching(tx, found, filter);
        const first = Math.max(0, skip - matchedCount);
        const last = Math.max(first, wantedCount);
        const wanted = passed.slice(first, last);
        return { rows: found, matching: passed, shown: await this.#entries(tx, wanted) };
      });
      const isFull = wantedCount > 0 && matching.length >= wantedCount;
      if (isFull) next = matching[wantedCount - 1]?.position;
      entries.push(...shown);
      matchedCount += matching.length;
      testedCount += rows.length;
      position = rows.at(-1)?.position;
      if (rows.length < rowCountMax) {
        const isLast = next === undefined || matchedCount === skip + limit;
        const counted = after === undefined ? matchedCount : undefined;
        return { entries, total: known ?? counted, next: isLast ? undefined : next };
      }
      const isEnough = next !== undefined || limit === 0;
      const isTooMuch = !plan.isExact && testedCount >= TESTED_ROWS_MAX;
      if ((isEnough && known !== undefined) || isTooMuch) {
        return { entries, total: known, next: isEnough ? next : position };
      }
    }
  }

  /** Every job that matches, page by page; what is done to the jobs of a page does not disturb the next one. */
  async *all(filter: JobFilter): AsyncIterable<JobEntry> {
    let after: JobPosition | undefined;
    do {
      const page: JobPage = await this.page({ filter, after, limit: CHUNK_ROWS_MAX });
      yield* page.entries;
      after = page.next;
    } while (after !== undefined);
  }

  /** The shortest list, or the one that has the order. */
  async #plan(tx: ReadTransaction, { filter, order = "id" }: JobPageRequest): Promise<Plan> {
    if (order === "since" || order === "tries") {
      const count = await this.#count(tx, ["flag", "failing"]);
      const { failing: _, ...others } = filter;
      const isExact = Object.keys(others).length === 0;
      return { sources: [this.#ordered(order)], count, isExact };
    }
    if (order === "shown-id") {
      const active: ReplicationState[] = ["running", "pending", "crashing"];
      const count = await this.#countStates(tx, active, undefined);
      return { sources: [this.#ordered("active")], count, isExact: true };
    }
    const plans = await Promise.all(this.#candidates(filter).map((candidate) => candidate(tx)));
    return plans.reduce((best, plan) => (plan.count < best.count ? plan : best));
  }

  /** The first of equal lists counts: that of states knows databases apart. */
  #candidates(filter: JobFilter): readonly ((tx: ReadTransaction) => Promise<Plan>)[] {
    const { states = STATES, databaseUuid, reason } = filter;
    const rows: StatusRow[] = [];
    const { source, target, owner, error } = filter;
    if (owner !== undefined) rows.push(["owner", listedName(owner)]);
    if (source !== undefined) rows.push(["source", placeNamed(source)]);
    if (target !== undefined) rows.push(["target", placeNamed(target)]);
    if (error !== undefined) rows.push(["error", error]);
    for (const flag of STATUS_FLAGS) if (filter[flag] === true) rows.push(["flag", flag]);
    if (reason !== undefined) rows.push(["flag", "failing"]);
    const conditionCount = Object.keys(filter).length;
    const ofStates = async (tx: ReadTransaction): Promise<Plan> => ({
      sources:
        states === STATES
          ? [this.#byId(this.#keys.jobStatuses(), databaseUuid, (id) => this.#keys.jobStatus(id))]
          : states.map((state) => this.#list(["state", state], databaseUuid)),
      count: await this.#countStates(tx, states, databaseUuid),
      isExact:
        conditionCount === Number(filter.states !== undefined) + Number(databaseUuid !== undefined),
    });
    const ofRows = rows.map(
      (row) =>
        async (tx: ReadTransaction): Promise<Plan> => ({
          sources: [this.#list(row, databaseUuid)],
          count: await this.#count(tx, row),
          isExact: conditionCount === 1 && reason === undefined,
        }),
    );
    return [ofStates, ...ofRows];
  }

  /** A whole list in the order of its values. */
  #ordered(list: "since" | "tries" | "active"): Source {
    const keyOf = ([value, id]: JobPosition): Key => this.#keys.statusRow(list, value, id);
    return { range: this.#keys.statusRows(list), keyOf };
  }

  #list([list, value]: StatusRow, databaseUuid: string | undefined): Source {
    const all = this.#keys.statusRows(list, value);
    return this.#byId(all, databaseUuid, (id) => this.#keys.statusRow(list, value, id));
  }

  /** A list in the order of ids, or the jobs of one `_replicator` database, whose ids begin with its uuid and a bar. */
  #byId(all: KeyRange, databaseUuid: string | undefined, keyOfId: (jobId: string) => Key): Source {
    const keyOf = ([, id]: JobPosition): Key => keyOfId(id);
    if (databaseUuid === undefined) return { range: all, keyOf };
    const range = { begin: keyOfId(`${databaseUuid}|`), end: keyOfId(`${databaseUuid}}`) };
    return { range, keyOf };
  }

  async #total(
    tx: ReadTransaction,
    filter: JobFilter,
    { isExact, count }: Plan,
  ): Promise<number | undefined> {
    if (isExact) return count;
    const [flag, ...others] = Object.keys(filter);
    const negated = STATUS_FLAGS.find((name) => name === flag && filter[name] === false);
    if (negated === undefined || others.length > 0) return undefined;
    const all = await this.#countStates(tx, STATES, undefined);
    return all - (await this.#count(tx, ["flag", negated]));
  }

  async #countStates(
    tx: ReadTransaction,
    states: readonly ReplicationState[],
    databaseUuid: string | undefined,
  ): Promise<number> {
    const counts = await Promise.all(
      states.map((state) => this.#count(tx, ["state", state], databaseUuid)),
    );
    return counts.reduce((sum, count) => sum + count, 0);
  }

  async #count(
    tx: ReadTransaction,
    [list, value]: StatusRow,
    databaseUuid?: string,
  ): Promise<number> {
    const counter = await tx.snapshot.get(
      this.#keys.statusCount(list, value, databaseUuid ?? null),
    );
    if (counter === undefined) return 0;
    const view = new DataView(counter.buffer, counter.byteOffset, counter.byteLength);
    return Number(view.getBigInt64(0, true));
  }

  /** The next rows of all sources together; several are in the order of ids. */
  async #rows(
    tx: ReadTransaction,
    { sources }: Plan,
    {
      position,
      descending,
      limit,
    }: {
      readonly position: JobPosition | undefined;
      readonly descending: boolean;
      readonly limit: number;
    },
  ): Promise<readonly Row[]> {
    const pages = await Promise.all(
      sources.map(async ({ range, keyOf }) => {
        const rest = position === undefined ? range : behind(range, keyOf(position), descending);
        const found: (Row & { readonly key: Key })[] = [];
        for await (const { key } of tx.snapshot.getRange(rest, { limit, reverse: descending })) {
          const { value, jobId } = this.#keys.statusOf(key);
          found.push({ position: [value, jobId], key: this.#keys.jobStatus(jobId) });
        }
        return found;
      }),
    );
    if (pages.length === 1) return pages[0] ?? [];
    const sign = descending ? -1 : 1;
    return pages
      .flat()
      .toSorted((left, right) => sign * compareBytes(left.key, right.key))
      .slice(0, limit);
  }

  async #matching(
    tx: ReadTransaction,
    rows: readonly Row[],
    filter: JobFilter,
  ): Promise<readonly Row[]> {
    const { reason, databaseUuid } = filter;
    const keys = rows.map(({ position: [, id] }) => this.#keys.jobStatus(id));
    const statuses = await tx.snapshot.getMany(keys);
    const passed = rows.filter(({ position: [, id] }, index) => {
      const value = statuses[index];
      const isWithin = databaseUuid === undefined || id.startsWith(`${databaseUuid}|`);
      return isWithin && value !== undefined && matchesStatus(filter, decodeStatus(value));
    });
    if (reason === undefined) return passed;
    const entries = await this.#entries(tx, passed);
    const ids = new Set(
      entries.filter(({ data }) => matchesReason(reason, data)).map(({ jobId }) => jobId),
    );
    return passed.filter(({ position: [, id] }) => ids.has(id));
  }

  async #entries(tx: ReadTransaction, rows: readonly Row[]): Promise<readonly JobEntry[]> {
    const { jobs } = this.#parts;
    if (rows.length === 0) return [];
    const workers = new Map(
      (await jobs.workers.members(tx.snapshot)).map((worker) => [worker.id, worker]),
    );
    const found = await Promise.all(
      rows.map(({ position: [, id] }) => jobs.get(tx.snapshot, { type: REPLICATION_JOB_TYPE, id })),
    );
    return found.flatMap((job) =>
      job === undefined ? [] : [entryOf(job, workers.get(job.worker ?? ""))],
    );
  }
}

export function entryOf(job: Job, worker: Worker | undefined): JobEntry {
  const { id: jobId, scheduledAtSec } = job;
  const data = isReadable(job) ? decodeJob(job) : unreadableJobData();
  return { jobId, data, state: replicationState(job, data), worker, scheduledAtSec };
}

function behind({ begin, end }: KeyRange, key: Key, descending: boolean): KeyRange {
  return descending ? { begin, end: key } : { begin: keyAfter(key), end };
}

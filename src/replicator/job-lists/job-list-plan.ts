/**
 * Plans how to read a page of jobs: which lists of the index to read, and the total number of
 * matching jobs.
 *
 * The index has no rows for waiting and running jobs. The queue provides the running jobs, which
 * are few. All other jobs that have not ended are waiting: if these are few, they are sorted by id;
 * otherwise all jobs are scanned.
 */
import { sum } from "../../base/index.ts";
import type { Jobs } from "../../jobs/index.ts";
import { type Key, type KeyBounds, packTuple } from "../../kv/index.ts";
import { matchesCause, parseCauseKey } from "../jobs/failure-cause.ts";
import type { Glob } from "../jobs/glob.ts";
import { hasEnded, REPLICATION_JOB_TYPE, type ReplicationState } from "../jobs/job-data.ts";
import {
  behindValue,
  LISTED_FLAGS,
  STATUS_FLAGS,
  type StatusRow,
  shownId,
} from "../jobs/job-status.ts";
import { LOCAL_MARK, listedName, REMOTE_MARK } from "../jobs/listed-name.ts";
import { type ReplicatorKeys, type StatusValue, statusRowsBelow } from "../replicator-keys.ts";
import type { IndexView } from "./index-view.ts";
import { isOfDatabase, type JobFilter, type NameFilter, placesNamed } from "./job-filter.ts";
import { StatusCounts } from "./status-counts.ts";

/** Maximum number of lists merged for a page. */
const MERGED_LISTS_MAX = 50;
/** Maximum number of jobs sorted for a page. */
const SORTED_ROWS_MAX = 2000;

/**
 * Order of jobs. Only unfinished jobs have a position in `shown-id`, only failing jobs in `since`
 * and `tries`, and only jobs that are behind in `lag`.
 */
export type JobOrder = "id" | "shown-id" | "since" | "tries" | "lag";

/** A position in a list: the row's value, if the order has one, and the job id. */
export type JobPosition = readonly [value: StatusValue, jobId: string];

/**
 * Source of rows. `range`: a range of the index; `keyOf` maps a position to its key. `jobs`: all
 * jobs with an id prefix. `positions`: positions in any order.
 */
export type JobListSource =
  | { readonly kind: "range"; readonly range: KeyBounds; readonly keyOf: PositionKey }
  | { readonly kind: "jobs"; readonly prefix: string }
  | { readonly kind: "positions"; readonly positions: readonly JobPosition[] };

type PositionKey = (position: JobPosition) => Key;

export interface JobListPlan {
  /** Sources to be merged. Together they contain all matching jobs, possibly more than once. */
  readonly sources: readonly JobListSource[];
  /** Order of the rows in all sources. */
  readonly orderKey: PositionKey;
  /** Whether rows must be tested, because some rows might not match. */
  readonly isTested: boolean;
  /** Number of matching jobs; undefined if rows would have to be tested to count them. */
  readonly total: number | undefined;
}

/** A list containing all matching jobs, and its length. */
interface Candidate {
  readonly count: number;
  readonly plan: JobListPlan;
}

export class JobListPlanner {
  readonly #jobs: Jobs;
  readonly #keys: ReplicatorKeys;
  readonly #counts: StatusCounts;

  constructor(jobs: Jobs, keys: ReplicatorKeys) {
    this.#jobs = jobs;
    this.#keys = keys;
    this.#counts = new StatusCounts(jobs, keys);
  }

  /**
   * Returns a plan for the requested order. A plan for the order by id reads a list whose total is
   * known, if there is one, and otherwise the shortest list. `hasSilent`: whether parked jobs can
   * have an unknown lag, because their source does not respond.
   */
  async plan(
    view: IndexView,
    filter: JobFilter,
    order: JobOrder,
    hasSilent = false,
  ): Promise<JobListPlan> {
    if (order === "since" || order === "tries") return this.#ofFailing(view, filter, order);
    if (order === "shown-id") return this.#ofActive(view);
    if (order === "lag") return this.#byLag(view, filter);
    const candidates = await Promise.all([
      this.#ofStates(view, filter),
      ...rowsAskedFor(filter, hasSilent).map((rows) => this.#ofRows(view, filter, rows, hasSilent)),
      ...(isOnlyFailing(filter) ? [this.#ofErrors(view, filter)] : []),
      ...(isOfCause(filter) ? [this.#ofCauses(view, filter)] : []),
      ...(filter.behindSinceMs === undefined ? [] : [this.#ofBehind(view, filter)]),
      ...(filter.name?.idPrefixes === undefined ? [] : [this.#ofNames(view, filter.name)]),
      ...databasesAskedFor(filter).map(([list, glob]) => this.#ofDatabases(view, list, glob)),
    ]);
    const whole = candidates.find(({ plan }) => plan.total !== undefined);
    if (whole !== undefined) return whole.plan;
    const { plan } = candidates.reduce((best, one) => (one.count < best.count ? one : best));
    return { ...plan, total: hasSilent ? undefined : await this.#countWithout(view, filter) };
  }

  async #ofFailing(
    view: IndexView,
    { failing: _, ...others }: JobFilter,
    list: "since" | "tries",
  ): Promise<JobListPlan> {
    const isTested = Object.keys(others).length > 0;
    const total = isTested ? undefined : sum((await this.#counts.errors(view)).values());
    return { ...this.#ordered(list, []), isTested, total };
  }

  async #byLag(view: IndexView, filter: JobFilter): Promise<JobListPlan> {
    const { behindSinceMs } = filter;
    const isTested = Object.keys(filter).length > 0;
    const total = isTested ? undefined : await this.#counts.rows(view, ["behind", null]);
    const keyOf: PositionKey = ([value, id]) =>
      this.#keys.statusRow.key({ list: "behind", value, jobId: id });
    const source = { kind: "range", range: this.#behindSince(behindSinceMs), keyOf } as const;
    return { sources: [source], orderKey: keyOf, isTested, total };
  }

  /**
   * Returns a candidate with the jobs that have been behind for at least the given time, by id. If
   * there are too many, the candidate scans all jobs.
   */
  async #ofBehind(view: IndexView, filter: JobFilter): Promise<Candidate> {
    const { behindSinceMs, ...others } = filter;
    const range = this.#behindSince(behindSinceMs);
    const isTested = Object.keys(others).length > 0;
    const rows = await view.rows(range, { limit: SORTED_ROWS_MAX + 1 });
    const ids = rows.map(({ jobId }) => jobId);
    if (ids.length > SORTED_ROWS_MAX) {
      const count = await this.#counts.all(view, undefined);
      return {
        count,
        plan: { ...this.#byId([allJobs(undefined)]), isTested: true, total: undefined },
      };
    }
    const total = isTested ? undefined : ids.length;
    return { count: ids.length, plan: { ...this.#byId([positionsOf(ids)]), isTested, total } };
  }

  async #ofNames(view: IndexView, { idPrefixes = [] }: NameFilter): Promise<Candidate> {
    let count = 0;
    for (const prefix of idPrefixes) {
      const limit = SORTED_ROWS_MAX + 1 - count;
      if (limit <= 0) break;
      const wanted = { prefix, afterId: undefined, reverse: false, limit };
      count += (await this.#jobs.ids(view.tx, REPLICATION_JOB_TYPE, wanted)).length;
    }
    const sources = idPrefixes.map((prefix) => ({ kind: "jobs", prefix }) as const);
    return { count, plan: { ...this.#byId(sources), isTested: true, total: undefined } };
  }

  /**
   * Returns a candidate with the jobs, by id, whose database names start with the literal prefix of
   * the pattern. If there are too many such jobs, the candidate scans all jobs.
   */
  async #ofDatabases(
    view: IndexView,
    list: "source" | "target",
    { prefix }: Glob,
  ): Promise<Candidate> {
    const begins = [LOCAL_MARK + prefix, REMOTE_MARK + prefix];
    const found = await Promise.all(
      begins.map((begin) =>
        view.rows(statusRowsBelow(this.#keys, list, begin), { limit: SORTED_ROWS_MAX + 1 }),
      ),
    );
    const ids = new Set(found.flat().map(({ jobId }) => jobId));
    const isTooLong = ids.size > SORTED_ROWS_MAX;
    const sources = [isTooLong ? allJobs(undefined) : positionsOf([...ids])];
    const count = isTooLong ? await this.#counts.all(view, undefined) : ids.size;
    return { count, plan: { ...this.#byId(sources), isTested: true, total: undefined } };
  }

  /**
   * Returns the range of jobs that are behind. With `sinceMs`, only jobs that fell behind at that
   * time or earlier.
   */
  #behindSince(sinceMs: number | undefined): KeyBounds {
    const { begin, end } = this.#keys.statusRow.range({ list: "behind" });
    if (sinceMs === undefined) return { begin, end };
    return {
      begin: this.#keys.statusRow.range({ list: "behind", value: behindValue(sinceMs) }).begin,
      end,
    };
  }

  /** Plans a list of unfinished jobs. It includes ended jobs whose failures are being retried. */
  async #ofActive(view: IndexView): Promise<JobListPlan> {
    const running = await this.#counts.running(view, undefined);
    const again = [...running].filter(([, { outcome }]) => hasEnded(outcome));
    const positions = again.map(([id, status]): JobPosition => [shownId(id, status), id]);
    const total = (await this.#counts.active(view)) + positions.length;
    return { ...this.#ordered("active", positions), isTested: false, total };
  }

  async #ofStates(view: IndexView, filter: JobFilter): Promise<Candidate> {
    const { states, databaseUuid, ...others } = filter;
    const isWhole = Object.keys(others).length === 0;
    if (states === undefined) {
      const count = await this.#counts.all(view, databaseUuid);
      const total = isWhole ? count : undefined;
      return {
        count,
        plan: { ...this.#byId([allJobs(databaseUuid)]), isTested: !isWhole, total },
      };
    }
    const counts = await this.#counts.states(view, databaseUuid);
    const count = sum(states.map((state) => counts[state]));
    const sources = await this.#sourcesOfStates(view, states, filter);
    const total = isWhole ? count : undefined;
    return { count, plan: { ...this.#byId(sources), isTested: true, total } };
  }

  async #sourcesOfStates(
    view: IndexView,
    states: readonly ReplicationState[],
    filter: JobFilter,
  ): Promise<readonly JobListSource[]> {
    const { databaseUuid } = filter;
    const isPendingAsked = states.includes("pending");
    if (isPendingAsked && (await this.#counts.active(view)) > SORTED_ROWS_MAX) {
      return [allJobs(databaseUuid)];
    }
    const sources = await Promise.all(
      states.map(async (state): Promise<readonly JobListSource[]> => {
        if (state === "pending") return [positionsOf(await this.#activeIds(view, databaseUuid))];
        if (state !== "running") return [this.#list(["outcome", state], databaseUuid)];
        const running = positionsOf([...(await this.#counts.running(view, databaseUuid)).keys()]);
        if (filter.parked === false) return [running];
        return [running, this.#list(["outcome", "parked"], databaseUuid)];
      }),
    );
    return sources.flat();
  }

  /** Returns a candidate plan that reads the jobs with any of these rows. */
  async #ofRows(
    view: IndexView,
    filter: JobFilter,
    rows: readonly StatusRow[],
    hasSilent: boolean,
  ): Promise<Candidate> {
    const count = sum(await Promise.all(rows.map((row) => this.#counts.rows(view, row))));
    const hasOtherTags = (filter.tags?.length ?? 0) > 1;
    const isTested = hasSilent || hasOtherTags || Object.keys(filter).length > 1;
    const sources = rows.map((row) => this.#list(row, filter.databaseUuid));
    return {
      count,
      plan: { ...this.#byId(sources), isTested, total: isTested ? undefined : count },
    };
  }

  async #ofErrors(view: IndexView, filter: JobFilter): Promise<Candidate> {
    const counts = await this.#counts.errors(view);
    const count = sum(counts.values());
    const isTested = Object.keys(filter).length > 1 || filter.failing !== true;
    const sources = [...counts.keys()].map((error) =>
      this.#list(["error", error], filter.databaseUuid),
    );
    return {
      count,
      plan: { ...this.#byId(sources), isTested, total: isTested ? undefined : count },
    };
  }

  /**
   * Returns a candidate with the jobs that fail at the host or side in the filter. If too many
   * causes match, it is a candidate with all failing jobs.
   */
  async #ofCauses(view: IndexView, filter: JobFilter): Promise<Candidate> {
    const { error: _, side: __, host, failing, ...others } = filter;
    const counts = await this.#counts.causes(view, host);
    const fitting = [...counts].filter(([text]) => matchesCause(filter, parseCauseKey(text)));
    if (fitting.length > MERGED_LISTS_MAX) return this.#ofErrors(view, filter);
    const count = sum(fitting.map(([, of]) => of));
    const isTested = Object.keys(others).length > 0 || failing === false;
    const sources = fitting.map(([text]) => this.#list(["cause", text], filter.databaseUuid));
    return {
      count,
      plan: { ...this.#byId(sources), isTested, total: isTested ? undefined : count },
    };
  }

  /**
   * If the only condition of the filter excludes a flag, returns the number of jobs without that
   * flag; otherwise undefined.
   */
  async #countWithout(view: IndexView, filter: JobFilter): Promise<number | undefined> {
    const [name, ...others] = Object.keys(filter);
    const flag = STATUS_FLAGS.find((one) => one === name && filter[one] === false);
    if (flag === undefined || others.length > 0) return undefined;
    const count =
      flag === "failing"
        ? sum((await this.#counts.errors(view)).values())
        : await this.#counts.rows(view, flag === "parked" ? ["outcome", flag] : ["flag", flag]);
    return (await this.#counts.all(view, undefined)) - count;
  }

  #byId(sources: readonly JobListSource[]): Pick<JobListPlan, "sources" | "orderKey"> {
    return { sources, orderKey: ([, id]) => packTuple([id]) };
  }

  /**
   * Returns two sources in the order of the list's values: the whole list, and the given positions.
   */
  #ordered(
    list: "since" | "tries" | "active",
    positions: readonly JobPosition[],
  ): Pick<JobListPlan, "sources" | "orderKey"> {
    const keyOf: PositionKey = ([value, id]) =>
      this.#keys.statusRow.key({ list, value, jobId: id });
    const range = this.#keys.statusRow.range({ list });
    const rows = { kind: "range", range, keyOf } as const;
    return { sources: [rows, { kind: "positions", positions }], orderKey: keyOf };
  }

  #list([list, value]: StatusRow, databaseUuid: string | undefined): JobListSource {
    const all = this.#keys.statusRow.range({ list, value });
    return rangeById(all, databaseUuid, (id) =>
      this.#keys.statusRow.key({ list, value, jobId: id }),
    );
  }

  async #activeIds(view: IndexView, databaseUuid: string | undefined): Promise<readonly string[]> {
    const rows = await view.rows(this.#keys.statusRow.range({ list: "active" }));
    return rows.map(({ jobId }) => jobId).filter((id) => isOfDatabase(id, databaseUuid));
  }
}

/**
 * For each condition of the filter that has a list in the index, returns the rows with all jobs
 * that fulfil the condition.
 */
function rowsAskedFor(filter: JobFilter, hasSilent: boolean): readonly (readonly StatusRow[])[] {
  const { source, target, owner, error, tags = [] } = filter;
  const found: (readonly StatusRow[])[] = [];
  const placed = (list: "source" | "target", place: string): readonly StatusRow[] =>
    placesNamed(place).map((name) => [list, name]);
  if (owner !== undefined) found.push([["owner", listedName(owner)]]);
  for (const tag of tags) found.push([["tag", tag]]);
  if (source !== undefined) found.push(placed("source", source));
  if (target !== undefined) found.push(placed("target", target));
  if (error !== undefined) found.push([["error", error]]);
  if (filter.parked === true) found.push([["outcome", "parked"]]);
  for (const flag of LISTED_FLAGS) {
    if (filter[flag] !== true) continue;
    const isParkedToo = hasSilent && flag === "unknown";
    found.push(
      isParkedToo
        ? [
            ["flag", flag],
            ["outcome", "parked"],
          ]
        : [["flag", flag]],
    );
  }
  return found;
}

/** Returns the conditions on database names, except those whose pattern begins with a star. */
function databasesAskedFor({
  sourceDatabase,
  targetDatabase,
}: JobFilter): (readonly ["source" | "target", Glob])[] {
  const asked = [
    ["source", sourceDatabase],
    ["target", targetDatabase],
  ] as const;
  return asked.flatMap(([list, glob]) =>
    glob === undefined || glob.prefix === "" ? [] : [[list, glob] as const],
  );
}

/**
 * Whether the filter specifies a side or host, which requires the list by cause. If it only
 * specifies a class, the list by class suffices.
 */
function isOfCause({ side, host }: JobFilter): boolean {
  return side !== undefined || host !== undefined;
}

/**
 * Whether the filter matches failing jobs only. A condition on the reason implies this, because
 * other jobs have no reason.
 */
function isOnlyFailing({ failing, reason }: JobFilter): boolean {
  return failing === true || reason !== undefined;
}

function positionsOf(ids: readonly string[]): JobListSource {
  return { kind: "positions", positions: ids.map((id): JobPosition => [null, id]) };
}

/** Returns a source for all jobs, or those of one `_replicator` database. */
function allJobs(databaseUuid: string | undefined): JobListSource {
  return { kind: "jobs", prefix: databaseUuid === undefined ? "" : `${databaseUuid}|` };
}

/**
 * Returns a source for a list in id order, or for its part that belongs to one `_replicator`
 * database, whose job ids share a prefix.
 */
function rangeById(
  all: KeyBounds,
  databaseUuid: string | undefined,
  keyOfId: (jobId: string) => Key,
): JobListSource {
  const keyOf: PositionKey = ([, id]) => keyOfId(id);
  if (databaseUuid === undefined) return { kind: "range", range: all, keyOf };
  const range = { begin: keyOfId(`${databaseUuid}|`), end: keyOfId(`${databaseUuid}}`) };
  return { kind: "range", range, keyOf };
}

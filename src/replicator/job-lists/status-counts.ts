/**
 * Counts of jobs by state, failure, tag and host, from the counters of the index. Uses snapshot
 * reads, which cause no conflicts.
 */
import { chunksOf, sum } from "../../base/index.ts";
import type { FailureClass } from "../../contract/index.ts";
import type { Jobs } from "../../jobs/index.ts";
import { decodeCounter, type KeyValueStore } from "../../kv/index.ts";
import { causePrefixes, parseCauseKey } from "../jobs/failure-cause.ts";
import { REPLICATION_JOB_TYPE, type ReplicationState, type RunOutcome } from "../jobs/job-data.ts";
import {
  type JobStatus,
  type StatusRow,
  TAG_COUNTERS,
  type TagCounter,
  tagCounterList,
} from "../jobs/job-status.ts";
import { JobStatuses } from "../jobs/job-statuses.ts";
import { LOCAL_MARK } from "../jobs/listed-name.ts";
import { type ReplicatorKeys, type StatusValue, statusCountsBelow } from "../replicator-keys.ts";
import type { IndexView } from "./index-view.ts";
import { hasTag, isOfDatabase } from "./job-filter.ts";

/** Maximum number of counters with the value zero that are removed per transaction. */
const FORGOTTEN_COUNT_MAX = 500;

/**
 * Lists whose counters are removed when they reach zero, because values such as tags come and go.
 */
const FORGOTTEN_LISTS = ["cause", "tag", ...TAG_COUNTERS.map(tagCounterList)];

/**
 * Number of jobs with one tag, by state. If `value` is undefined, includes all values of the tag.
 */
export interface TagStates {
  readonly value: string | undefined;
  readonly states: StateCounts;
}

type StateCounts = Readonly<Record<ReplicationState, number>>;

/**
 * Number of jobs that fail with the same error class at the same host; `host` is null if no host is
 * involved.
 */
export interface FailingCount {
  readonly class: FailureClass;
  readonly host: string | null;
  readonly jobCount: number;
}

export class StatusCounts {
  readonly #jobs: Jobs;
  readonly #statuses: JobStatuses;
  readonly #keys: ReplicatorKeys;

  constructor(jobs: Jobs, keys: ReplicatorKeys) {
    this.#jobs = jobs;
    this.#statuses = new JobStatuses(jobs.notes);
    this.#keys = keys;
  }

  /** Counts the jobs of one `_replicator` database, or all jobs. */
  async all(view: IndexView, databaseUuid: string | undefined): Promise<number> {
    if (databaseUuid !== undefined) return this.#at(view, "all", null, databaseUuid);
    const { pending, running, finished } = await this.#jobs.counts.read(
      view.tx,
      REPLICATION_JOB_TYPE,
    );
    return pending + running + finished;
  }

  /** Counts the rows of a list that have the given value. */
  async rows(view: IndexView, [list, value]: StatusRow): Promise<number> {
    return sum((await view.counts(this.#keys.statusCount.range({ list, value }))).values());
  }

  /**
   * Counts jobs by the outcome of their last run, optionally only those of one `_replicator`
   * database.
   */
  outcome(
    view: IndexView,
    outcome: Exclude<RunOutcome, "pending">,
    databaseUuid: string | undefined,
  ): Promise<number> {
    if (databaseUuid === undefined) return this.rows(view, ["outcome", outcome]);
    return this.#at(view, "outcome", outcome, databaseUuid);
  }

  /** Counts the rows of the list `active`. */
  async active(view: IndexView): Promise<number> {
    const ended = [
      await this.outcome(view, "completed", undefined),
      await this.outcome(view, "failed", undefined),
    ];
    return (await this.all(view, undefined)) - sum(ended);
  }

  /** Returns the number of failing jobs by class of the last failure, omitting zero counts. */
  errors(view: IndexView): Promise<ReadonlyMap<StatusValue, number>> {
    return view.counts(this.#keys.statusCount.range({ list: "error" }));
  }

  /**
   * Returns the number of failing jobs by cause, for all hosts or for one host (with or without a
   * port), omitting zero counts.
   */
  async causes(view: IndexView, host: string | undefined): Promise<ReadonlyMap<string, number>> {
    const ranges =
      host === undefined
        ? [this.#keys.statusCount.range({ list: "cause" })]
        : causePrefixes(host).map((prefix) => statusCountsBelow(this.#keys, "cause", prefix));
    const found = await Promise.all(ranges.map((range) => view.counts(range)));
    return new Map(
      found.flatMap((counts) => [...counts].map(([cause, count]) => [String(cause), count])),
    );
  }

  /**
   * Returns the number of jobs by host of their source or target, omitting zero counts. A
   * non-default port is part of the host. A job whose host has such a port has two rows, without
   * and with the port; it counts only for the latter.
   */
  async hosts(view: IndexView, list: "source" | "target"): Promise<ReadonlyMap<string, number>> {
    const all = this.#keys.statusCount.range({ list });
    const local = statusCountsBelow(this.#keys, list, LOCAL_MARK);
    const ranges = [
      { begin: all.begin, end: local.begin },
      { begin: local.end, end: all.end },
    ];
    const found = await Promise.all(ranges.map((range) => view.counts(range)));
    const counts = new Map(
      found.flatMap((part) => [...part].map(([host, count]) => [String(host), count] as const)),
    );
    for (const [host, count] of [...counts]) {
      const [, name] = /^(.+):\d+$/.exec(host) ?? [];
      if (name === undefined) continue;
      const rest = (counts.get(name) ?? 0) - count;
      if (rest > 0) counts.set(name, rest);
      else counts.delete(name);
    }
    return counts;
  }

  /** Returns the number of failing jobs by class and host: most jobs first, then by name. */
  async failing(view: IndexView): Promise<readonly FailingCount[]> {
    const found = new Map<string, FailingCount>();
    for (const [text, count] of await this.causes(view, undefined)) {
      const cause = parseCauseKey(text);
      if (cause === undefined) continue;
      const { class: failureClass, host = null } = cause;
      // Within a class, failures without a host sort first.
      const name = `${failureClass}\n${host ?? ""}`;
      const jobCount = (found.get(name)?.jobCount ?? 0) + count;
      found.set(name, { class: failureClass, host, jobCount });
    }
    const counts = [...found].toSorted(([left], [right]) => (left < right ? -1 : 1));
    return counts
      .map(([, count]) => count)
      .toSorted((left, right) => right.jobCount - left.jobCount);
  }

  /** Returns the number of failing jobs by value of a tag, omitting zero counts. */
  async failingByTag(view: IndexView, name: string): Promise<ReadonlyMap<string, number>> {
    const range = statusCountsBelow(this.#keys, tagCounterList("failing"), `${name}:`);
    const counts = [...(await view.counts(range))];
    return new Map(counts.map(([term, count]) => [String(term).slice(name.length + 1), count]));
  }

  /**
   * Returns the number of jobs with a tag in each state: for all values of the tag combined, and
   * for each of the first `valuesMax` values in order.
   */
  async tagStates(view: IndexView, name: string, valuesMax: number): Promise<readonly TagStates[]> {
    const range = statusCountsBelow(this.#keys, "tag", `${name}:`);
    const counts = await view.counts(range, valuesMax);
    const running = [...(await this.running(view, undefined)).values()];
    const values = [...counts.keys()].map((term) => String(term).slice(name.length + 1));
    return Promise.all(
      [undefined, ...values.toSorted().slice(0, valuesMax)].map(async (value) => {
        const term = value === undefined ? name : `${name}:${value}`;
        const having = running.filter(({ tags }) => hasTag({ tags }, term));
        return { value, states: await this.#statesOfTag(view, term, having) };
      }),
    );
  }

  async #statesOfTag(
    view: IndexView,
    term: string,
    running: readonly JobStatus[],
  ): Promise<StateCounts> {
    const at = (list: string): Promise<number> =>
      view.count(this.#keys.statusCount.key({ list, value: term, uuid: null }));
    const waiting = async (outcome: Exclude<TagCounter, "failing">): Promise<number> =>
      (await at(tagCounterList(outcome))) - running.filter((job) => job.outcome === outcome).length;
    const [all, parked, crashing, completed, failed] = await Promise.all([
      at("tag"),
      waiting("parked"),
      waiting("crashing"),
      waiting("completed"),
      waiting("failed"),
    ]);
    const others = { running: running.length + parked, crashing, completed, failed };
    return { ...others, pending: all - sum(Object.values(others)) };
  }

  /** Removes the zero counters of causes and tags, page by page. Can conflict with folds. */
  async forgetZeros(kv: KeyValueStore): Promise<void> {
    for (const list of FORGOTTEN_LISTS) await this.#forgetZeros(kv, list);
  }

  async #forgetZeros(kv: KeyValueStore, list: string): Promise<void> {
    const zeros = await kv.read(async (tx) => {
      const keys = [];
      const range = this.#keys.statusCount.range({ list });
      for await (const { key, value } of tx.snapshot.getRange(range)) {
        if (decodeCounter(value) === 0) keys.push(key);
      }
      return keys;
    });
    for (const page of chunksOf(zeros, FORGOTTEN_COUNT_MAX)) {
      await kv.transact(
        async (tx) => {
          const values = await tx.getMany(page);
          for (const [index, key] of page.entries()) {
            if (decodeCounter(values[index]) === 0) tx.clear(key);
          }
        },
        { whenUnknown: "retry" },
      );
    }
  }

  /** Returns the running jobs, of one `_replicator` database or of all. */
  async running(
    view: IndexView,
    databaseUuid: string | undefined,
  ): Promise<ReadonlyMap<string, JobStatus>> {
    const running = await this.#jobs.runningIds(view.tx, REPLICATION_JOB_TYPE);
    const ids = running.filter((id) => isOfDatabase(id, databaseUuid));
    const statuses = await this.#statuses.getMany(view.tx, ids);
    const found = ids.map((id, index) => [id, statuses[index]] as const);
    return new Map(found.flatMap(([id, status]) => (status === undefined ? [] : [[id, status]])));
  }

  /** Returns the number of jobs by displayed state, for one `_replicator` database or for all. */
  async states(view: IndexView, databaseUuid: string | undefined): Promise<StateCounts> {
    const running = [...(await this.running(view, databaseUuid)).values()];
    const waiting = async (outcome: Exclude<RunOutcome, "pending">): Promise<number> => {
      const count = await this.outcome(view, outcome, databaseUuid);
      return count - running.filter((status) => status.outcome === outcome).length;
    };
    const others = {
      running: running.length + (await waiting("parked")),
      crashing: await waiting("crashing"),
      completed: await waiting("completed"),
      failed: await waiting("failed"),
    };
    const pending = (await this.all(view, databaseUuid)) - sum(Object.values(others));
    return { ...others, pending };
  }

  #at(view: IndexView, list: string, value: StatusValue, databaseUuid: string): Promise<number> {
    return view.count(this.#keys.statusCount.key({ list, value, uuid: databaseUuid }));
  }
}

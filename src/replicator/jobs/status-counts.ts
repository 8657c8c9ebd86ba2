/** How many jobs are in a list of the index, from counters. Snapshots: nothing conflicts with them. */
import type { FailureClass } from "../../contract/index.ts";
import type { Jobs } from "../../jobs/index.ts";
import type { KeyValueStore } from "../../kv/index.ts";
import type { ReplicatorKeys, StatusValue } from "../replicator-keys.ts";
import { causePrefixes, parseCauseKey } from "./failure-cause.ts";
import { decodeCounter, type IndexView } from "./index-view.ts";
import { REPLICATION_JOB_TYPE, type ReplicationState, type RunOutcome } from "./job-data.ts";
import { isOfDatabase } from "./job-filter.ts";
import type { JobStatus, StatusRow } from "./job-status.ts";
import { JobStatuses } from "./job-statuses.ts";
import { LOCAL_MARK } from "./listed-name.ts";

/** Counters of zero that are removed in one transaction. */
const FORGOTTEN_COUNT_MAX = 500;

/** How many jobs fail in the same way at the same host; null: at none. */
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

  /** All jobs, or those of one `_replicator` database. */
  async all(view: IndexView, databaseUuid: string | undefined): Promise<number> {
    if (databaseUuid !== undefined) return this.#at(view, "all", null, databaseUuid);
    const { pending, running, finished } = await this.#jobs.counts.read(
      view.tx,
      REPLICATION_JOB_TYPE,
    );
    return pending + running + finished;
  }

  /** The rows of a list with one value. */
  async rows(view: IndexView, [list, value]: StatusRow): Promise<number> {
    return sum((await view.counts(this.#keys.statusCounts(list, value))).values());
  }

  /** Jobs whose last run ended so, all or those of one `_replicator` database; whether they run or not. */
  outcome(
    view: IndexView,
    outcome: Exclude<RunOutcome, "pending">,
    databaseUuid: string | undefined,
  ): Promise<number> {
    if (databaseUuid === undefined) return this.rows(view, ["outcome", outcome]);
    return this.#at(view, "outcome", outcome, databaseUuid);
  }

  /** The rows of the list `active`. */
  async active(view: IndexView): Promise<number> {
    const ended = [
      await this.outcome(view, "completed", undefined),
      await this.outcome(view, "failed", undefined),
    ];
    return (await this.all(view, undefined)) - sum(ended);
  }

  /** Jobs that fail, by the class of their last failure; only classes that there are. */
  errors(view: IndexView): Promise<ReadonlyMap<StatusValue, number>> {
    return view.counts(this.#keys.statusCounts("error"));
  }

  /** Jobs that fail, by the text of the cause; of all hosts, or of one, with or without a port; only causes that there are. */
  async causes(view: IndexView, host: string | undefined): Promise<ReadonlyMap<string, number>> {
    const ranges =
      host === undefined
        ? [this.#keys.statusCounts("cause")]
        : causePrefixes(host).map((prefix) => this.#keys.statusCountsBelow("cause", prefix));
    const found = await Promise.all(ranges.map((range) => view.counts(range)));
    return new Map(
      found.flatMap((counts) => [...counts].map(([cause, count]) => [String(cause), count])),
    );
  }

  /**
   * Jobs by the host of their source or target, with a port that is not the scheme's; only hosts that have jobs. A job at a port is
   * in two rows, that of its host and that of host and port.
   */
  async hosts(view: IndexView, list: "source" | "target"): Promise<ReadonlyMap<string, number>> {
    const all = this.#keys.statusCounts(list);
    const local = this.#keys.statusCountsBelow(list, LOCAL_MARK);
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

  /** Jobs that fail, by class and host: most jobs first, and those with as many in the order of their names. */
  async failing(view: IndexView): Promise<readonly FailingCount[]> {
    const found = new Map<string, FailingCount>();
    for (const [text, count] of await this.causes(view, undefined)) {
      const cause = parseCauseKey(text);
      if (cause === undefined) continue;
      const { class: failureClass, host = null } = cause;
      // In this order, those without a host come first.
      const name = `${failureClass}\n${host ?? ""}`;
      const jobCount = (found.get(name)?.jobCount ?? 0) + count;
      found.set(name, { class: failureClass, host, jobCount });
    }
    const counts = [...found].toSorted(([left], [right]) => (left < right ? -1 : 1));
    return counts
      .map(([, count]) => count)
      .toSorted((left, right) => right.jobCount - left.jobCount);
  }

  /** Removes counters of causes for which no job fails any more, in pages, each of which conflicts with a fold that counts for it. */
  async forgetCauses(kv: KeyValueStore): Promise<void> {
    const zeros = await kv.read(async (tx) => {
      const keys = [];
      for await (const { key, value } of tx.snapshot.getRange(this.#keys.statusCounts("cause"))) {
        if (decodeCounter(value) === 0) keys.push(key);
      }
      return keys;
    });
    for (let first = 0; first < zeros.length; first += FORGOTTEN_COUNT_MAX) {
      const page = zeros.slice(first, first + FORGOTTEN_COUNT_MAX);
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

  /** The jobs that run, of one `_replicator` database or of all. */
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

  /** How many jobs are shown in each state, of one `_replicator` database or of all. */
  async states(
    view: IndexView,
    databaseUuid: string | undefined,
  ): Promise<Readonly<Record<ReplicationState, number>>> {
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
    return view.count(this.#keys.statusCount(list, value, databaseUuid));
  }
}

export function sum(counts: Iterable<number>): number {
  let total = 0;
  for (const count of counts) total += count;
  return total;
}

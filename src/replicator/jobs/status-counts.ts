/** How many jobs are in a list of the index, from counters. Snapshots: nothing conflicts with them. */
import type { Jobs } from "../../jobs/index.ts";
import type { KeyRange, KeyValueStore, ReadTransaction } from "../../kv/index.ts";
import type { ReplicatorKeys, StatusValue } from "../replicator-keys.ts";
import type { FailureClass } from "./failing.ts";
import { causePrefixes, parseCauseKey } from "./failure-cause.ts";
import { REPLICATION_JOB_TYPE, type ReplicationState, type RunOutcome } from "./job-data.ts";
import { isOfDatabase } from "./job-filter.ts";
import { decodeStatus, type JobStatus, type StatusRow } from "./job-status.ts";
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
  readonly #keys: ReplicatorKeys;

  constructor(jobs: Jobs, keys: ReplicatorKeys) {
    this.#jobs = jobs;
    this.#keys = keys;
  }

  /** All jobs, or those of one `_replicator` database. */
  async all(tx: ReadTransaction, databaseUuid: string | undefined): Promise<number> {
    if (databaseUuid !== undefined) return this.#at(tx, "all", null, databaseUuid);
    const { pending, running, finished } = await this.#jobs.counts.read(tx, REPLICATION_JOB_TYPE);
    return pending + running + finished;
  }

  /** The rows of a list with one value. */
  async rows(tx: ReadTransaction, [list, value]: StatusRow): Promise<number> {
    return sum((await this.#within(tx, this.#keys.statusCounts(list, value))).values());
  }

  /** Jobs whose last run ended so, all or those of one `_replicator` database; whether they run or not. */
  outcome(
    tx: ReadTransaction,
    outcome: Exclude<RunOutcome, "pending">,
    databaseUuid: string | undefined,
  ): Promise<number> {
    if (databaseUuid === undefined) return this.rows(tx, ["outcome", outcome]);
    return this.#at(tx, "outcome", outcome, databaseUuid);
  }

  /** The rows of the list `active`. */
  async active(tx: ReadTransaction): Promise<number> {
    const ended = [
      await this.outcome(tx, "completed", undefined),
      await this.outcome(tx, "failed", undefined),
    ];
    return (await this.all(tx, undefined)) - sum(ended);
  }

  /** Jobs that fail, by the class of their last failure; only classes that there are. */
  errors(tx: ReadTransaction): Promise<ReadonlyMap<StatusValue, number>> {
    return this.#within(tx, this.#keys.statusCounts("error"));
  }

  /** Jobs that fail, by the text of the cause; of all hosts, or of one, with or without a port; only causes that there are. */
  async causes(
    tx: ReadTransaction,
    host: string | undefined,
  ): Promise<ReadonlyMap<string, number>> {
    const ranges =
      host === undefined
        ? [this.#keys.statusCounts("cause")]
        : causePrefixes(host).map((prefix) => this.#keys.statusCountsBelow("cause", prefix));
    const found = await Promise.all(ranges.map((range) => this.#within(tx, range)));
    return new Map(
      found.flatMap((counts) => [...counts].map(([cause, count]) => [String(cause), count])),
    );
  }

  /**
   * Jobs by the host of their source or target, with a port that is not the scheme's; only hosts that have jobs. A job at a port is
   * in two rows, that of its host and that of host and port.
   */
  async hosts(
    tx: ReadTransaction,
    list: "source" | "target",
  ): Promise<ReadonlyMap<string, number>> {
    const all = this.#keys.statusCounts(list);
    const local = this.#keys.statusCountsBelow(list, LOCAL_MARK);
    const ranges = [
      { begin: all.begin, end: local.begin },
      { begin: local.end, end: all.end },
    ];
    const found = await Promise.all(ranges.map((range) => this.#within(tx, range)));
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
  async failing(tx: ReadTransaction): Promise<readonly FailingCount[]> {
    const found = new Map<string, FailingCount>();
    for (const [text, count] of await this.causes(tx, undefined)) {
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

  /** Removes counters of causes for which no job fails any more. A page each transaction, which conflicts with jobs that begin to. */
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
    tx: ReadTransaction,
    databaseUuid: string | undefined,
  ): Promise<ReadonlyMap<string, JobStatus>> {
    const running = await this.#jobs.runningIds(tx.snapshot, REPLICATION_JOB_TYPE);
    const ids = running.filter((id) => isOfDatabase(id, databaseUuid));
    const values = await tx.snapshot.getMany(ids.map((id) => this.#keys.jobStatus(id)));
    const found = ids.map((id, index) => [id, values[index]] as const);
    return new Map(
      found.flatMap(([id, value]) => (value === undefined ? [] : [[id, decodeStatus(value)]])),
    );
  }

  /** How many jobs are shown in each state, of one `_replicator` database or of all. */
  async states(
    tx: ReadTransaction,
    databaseUuid: string | undefined,
  ): Promise<Readonly<Record<ReplicationState, number>>> {
    const running = [...(await this.running(tx, databaseUuid)).values()];
    const waiting = async (outcome: Exclude<RunOutcome, "pending">): Promise<number> => {
      const count = await this.outcome(tx, outcome, databaseUuid);
      return count - running.filter((status) => status.outcome === outcome).length;
    };
    const others = {
      running: running.length + (await waiting("parked")),
      crashing: await waiting("crashing"),
      completed: await waiting("completed"),
      failed: await waiting("failed"),
    };
    const pending = (await this.all(tx, databaseUuid)) - sum(Object.values(others));
    return { ...others, pending };
  }

  async #within(tx: ReadTransaction, range: KeyRange): Promise<ReadonlyMap<StatusValue, number>> {
    const counts = new Map<StatusValue, number>();
    for await (const { key, value } of tx.snapshot.getRange(range)) {
      const name = this.#keys.countedValue(key);
      const count = (counts.get(name) ?? 0) + decodeCounter(value);
      if (count > 0) counts.set(name, count);
    }
    return counts;
  }

  async #at(
    tx: ReadTransaction,
    list: string,
    value: StatusValue,
    databaseUuid: string,
  ): Promise<number> {
    return decodeCounter(await tx.snapshot.get(this.#keys.statusCount(list, value, databaseUuid)));
  }
}

export function sum(counts: Iterable<number>): number {
  let total = 0;
  for (const count of counts) total += count;
  return total;
}

function decodeCounter(value: Uint8Array | undefined): number {
  if (value === undefined) return 0;
  return Number(new DataView(value.buffer, value.byteOffset, 8).getBigInt64(0, true));
}

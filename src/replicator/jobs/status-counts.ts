/** How many jobs are in a list of the index, from counters. Snapshots: nothing conflicts with them. */
import type { Jobs } from "../../jobs/index.ts";
import type { KeyRange, ReadTransaction } from "../../kv/index.ts";
import type { ReplicatorKeys, StatusValue } from "../replicator-keys.ts";
import { causePrefixes } from "./failure-cause.ts";
import { REPLICATION_JOB_TYPE } from "./job-data.ts";
import type { StatusRow } from "./job-status.ts";
import { LOCAL_MARK } from "./listed-name.ts";

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
    outcome: "crashing" | "completed" | "failed",
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

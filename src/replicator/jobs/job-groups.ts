/** The groups that share the slots, for display: shares, usage, jobs and waiting times. */
import { append, type Runtime } from "../../base/index.ts";
import { type Jobs, type StateCounts, usageSec } from "../../jobs/index.ts";
import type { KeyValueStore, ReadTransaction } from "../../kv/index.ts";
import { REPLICATION_JOB_TYPE } from "./job-data.ts";

/** Number of groups read per transaction. */
const CHUNK_ROWS_MAX = 100;

export interface JobGroup {
  /** Name of a `_replicator` database, or `user:NAME`. */
  readonly name: string;
  readonly shares: number;
  /** Usage of the group: run time with exponential decay. */
  readonly usageSec: number;
  /** Usage divided by shares. The group with the lowest standing is scheduled next. */
  readonly standing: number;
  readonly counts: StateCounts;
  /** Waiting time of the first due job; 0 if none is due. */
  readonly waitSec: number;
}

export interface JobGroupsParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
}

export class JobGroups {
  readonly #parts: JobGroupsParts;

  constructor(parts: JobGroupsParts) {
    this.#parts = parts;
  }

  /** Returns all groups with jobs or recent usage, longest waiting time first. */
  async list(): Promise<readonly JobGroup[]> {
    const { kv, jobs } = this.#parts;
    const found: JobGroup[] = [];
    for (let after: string | undefined; ; ) {
      const from = { after, limit: CHUNK_ROWS_MAX };
      const page = await kv.read(async (tx) => {
        const names = await jobs.counts.groupNames(tx, REPLICATION_JOB_TYPE, from);
        return Promise.all(names.map((name) => this.#group(tx.snapshot, name)));
      });
      append(found, page);
      after = page.at(-1)?.name;
      if (page.length < CHUNK_ROWS_MAX) break;
    }
    return found.toSorted(
      (left, right) => right.waitSec - left.waitSec || (left.name < right.name ? -1 : 1),
    );
  }

  async #group(tx: ReadTransaction, name: string): Promise<JobGroup> {
    const { jobs, runtime } = this.#parts;
    const nowSec = runtime.clock.nowMs() / 1000;
    const [counts, standing, dueSec] = await Promise.all([
      jobs.counts.read(tx, REPLICATION_JOB_TYPE, name),
      jobs.groups.standing(tx, REPLICATION_JOB_TYPE, name),
      jobs.groups.firstDueSec(tx, REPLICATION_JOB_TYPE, name),
    ]);
    const used = usageSec(standing, nowSec);
    return {
      name,
      shares: standing.shares,
      usageSec: used,
      standing: used / standing.shares,
      counts,
      waitSec: dueSec === undefined ? 0 : Math.max(0, nowSec - dueSec),
    };
  }
}

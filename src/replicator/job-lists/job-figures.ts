/**
 * Job counts by kind, and the jobs with the longest lags, for metrics. Read from the index in one
 * transaction, so that the numbers are consistent. The cost does not depend on the number of jobs,
 * except for one row read per running job, and one per kind of failure and host.
 */
import type { Clock } from "../../base/index.ts";
import type { Jobs } from "../../jobs/index.ts";
import type { KeyValueStore, ReadTransaction, Subspace } from "../../kv/index.ts";
import {
  REPLICATION_JOB_TYPE,
  type ReplicationJobData,
  type ReplicationState,
} from "../jobs/job-data.ts";
import { decodeJob, isReadable } from "../jobs/job-data-record.ts";
import { jobName } from "../jobs/job-name.ts";
import { hasLag } from "../jobs/job-status.ts";
import { groupOf } from "../jobs/replication-group.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import type { Backlogs } from "./backlogs.ts";
import type { IndexView } from "./index-view.ts";
import type { JobIndex } from "./job-index.ts";
import { type FailingCount, StatusCounts, type TagStates } from "./status-counts.ts";

/** Number of jobs read to find the groups with the longest lags. */
const LOOKED_AT_MAX = 1000;
const GROUPS_MAX = 50;
const WORST_JOBS_MAX = 20;

/** Age of the oldest pending change. */
export interface Lag {
  /** Display name of the group or job. */
  readonly name: string;
  readonly lagSec: number;
}

export interface JobFigures {
  readonly states: Readonly<Record<ReplicationState, number>>;
  /** Numbers of failing jobs by class and host, most jobs first. */
  readonly failing: readonly FailingCount[];
  readonly pausedCount: number;
  readonly stalledCount: number;
  /** Number of parked jobs, which are also counted as running in `states`. */
  readonly parkedCount: number;
  readonly leftBehindCount: number;
  /** Number of jobs whose lag is unknown. */
  readonly unknownCount: number;
  /** Number of jobs with pending changes. */
  readonly behindCount: number;
  /** Groups with the longest lags, longest first. Omitted groups have a shorter lag, or none. */
  readonly groupLags: readonly Lag[];
  /**
   * Jobs with the longest lags, longest first. Named by database and document id, or by job id for
   * transient jobs.
   */
  readonly jobLags: readonly Lag[];
}

export interface JobFiguresParts {
  readonly clock: Clock;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly index: JobIndex;
  readonly backlogs: Backlogs;
  readonly subspace: Subspace;
}

/** A job with pending changes, and its lag. */
interface Behind {
  readonly jobId: string;
  readonly owner: string | null;
  readonly lagSec: number;
}

export class JobFiguresReader {
  readonly #parts: JobFiguresParts;
  readonly #keys: ReplicatorKeys;
  readonly #counts: StatusCounts;

  constructor(parts: JobFiguresParts) {
    this.#parts = parts;
    this.#keys = replicatorKeys(parts.subspace);
    this.#counts = new StatusCounts(parts.jobs, this.#keys);
  }

  read(): Promise<JobFigures> {
    const { kv, index } = this.#parts;
    return index.read(kv, async (view) => {
      const { tx } = view;
      const behind = await this.#furthestBehind(view);
      return {
        states: await this.#counts.states(view, undefined),
        failing: await this.#counts.failing(view),
        pausedCount: await this.#counts.rows(view, ["flag", "paused"]),
        stalledCount: await this.#counts.rows(view, ["flag", "stalled"]),
        parkedCount: await this.#counts.rows(view, ["outcome", "parked"]),
        leftBehindCount: await this.#counts.rows(view, ["flag", "left_behind"]),
        unknownCount:
          (await this.#counts.rows(view, ["flag", "unknown"])) +
          (await this.#parts.backlogs.unwatchedCount(tx)),
        behindCount: await this.#counts.rows(view, ["behind", null]),
        groupLags: await this.#groupLags(tx, behind),
        jobLags: await this.#jobLags(tx, behind.slice(0, WORST_JOBS_MAX)),
      };
    });
  }

  /**
   * Returns the number of jobs with a tag in each state: first for all values of the tag combined,
   * then for each of the first `valuesMax` values.
   */
  tagStates(name: string, valuesMax: number): Promise<readonly TagStates[]> {
    const { kv, index } = this.#parts;
    return index.read(kv, (view) => this.#counts.tagStates(view, name, valuesMax));
  }

  /** Removes the zero counters of failure causes and tags. */
  forgetZeros(): Promise<void> {
    return this.#counts.forgetZeros(this.#parts.kv);
  }

  async #furthestBehind(view: IndexView): Promise<readonly Behind[]> {
    const nowMs = this.#parts.clock.nowMs();
    const range = this.#keys.statusRow.range({ list: "behind" });
    const rows = await view.rows(range, { limit: LOOKED_AT_MAX, reverse: true });
    const ids = rows.map(({ jobId }) => jobId);
    const statuses = await this.#parts.index.statuses.getMany(view.tx.snapshot, ids);
    return rows.flatMap(({ value, jobId }, index) => {
      const status = statuses[index];
      if (status !== undefined && !hasLag(status)) return [];
      // Rows of the list `behind` contain negated times.
      const lagSec = Math.max(0, Math.floor((nowMs + Number(value)) / 1000));
      return [{ jobId, owner: status?.owner ?? null, lagSec }];
    });
  }

  /** Returns the longest lag of each group. Reads one job of each group for the group's name. */
  async #groupLags(tx: ReadTransaction, behind: readonly Behind[]): Promise<readonly Lag[]> {
    const first = new Map<string, Behind>();
    for (const job of behind) {
      const [uuid, documentId] = job.jobId.split("|", 2);
      const place = documentId === undefined ? `user:${job.owner ?? ""}` : String(uuid);
      if (!first.has(place) && first.size < GROUPS_MAX) first.set(place, job);
    }
    return this.#lags(tx, [...first.values()], groupOf);
  }

  #jobLags(tx: ReadTransaction, behind: readonly Behind[]): Promise<readonly Lag[]> {
    return this.#lags(tx, behind, (data, id) => jobName(id, data));
  }

  async #lags(
    tx: ReadTransaction,
    behind: readonly Behind[],
    nameOf: (data: ReplicationJobData, jobId: string) => string,
  ): Promise<readonly Lag[]> {
    const lags = await Promise.all(
      behind.map(async ({ jobId: id, lagSec }) => {
        const job = await this.#parts.jobs.get(tx.snapshot, { type: REPLICATION_JOB_TYPE, id });
        if (job === undefined || !isReadable(job)) return [];
        return [{ name: nameOf(decodeJob(job), id), lagSec }];
      }),
    );
    return lags.flat();
  }
}

/**
 * How many jobs there are of each kind, and which are furthest behind: what a node shows as its metrics. All of it is read from the
 * index in one transaction, so the figures agree with each other, and with lists of the same moment. They cost as much among 100,000
 * jobs as among 100, but for one key for each job that runs, and for each kind of failure at each host.
 */
import type { Clock } from "../../base/index.ts";
import type { Jobs } from "../../jobs/index.ts";
import type { KeyValueStore, ReadTransaction, Subspace } from "../../kv/index.ts";
import { ReplicatorKeys } from "../replicator-keys.ts";
import type { IndexView } from "./index-view.ts";
import {
  REPLICATION_JOB_TYPE,
  type ReplicationJobData,
  type ReplicationState,
} from "./job-data.ts";
import { decodeJob, isReadable } from "./job-data-record.ts";
import type { JobIndex } from "./job-index.ts";
import { groupOf } from "./replication-group.ts";
import { type FailingCount, StatusCounts } from "./status-counts.ts";

/** Jobs that are looked at for the groups that are furthest behind. */
const LOOKED_AT_MAX = 1000;
const GROUPS_MAX = 50;
const WORST_JOBS_MAX = 20;

/** How old the oldest change is that has not arrived. */
export interface Lag {
  /** Of a group or a job. */
  readonly name: string;
  readonly lagSec: number;
}

export interface JobFigures {
  readonly states: Readonly<Record<ReplicationState, number>>;
  /** Most jobs first. */
  readonly failing: readonly FailingCount[];
  readonly pausedCount: number;
  readonly stalledCount: number;
  /** They are among those that run (`states`). */
  readonly parkedCount: number;
  readonly leftBehindCount: number;
  /** Jobs with changes that have not arrived. */
  readonly behindCount: number;
  /** Longest lag first. A group that is not among them is behind by less than those, or not at all. */
  readonly groupLags: readonly Lag[];
  /** Longest lag first: documents by database and id, transient jobs by job id. */
  readonly jobLags: readonly Lag[];
}

export interface JobFiguresParts {
  readonly clock: Clock;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly index: JobIndex;
  readonly subspace: Subspace;
}

/** A job that is behind. */
interface Behind {
  readonly jobId: string;
  readonly lagSec: number;
}

export class JobFiguresReader {
  readonly #parts: JobFiguresParts;
  readonly #keys: ReplicatorKeys;
  readonly #counts: StatusCounts;

  constructor(parts: JobFiguresParts) {
    this.#parts = parts;
    this.#keys = new ReplicatorKeys(parts.subspace);
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
        behindCount: await this.#counts.rows(view, ["behind", null]),
        groupLags: await this.#groupLags(tx, behind),
        jobLags: await this.#jobLags(tx, behind.slice(0, WORST_JOBS_MAX)),
      };
    });
  }

  /** Removes what is stored of hosts at which no job fails any more. */
  forgetCauses(): Promise<void> {
    return this.#counts.forgetCauses(this.#parts.kv);
  }

  async #furthestBehind(view: IndexView): Promise<readonly Behind[]> {
    const nowMs = this.#parts.clock.nowMs();
    const range = this.#keys.statusRows("behind");
    const rows = await view.rows(range, { limit: LOOKED_AT_MAX, reverse: true });
    return rows.map(({ value, jobId }) => {
      // The value is the time since when, below zero.
      const lagSec = Math.max(0, Math.floor((nowMs + Number(value)) / 1000));
      return { jobId, lagSec };
    });
  }

  /** The first job of a `_replicator` database tells the name of the group for all of them. */
  async #groupLags(tx: ReadTransaction, behind: readonly Behind[]): Promise<readonly Lag[]> {
    const first = new Map<string, Behind>();
    const ids = behind.map(({ jobId }) => jobId);
    const statuses = await this.#parts.index.statuses.getMany(tx.snapshot, ids);
    for (const [index, job] of behind.entries()) {
      const [uuid, documentId] = job.jobId.split("|", 2);
      const isTransient = documentId === undefined;
      const owner = isTransient ? statuses[index]?.owner : undefined;
      const place = isTransient ? `user:${owner ?? ""}` : String(uuid);
      if (!first.has(place) && first.size < GROUPS_MAX) first.set(place, job);
    }
    return this.#lags(tx, [...first.values()], groupOf);
  }

  #jobLags(tx: ReadTransaction, behind: readonly Behind[]): Promise<readonly Lag[]> {
    const nameOf = ({ document }: ReplicationJobData) =>
      document && `${document.database}/${document.id}`;
    return this.#lags(tx, behind, nameOf);
  }

  async #lags(
    tx: ReadTransaction,
    behind: readonly Behind[],
    nameOf: (data: ReplicationJobData) => string | undefined,
  ): Promise<readonly Lag[]> {
    const lags = await Promise.all(
      behind.map(async ({ jobId: id, lagSec }) => {
        const job = await this.#parts.jobs.get(tx.snapshot, { type: REPLICATION_JOB_TYPE, id });
        if (job === undefined || !isReadable(job)) return [];
        return [{ name: nameOf(decodeJob(job)) ?? id, lagSec }];
      }),
    );
    return lags.flat();
  }
}

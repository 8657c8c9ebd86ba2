/**
 * How many jobs there are of each kind, and which are furthest behind: what a node shows as its metrics. All of it is read from the
 * index in one transaction, so the figures agree with each other, and with lists of the same moment. They cost as much among 100,000
 * jobs as among 100, but for one key for each job that runs, and for each kind of failure at each host.
 */
import type { Clock } from "../../base/index.ts";
import type { Jobs } from "../../jobs/index.ts";
import type { KeyValueStore, ReadTransaction, Subspace } from "../../kv/index.ts";
import { ReplicatorKeys } from "../replicator-keys.ts";
import {
  REPLICATION_JOB_TYPE,
  type ReplicationJobData,
  type ReplicationState,
} from "./job-data.ts";
import { decodeJob, isReadable } from "./job-data-record.ts";
import { decodeStatus } from "./job-status.ts";
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
    return this.#parts.kv.read(async (tx) => {
      const behind = await this.#furthestBehind(tx);
      return {
        states: await this.#counts.states(tx, undefined),
        failing: await this.#counts.failing(tx),
        pausedCount: await this.#counts.rows(tx, ["flag", "paused"]),
        stalledCount: await this.#counts.rows(tx, ["flag", "stalled"]),
        parkedCount: await this.#counts.rows(tx, ["outcome", "parked"]),
        leftBehindCount: await this.#counts.rows(tx, ["flag", "left_behind"]),
        behindCount: await this.#counts.rows(tx, ["behind", null]),
        groupLags: await this.#groupLags(tx, behind),
        jobLags: await this.#jobLags(tx, behind.slice(0, WORST_JOBS_MAX)),
      };
    });
  }

  /** Removes what is stored of hosts at which no job fails any more. */
  forgetCauses(): Promise<void> {
    return this.#counts.forgetCauses(this.#parts.kv);
  }

  async #furthestBehind(tx: ReadTransaction): Promise<readonly Behind[]> {
    const nowMs = this.#parts.clock.nowMs();
    const found: Behind[] = [];
    const range = this.#keys.statusRows("behind");
    const options = { limit: LOOKED_AT_MAX, reverse: true };
    for await (const { key } of tx.snapshot.getRange(range, options)) {
      const { value, jobId } = this.#keys.statusOf(key);
      // The value is the time since when, below zero.
      const lagSec = Math.max(0, Math.floor((nowMs + Number(value)) / 1000));
      found.push({ jobId, lagSec });
    }
    return found;
  }

  /** The first job of a `_replicator` database tells the name of the group for all of them. */
  async #groupLags(tx: ReadTransaction, behind: readonly Behind[]): Promise<readonly Lag[]> {
    const first = new Map<string, Behind>();
    const keys = behind.map(({ jobId }) => this.#keys.jobStatus(jobId));
    const statuses = await tx.snapshot.getMany(keys);
    for (const [index, job] of behind.entries()) {
      const [uuid, documentId] = job.jobId.split("|", 2);
      const status = statuses[index];
      const isTransient = documentId === undefined;
      const owner = isTransient && status !== undefined ? decodeStatus(status).owner : null;
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

/**
 * Failing jobs, grouped by class, side and host of their last failure. Counts come from the index,
 * so that large groups cost no more than small ones. For each displayed group, only the jobs that
 * have been failing longest are read.
 */
import { smallest } from "../../base/index.ts";
import type { JobName, Jobs } from "../../jobs/index.ts";
import type { KeyValueStore, Subspace } from "../../kv/index.ts";
import { NEVER_SEC } from "../jobs/decide.ts";
import type { Failing } from "../jobs/failing.ts";
import { type FailureCauseKey, parseCauseKey } from "../jobs/failure-cause.ts";
import { REPLICATION_JOB_TYPE } from "../jobs/job-data.ts";
import { causeSinceList } from "../jobs/job-status.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import type { IndexView } from "./index-view.ts";
import type { JobIndex } from "./job-index.ts";
import { entryOf } from "./job-lists.ts";
import type { JobEntry } from "./job-views.ts";
import { StatusCounts, sum } from "./status-counts.ts";

/** Jobs read per group. */
const LOOKED_AT_MAX = 20;

export interface FailingGroup extends FailureCauseKey {
  readonly count: number;
  /** The job that has been failing longest. */
  readonly example: JobEntry;
  readonly failing: Failing;
  /** Next retry among the jobs read; undefined if all are running, paused or ended. */
  readonly nextTryMs: number | undefined;
}

export interface FailingGroupsPage {
  readonly groups: readonly FailingGroup[];
  /** Total number of groups. */
  readonly total: number;
  /** Number of jobs in all groups. */
  readonly jobCount: number;
}

export interface FailingGroupsParts {
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly index: JobIndex;
  readonly subspace: Subspace;
}

export class FailingGroups {
  readonly #parts: FailingGroupsParts;
  readonly #keys: ReplicatorKeys;
  readonly #counts: StatusCounts;

  constructor(parts: FailingGroupsParts) {
    this.#parts = parts;
    this.#keys = replicatorKeys(parts.subspace);
    this.#counts = new StatusCounts(parts.jobs, this.#keys);
  }

  /** Returns a page of groups: largest first, then by host name. */
  async page({ skip, limit }: { skip: number; limit: number }): Promise<FailingGroupsPage> {
    const { kv, index } = this.#parts;
    const counts = await index.read(kv, (view) => this.#counts.causes(view, undefined));
    const ordered = [...counts].toSorted(
      ([left, leftCount], [right, rightCount]) => rightCount - leftCount || (left < right ? -1 : 1),
    );
    const groups: FailingGroup[] = [];
    for (const [cause, count] of ordered.slice(skip, skip + limit)) {
      const group = await index.read(kv, (view) => this.#group(view, cause, count));
      if (group !== undefined) groups.push(group);
    }
    return { groups, total: ordered.length, jobCount: sum(counts.values()) };
  }

  /** Reads a group. Returns undefined if none of its jobs is failing any more. */
  async #group(view: IndexView, cause: string, count: number): Promise<FailingGroup | undefined> {
    const { jobs } = this.#parts;
    const { tx } = view;
    const key = parseCauseKey(cause);
    const names = await this.#longestFailing(view, cause);
    const [first] = names;
    const job = first && (await jobs.get(tx, first));
    const example = job && entryOf(job, undefined, undefined);
    const failing = example?.data.failing;
    if (key === undefined || example === undefined || failing === undefined) return undefined;
    const schedules = await Promise.all(names.map((name) => jobs.schedule(tx, name)));
    const triesMs = schedules.flatMap((schedule) => {
      const isWaiting = schedule?.state === "pending" && schedule.scheduledAtSec < NEVER_SEC;
      return isWaiting ? [schedule.scheduledAtSec * 1000] : [];
    });
    const nextTryMs = triesMs.length === 0 ? undefined : smallest(triesMs);
    return { ...key, count, example, failing, nextTryMs };
  }

  async #longestFailing(view: IndexView, cause: string): Promise<readonly JobName[]> {
    const range = this.#keys.statusRow.range({ list: causeSinceList(cause) });
    const rows = await view.rows(range, { limit: LOOKED_AT_MAX });
    return rows.map(({ jobId }) => ({ type: REPLICATION_JOB_TYPE, id: jobId }));
  }
}

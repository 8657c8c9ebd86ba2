/**
 * Failing jobs, grouped by a tag or by the class, side and host of their last failure. Counts come
 * from the index, so that large groups cost no more than small ones. For each displayed group, only
 * the jobs that have been failing longest are read.
 */
import { smallest, sum } from "../../base/index.ts";
import type { JobName, Jobs } from "../../jobs/index.ts";
import type { KeyValueStore, Subspace } from "../../kv/index.ts";
import { NEVER_SEC } from "../jobs/decide.ts";
import type { Failing } from "../jobs/failing.ts";
import { type FailureCauseKey, parseCauseKey } from "../jobs/failure-cause.ts";
import { REPLICATION_JOB_TYPE } from "../jobs/job-data.ts";
import { causeSinceList, type StatusList, tagSinceList } from "../jobs/job-status.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import type { IndexView } from "./index-view.ts";
import type { JobIndex } from "./job-index.ts";
import { entryOf } from "./job-lists.ts";
import type { JobEntry } from "./job-views.ts";
import { StatusCounts } from "./status-counts.ts";

/** Maximum number of jobs read per group. */
const LOOKED_AT_MAX = 20;

export interface FailingGroup extends FailureCauseKey {
  /**
   * Value of the tag by which the jobs are grouped; undefined if they are grouped by cause. If they
   * are grouped by tag, the members of `FailureCauseKey` are those of `example`.
   */
  readonly tag: string | undefined;
  readonly count: number;
  /** The job that has been failing longest. */
  readonly example: JobEntry;
  readonly failing: Failing;
  /** Earliest retry among the jobs read; undefined if all are running, paused or ended. */
  readonly nextTryMs: number | undefined;
}

export interface GroupsWanted {
  readonly skip: number;
  readonly limit: number;
  /** Name of the tag by which jobs are grouped; if absent, they are grouped by cause. */
  readonly tag?: string | undefined;
}

type GroupKey = Pick<FailingGroup, "count"> &
  Partial<Pick<FailingGroup, "tag" | keyof FailureCauseKey>> & { readonly list: StatusList };

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

  /**
   * Returns a page of groups, by cause or by the values of a tag: largest first, then by name.
   * Groups of a tag do not include jobs without the tag.
   */
  async page({ skip, limit, tag }: GroupsWanted): Promise<FailingGroupsPage> {
    const { kv, index } = this.#parts;
    const { counts, jobCount } = await index.read(kv, async (view) => {
      const causes = await this.#counts.causes(view, undefined);
      const byTag = tag === undefined ? causes : await this.#counts.failingByTag(view, tag);
      return { counts: byTag, jobCount: sum(causes.values()) };
    });
    const ordered = [...counts].toSorted(
      ([left, leftCount], [right, rightCount]) => rightCount - leftCount || (left < right ? -1 : 1),
    );
    const groups: FailingGroup[] = [];
    for (const [key, count] of ordered.slice(skip, skip + limit)) {
      const list = tag === undefined ? causeSinceList(key) : tagSinceList(`${tag}:${key}`);
      const facts = { list, count, ...(tag === undefined ? parseCauseKey(key) : { tag: key }) };
      const group = await index.read(kv, (view) => this.#group(view, facts));
      if (group !== undefined) groups.push(group);
    }
    return { groups, total: ordered.length, jobCount };
  }

  /** Reads a group. Returns undefined if it no longer contains failing jobs. */
  async #group(view: IndexView, { list, ...key }: GroupKey): Promise<FailingGroup | undefined> {
    const { jobs } = this.#parts;
    const { tx } = view;
    const names = await this.#longestFailing(view, list);
    const [first] = names;
    const job = first && (await jobs.get(tx, first));
    const example = job && entryOf(job, undefined, undefined);
    const failing = example?.data.failing;
    if (example === undefined || failing === undefined) return undefined;
    const { class: failureClass, side, host } = failing;
    const schedules = await Promise.all(names.map((name) => jobs.schedule(tx, name)));
    const triesMs = schedules.flatMap((schedule) => {
      const isWaiting = schedule?.state === "pending" && schedule.scheduledAtSec < NEVER_SEC;
      return isWaiting ? [schedule.scheduledAtSec * 1000] : [];
    });
    const nextTryMs = triesMs.length === 0 ? undefined : smallest(triesMs);
    return { class: failureClass, side, host, tag: undefined, ...key, example, failing, nextTryMs };
  }

  async #longestFailing(view: IndexView, list: StatusList): Promise<readonly JobName[]> {
    const range = this.#keys.statusRow.range({ list });
    const rows = await view.rows(range, { limit: LOOKED_AT_MAX });
    return rows.map(({ jobId }) => ({ type: REPLICATION_JOB_TYPE, id: jobId }));
  }
}

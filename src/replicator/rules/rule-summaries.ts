/** Summary of a rule and its jobs. Reads counters, at a cost independent of the number of jobs. */
import type { Clock } from "../../base/index.ts";
import { hasLabels, type Job, type Jobs, type Worker } from "../../jobs/index.ts";
import type { ReadTransaction, Subspace } from "../../kv/index.ts";
import type { IndexView } from "../job-lists/index-view.ts";
import type { JobIndex } from "../job-lists/job-index.ts";
import { StatusCounts } from "../job-lists/status-counts.ts";
import type { ReplicationState } from "../jobs/job-data.ts";
import { ruleBehindList, ruleFlagValue } from "../jobs/job-status.ts";
import { RULE_TYPES } from "../jobs/rule-jobs.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import { noNodeReason } from "../request/run-on.ts";
import { decodeRuleProgress, type RuleFailure, type RuleProgress } from "./rule-progress.ts";

export interface RuleSummary extends RuleProgress {
  readonly jobCount: number;
  readonly states: Readonly<Record<ReplicationState, number>>;
  readonly failingCount: number;
  /** Number of parked jobs, which are also counted as running. */
  readonly parkedCount: number;
  /** Number of jobs with failed documents. */
  readonly leftBehindCount: number;
  /** Longest lag of a job; 0 if no job is behind. */
  readonly lagSec: number;
}

export interface RuleSummariesParts {
  readonly runtime: { readonly clock: Clock };
  readonly jobs: Jobs;
  readonly index: JobIndex;
  readonly subspace: Subspace;
}

/** Failure of a rule that no node follows. Also shown briefly while the only node restarts. */
export const UNFOLLOWED: RuleFailure = {
  error: "no_replication_node",
  reason:
    "No replication node is running, so the rule has no effect. Start one with --node-type replication",
};

export class RuleSummaries {
  readonly #parts: RuleSummariesParts;
  readonly #keys: ReplicatorKeys;
  readonly #counts: StatusCounts;

  constructor(parts: RuleSummariesParts) {
    this.#parts = parts;
    this.#keys = replicatorKeys(parts.subspace);
    this.#counts = new StatusCounts(parts.jobs, this.#keys);
  }

  async read(view: IndexView, name: string, uuid: string): Promise<RuleSummary> {
    const [followers, jobCount, states, failingCount, parkedCount, leftBehindCount, lagSec] =
      await Promise.all([
        Promise.all(RULE_TYPES.map((type) => this.#parts.jobs.get(view.tx, { type, id: name }))),
        this.#counts.all(view, uuid),
        this.#counts.states(view, uuid),
        this.#counts.rows(view, ["rule", ruleFlagValue(uuid, "failing")]),
        this.#counts.outcome(view, "parked", uuid),
        this.#counts.rows(view, ["rule", ruleFlagValue(uuid, "left_behind")]),
        this.#lagSec(view, uuid),
      ]);
    const counts = { jobCount, states, failingCount, parkedCount, leftBehindCount, lagSec };
    const job = followers.find((follower) => follower !== undefined);
    const progress = decodeRuleProgress(job?.data ?? {});
    const failure = progress.failure ?? (await this.#unfollowed(view.tx, job));
    return { ...progress, failure, ...counts };
  }

  /**
   * Returns the failures of the rules that cannot list the databases of their source, by name of
   * the rule.
   */
  async failures(tx: ReadTransaction): Promise<ReadonlyMap<string, RuleFailure>> {
    const { jobs } = this.#parts;
    const failures: (readonly [string, RuleFailure])[] = [];
    for (const type of RULE_TYPES) {
      const workers = await jobs.workers.members(tx.snapshot, type);
      for (let from = {}, hasMore = true; hasMore; ) {
        const { entries, stoppedBy } = await jobs.list(tx.snapshot, type, { ...from, limit: 100 });
        for (const job of entries) {
          const failure = decodeRuleProgress(job.data).failure ?? unfollowed(job, workers);
          if (failure !== undefined) failures.push([job.id, failure]);
        }
        hasMore = stoppedBy !== "exhausted";
        from = { afterId: entries.at(-1)?.id };
      }
    }
    return new Map(failures);
  }

  async #unfollowed(tx: ReadTransaction, job: Job | undefined): Promise<RuleFailure | undefined> {
    if (job?.state !== "pending") return undefined;
    const workers = await this.#parts.jobs.workers.members(tx, job.type);
    return unfollowed(job, workers);
  }

  async #lagSec(view: IndexView, uuid: string): Promise<number> {
    const range = this.#keys.statusRow.range({ list: ruleBehindList(uuid) });
    const [row] = await view.rows(range, { limit: 1, reverse: true });
    if (row === undefined) return 0;
    // Rows of the list `rule-behind` contain negated times.
    const sinceMs = -Number(row.value);
    return Math.max(0, Math.floor((this.#parts.runtime.clock.nowMs() - sinceMs) / 1000));
  }
}

function unfollowed(
  { state, labels }: Job,
  workers: readonly Pick<Worker, "labels">[],
): RuleFailure | undefined {
  if (state !== "pending") return undefined;
  if (workers.length === 0) return UNFOLLOWED;
  if (workers.some((worker) => hasLabels(worker.labels, labels))) return undefined;
  return { error: "no_node", reason: noNodeReason(labels) };
}

/** A job's list of failures, which operators can read, count and retry. */
import { append, type Runtime, randomHex, waitAtMost } from "../../base/index.ts";
import type { Job, Jobs } from "../../jobs/index.ts";
import type { Key, KeyValueStore, Transaction } from "../../kv/index.ts";
import type { Chains } from "../chains/chains.ts";
import type { ReplicationOwnership } from "../job-changes/replication-ownership.ts";
import type { JobIndex } from "../job-lists/job-index.ts";
import type { JobEntry } from "../job-lists/job-views.ts";
import { decideInput, phaseOf } from "../jobs/decide.ts";
import type { JobControls } from "../jobs/job-controls.ts";
import { baseIdsOf, REPLICATION_JOB_TYPE } from "../jobs/job-data.ts";
import { decodeJob, decodeProgress, isReadable } from "../jobs/job-data-record.ts";
import {
  type FailureCount,
  type FailureLists,
  type FailurePage,
  sumCounts,
} from "./failure-lists.ts";
import type { ListedFailure } from "./failure-record.ts";

/** Maximum number of failures read per transaction. */
const PAGE_ROWS_MAX = 500;
/** Maximum wait for the end of a retry. After this time, the retry continues in the background. */
const RETRY_WAIT_MS_MAX = 30_000;

export interface JobFailuresParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly ownership: ReplicationOwnership;
  readonly failureLists: FailureLists;
  readonly index: JobIndex;
  readonly controls: JobControls;
  readonly chains: Chains;
}

/**
 * Outcome of a retry request. If `done` is false, the retry has not ended yet; a node will complete
 * it later.
 */
export interface RetryOutcome {
  readonly done: boolean;
  readonly triedCount: number;
  readonly leftCount: number;
}

export class JobFailures {
  readonly #parts: JobFailuresParts;

  constructor(parts: JobFailuresParts) {
    this.#parts = parts;
  }

  /** Returns the number of failures of each kind in the job's list. */
  async counts({ data }: JobEntry): Promise<readonly FailureCount[]> {
    const { kv, failureLists } = this.#parts;
    const lists = await kv.read((tx) =>
      Promise.all(baseIdsOf(data).map((baseId) => failureLists.counts(tx, baseId))),
    );
    return sumCounts(lists);
  }

  /**
   * Returns a range of the listed failures, ordered by direction (forward first) and document id.
   */
  async list(
    { data }: JobEntry,
    { skip, limit }: { readonly skip: number; readonly limit: number },
  ): Promise<readonly ListedFailure[]> {
    const { kv, failureLists } = this.#parts;
    const failures: ListedFailure[] = [];
    let toSkip = skip;
    for (const baseId of baseIdsOf(data)) {
      let from: Key | undefined;
      while (failures.length < limit) {
        const page: FailurePage = await kv.read((tx) =>
          failureLists.page(tx, baseId, { from, limit: PAGE_ROWS_MAX }),
        );
        append(failures, page.entries.slice(toSkip, toSkip + limit - failures.length));
        toSkip = Math.max(0, toSkip - page.entries.length);
        from = page.next;
        if (from === undefined) break;
      }
    }
    return failures;
  }

  /**
   * Requests a retry of listed failures, and waits until the retry has ended. The node that runs
   * the job performs the retry; if the job is not running, the next node with a free slot does. A
   * job that has ended runs again, only for the retry. A paused job retries when it is resumed, and
   * the call does not wait for this. `ids` selects documents, and must fit into a request
   * (`fitsRetryRequest`); undefined selects the whole list.
   */
  async retry(
    entry: JobEntry,
    ids: readonly string[] | undefined,
    signal: AbortSignal,
  ): Promise<RetryOutcome> {
    const { clock } = this.#parts.runtime;
    const total = await this.total(entry);
    if (total === 0) return { done: true, triedCount: 0, leftCount: 0 };
    const baseIds = baseIdsOf(entry.data);
    const triedCount = ids === undefined ? total : await this.#countOf(baseIds, ids);
    if (triedCount === 0) return { done: true, triedCount, leftCount: total };
    const isPaused = await this.#ask(entry.jobId, baseIds, ids);
    if (isPaused) return { done: false, triedCount, leftCount: total };
    const done = await waitAtMost(clock, RETRY_WAIT_MS_MAX, signal, async (over) => {
      for (const baseId of baseIds) await this.#retried(baseId, over);
    });
    return { done, triedCount, leftCount: await this.total(entry) };
  }

  /**
   * Requests a retry of the whole list, like `retry`, but in the caller's transaction and without
   * waiting.
   */
  async askRetryIn(tx: Transaction, jobId: string): Promise<"done" | "no-need" | "missing"> {
    const { runtime, index, jobs } = this.#parts;
    const status = await index.statuses.get(tx, jobId);
    if (status === undefined) return "missing";
    const job = status.hasLeftBehind
      ? await jobs.get(tx, { type: REPLICATION_JOB_TYPE, id: jobId })
      : undefined;
    if (job === undefined || !isReadable(job)) return "no-need";
    const baseIds = baseIdsOf(decodeProgress(job));
    const request = randomHex(runtime.random);
    await this.#askIn(tx, job, { baseIds, request, ids: undefined });
    return "done";
  }

  async #countOf(baseIds: readonly string[], ids: readonly string[]): Promise<number> {
    const { kv, failureLists } = this.#parts;
    const lists = await kv.read((tx) =>
      Promise.all(baseIds.map((baseId) => failureLists.ofDocuments(tx, baseId, ids))),
    );
    return lists.flat().length;
  }

  /**
   * Stores a retry request, and schedules the job unless it is paused. Returns whether the job is
   * paused.
   */
  #ask(
    jobId: string,
    baseIds: readonly string[],
    ids: readonly string[] | undefined,
  ): Promise<boolean> {
    const { runtime, kv, jobs } = this.#parts;
    const request = randomHex(runtime.random);
    return kv.transact(
      async (tx) => {
        const job = await jobs.get(tx, { type: REPLICATION_JOB_TYPE, id: jobId });
        return job !== undefined && this.#askIn(tx, job, { baseIds, request, ids });
      },
      { whenUnknown: "retry" },
    );
  }

  /** Stores a retry request in the caller's transaction. Returns whether the job is paused. */
  async #askIn(
    tx: Transaction,
    job: Job,
    asked: {
      readonly baseIds: readonly string[];
      readonly request: string;
      readonly ids: readonly string[] | undefined;
    },
  ): Promise<boolean> {
    const { jobs, ownership, failureLists, controls, chains } = this.#parts;
    const { baseIds, request, ids } = asked;
    for (const baseId of baseIds) {
      await failureLists.askRetry(tx, baseId, { request, ids });
      // A list of failures belongs to a replication, so notify all jobs for this replication. The
      // job that is running processes the retry request.
      for (const id of await ownership.jobsOfBase(tx, baseId)) {
        await jobs.callHolder(tx, { type: REPLICATION_JOB_TYPE, id });
      }
    }
    const { isPaused } = await controls.get(tx, job.id);
    const data = decodeJob(job);
    if (decideInput("try-list", phaseOf(job, data), isPaused) === "due") {
      await jobs.resubmit(tx, job, await chains.dueSec(tx, job.id, data));
    }
    return isPaused;
  }

  /**
   * Resolves when no retry request is stored. If a later request replaces the current one, it
   * contains the same documents, so its end is awaited as well.
   */
  async #retried(baseId: string, signal: AbortSignal): Promise<void> {
    const { kv, failureLists } = this.#parts;
    for (;;) {
      const { current, watch } = await kv.transact(async (tx) => ({
        current: await failureLists.retryRequest(tx, baseId),
        watch: failureLists.watchRetry(tx, baseId),
      }));
      try {
        if (current === undefined) return;
        await watch.fired(signal);
      } finally {
        watch.cancel();
      }
    }
  }

  /** Returns the number of failures in the job's list. */
  async total(entry: JobEntry): Promise<number> {
    return totalOf(await this.counts(entry));
  }

  /**
   * Returns the number of failures in each job's list, in the order of `entries`. Reads a list only
   * if it is not empty according to the job's status.
   */
  totals(entries: readonly JobEntry[]): Promise<readonly number[]> {
    const { kv, index, failureLists } = this.#parts;
    return kv.read(async (tx) => {
      const statuses = await index.statuses.getMany(
        tx,
        entries.map(({ jobId }) => jobId),
      );
      return Promise.all(
        entries.map(async ({ data }, place) => {
          if (statuses[place]?.hasLeftBehind !== true) return 0;
          const lists = baseIdsOf(data).map((baseId) => failureLists.counts(tx, baseId));
          return totalOf((await Promise.all(lists)).flat());
        }),
      );
    });
  }
}

function totalOf(counts: readonly FailureCount[]): number {
  let total = 0;
  for (const { count } of counts) total += count;
  return total;
}

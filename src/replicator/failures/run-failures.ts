/**
 * A replication's list of failures, as used by its run. A checkpoint is allowed to skip listed
 * revisions, so a batch is finished only when its failures are recorded.
 *
 * `StoredRunFailures` serves jobs. It uses `FailureLists`, which stores the lists of all
 * replications. `MemoryRunFailures` serves runs from the command line.
 */
import { replaceAll } from "../../base/index.ts";
import type { WriteFailure } from "../endpoints/endpoint.ts";

/**
 * A revision that did not arrive, with the reason. `phase` states whether reading the revision from
 * the source or writing it to the target failed.
 */
export interface DocumentFailure extends WriteFailure {
  readonly phase: "read" | "write";
}

/**
 * Revisions that are no longer missing: they are on the target, or no longer exist on the source.
 */
export interface ArrivedRevisions {
  readonly id: string;
  readonly revisions: readonly string[];
}

export interface ListedRevision {
  readonly id: string;
  readonly revision: string;
}

export interface RetryRequest {
  /** Id of the request. */
  readonly request: string;
  /** Documents to retry; the whole list if undefined. */
  readonly ids?: readonly string[] | undefined;
}

/** The request for a retry by schedule, in contrast to a retry requested by a user. */
export const SCHEDULED_RETRY: RetryRequest = { request: "scheduled" };

export interface RunFailures {
  /**
   * Time of the last attempt at the revision that has waited longest since its last attempt;
   * undefined if the list is empty.
   */
  readonly waitsSinceMs: number | undefined;
  /** Whether the list is complete. If not, the run must read earlier changes again. */
  isWhole(): Promise<boolean>;
  /**
   * Marks the list as complete. Must be called after the run has read the earlier changes again.
   */
  lookedBack(): Promise<void>;
  /**
   * Whether the list might contain the document. If false, arrived revisions of the document need
   * not be recorded.
   */
  has(documentId: string): boolean;
  /** Adds `failed` to the list, and removes `arrived`. */
  record(failed: readonly DocumentFailure[], arrived: readonly ArrivedRevisions[]): Promise<void>;
  /**
   * Yields the list in pages. If `ids` is set, yields only failures of these documents. Concurrent
   * changes might be missed.
   */
  pages(ids?: readonly string[]): AsyncIterable<readonly ListedRevision[]>;
  /** Waits for a retry request. Returns undefined if the signal aborts first. */
  retryAsked(signal: AbortSignal): Promise<RetryRequest | undefined>;
  retryDone(request: string): Promise<void>;
}

export class MemoryRunFailures implements RunFailures {
  /** Failures in the order in which they occurred. */
  readonly failures: DocumentFailure[] = [];
  /** Undefined, because the list contains no failures of earlier runs. */
  readonly waitsSinceMs = undefined;
  readonly #ids = new Set<string>();

  /** Returns false, because the list is not kept after the run. */
  async isWhole(): Promise<boolean> {
    return false;
  }

  async lookedBack(): Promise<void> {}

  has(documentId: string): boolean {
    return this.#ids.has(documentId);
  }

  async record(
    failed: readonly DocumentFailure[],
    arrived: readonly ArrivedRevisions[],
  ): Promise<void> {
    const gone = new Map(arrived.map(({ id, revisions }) => [id, new Set(revisions)]));
    const renewed = new Set(failed.map(({ id, revision }) => JSON.stringify([id, revision])));
    const kept = this.failures.filter(
      ({ id, revision }) =>
        gone.get(id)?.has(revision) !== true && !renewed.has(JSON.stringify([id, revision])),
    );
    replaceAll(this.failures, kept);
    for (const failure of failed) {
      this.failures.push(failure);
      this.#ids.add(failure.id);
    }
  }

  async *pages(): AsyncIterable<readonly ListedRevision[]> {
    yield [...this.failures];
  }

  async retryAsked(): Promise<undefined> {
    return undefined;
  }

  async retryDone(): Promise<void> {}
}

/**
 * A replication's list of failures, as used by its run. A checkpoint may skip listed revisions, so
 * a batch is finished only when its failures are recorded.
 *
 * `StoredRunFailures` serves jobs, and uses `FailureLists`, the lists of all replications in the
 * store. `MemoryRunFailures` serves runs from the command line.
 */
import { replaceAll } from "../../base/index.ts";
import type { WriteFailure } from "../endpoints/endpoint.ts";

/**
 * A revision that did not arrive, and why: reading it from the source failed (`read`), or writing
 * it to the target (`write`).
 */
export interface DocumentFailure extends WriteFailure {
  readonly phase: "read" | "write";
}

/** Revisions that are no longer missing: on the target, or gone from the source. */
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

/** The request for a retry that is due by schedule, rather than requested by a user. */
export const SCHEDULED_RETRY: RetryRequest = { request: "scheduled" };

export interface RunFailures {
  /**
   * Time of the last attempt for the revision that has waited longest; undefined if the list is
   * empty.
   */
  readonly waitsSinceMs: number | undefined;
  /** Whether the list is complete; otherwise the run must rescan. */
  isWhole(): Promise<boolean>;
  /** Marks the list as complete, after the run has rescanned the changes. */
  lookedBack(): Promise<void>;
  /**
   * Whether the list may contain the document. If not, its arrived revisions need not be recorded.
   */
  has(documentId: string): boolean;
  /** Adds `failed` to the list, and removes `arrived`. */
  record(failed: readonly DocumentFailure[], arrived: readonly ArrivedRevisions[]): Promise<void>;
  /** Yields the list in pages, optionally for some documents; may miss concurrent changes. */
  pages(ids?: readonly string[]): AsyncIterable<readonly ListedRevision[]>;
  /** Waits for a retry request; undefined if the signal aborts first. */
  retryAsked(signal: AbortSignal): Promise<RetryRequest | undefined>;
  retryDone(request: string): Promise<void>;
}

export class MemoryRunFailures implements RunFailures {
  /** Failures in the order in which they occurred. */
  readonly failures: DocumentFailure[] = [];
  /** The list is empty when a run starts. */
  readonly waitsSinceMs = undefined;
  readonly #ids = new Set<string>();

  /** Always incomplete, because the list is not kept after the run. */
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

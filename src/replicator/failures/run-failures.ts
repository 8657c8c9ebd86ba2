/**
 * The list of failures of one replication, as its run reads and changes it. The checkpoint may pass what is on the list, so a batch
 * is finished only when its failures are recorded.
 *
 * There are two implementations. `StoredRunFailures` serves jobs: it writes to `FailureLists`, which holds the lists of all
 * replications in the store. `MemoryRunFailures` serves a run from the shell.
 */
import { replaceAll } from "../../base/index.ts";
import type { WriteFailure } from "../endpoints/endpoint.ts";

/** A revision that did not arrive. `read`: the source did not give it; `write`: the target did not take it. */
export interface DocumentFailure extends WriteFailure {
  readonly phase: "read" | "write";
}

/** Revisions of a document that need not arrive any more: the target has them, or what the source has in their place, if anything. */
export interface ArrivedRevisions {
  readonly id: string;
  readonly revisions: readonly string[];
}

export interface ListedRevision {
  readonly id: string;
  readonly revision: string;
}

/** A request for a retry. */
export interface RetryRequest {
  /** Its name: a later request has another one. */
  readonly request: string;
  /** Of the documents to retry; undefined: of the whole list. */
  readonly ids?: readonly string[] | undefined;
}

/** The request of the regular retries, which no user made. */
export const SCHEDULED_RETRY: RetryRequest = { request: "scheduled" };

export interface RunFailures {
  /** When the revision that waits longest for another try was tried last, as of when the run began; undefined: none waits. */
  readonly waitsSinceMs: number | undefined;
  /** Whether it holds, or held, all that the checkpoint passed: then there is no need to look back. */
  isWhole(): Promise<boolean>;
  /** The run has looked back: from now on it is whole. */
  lookedBack(): Promise<void>;
  /** Whether any revision of the document may be on the list; what arrives of others need not be recorded. */
  has(documentId: string): boolean;
  /** Settles when the list holds `failed` and holds `arrived` no more. */
  record(failed: readonly DocumentFailure[], arrived: readonly ArrivedRevisions[]): Promise<void>;
  /** The list in pages: the whole, or what it has of these documents. What is recorded meanwhile may or may not be among them. */
  pages(ids?: readonly string[]): AsyncIterable<readonly ListedRevision[]>;
  /** Waits until a retry is requested; undefined when the signal aborts first. */
  retryAsked(signal: AbortSignal): Promise<RetryRequest | undefined>;
  /** What `request` asked for was tried. */
  retryDone(request: string): Promise<void>;
}

export class MemoryRunFailures implements RunFailures {
  /** In the order in which they failed. */
  readonly failures: DocumentFailure[] = [];
  /** The list begins with the run. */
  readonly waitsSinceMs = undefined;
  readonly #ids = new Set<string>();

  /** It does not outlive the run. */
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

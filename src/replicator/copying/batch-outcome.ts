/**
 * Collects the outcome of a batch: revisions that failed, and listed failures whose revisions have
 * now arrived.
 */
import type { SecretsInUse } from "../../http-client/index.ts";
import { parseWireDocument } from "../../protocol/index.ts";
import type { PlainDocument, StreamedDocument, WriteFailure } from "../endpoints/endpoint.ts";
import type { ArrivedRevisions, DocumentFailure, RunFailures } from "../failures/run-failures.ts";
import type { ReplicationStatistics } from "../jobs/replication-statistics.ts";

export interface BatchObserver {
  /** Adds the counts to the run's statistics. */
  count(more: Partial<ReplicationStatistics>): void;
  readonly failures: RunFailures;
  /**
   * Removes secrets from failure reasons, because a response might repeat a secret that was sent.
   */
  readonly secrets: Pick<SecretsInUse, "redact" | "isRepeatedIn">;
}

export class BatchOutcome {
  /** Whether the batch consists of revisions on the list of failures. */
  readonly isRetry: boolean;
  readonly #log: RunFailures;
  readonly #secrets: BatchObserver["secrets"];
  readonly #failed: DocumentFailure[] = [];
  readonly #arrived: ArrivedRevisions[] = [];

  constructor(
    { failures, secrets }: Pick<BatchObserver, "failures" | "secrets">,
    { isRetry = false }: { readonly isRetry?: boolean } = {},
  ) {
    this.#log = failures;
    this.#secrets = secrets;
    this.isRetry = isRetry;
  }

  failed(phase: DocumentFailure["phase"], failures: readonly WriteFailure[]): void {
    for (const failure of failures) {
      const error = this.#secrets.redact(failure.error);
      const reason = this.#secrets.redact(failure.reason);
      this.#failed.push({ ...failure, error, reason, phase });
    }
  }

  /** Records that the target has the document's revision and all its ancestors. */
  written(document: Pick<PlainDocument | StreamedDocument, "id" | "text">): void {
    const { id } = document;
    if (!this.#log.has(id)) return;
    const { revisions } = parseWireDocument(document.text);
    if (revisions === undefined) return;
    const { start, hashes } = revisions;
    this.#arrived.push({ id, revisions: hashes.map((hash, index) => `${start - index}-${hash}`) });
  }

  get failures(): readonly DocumentFailure[] {
    return this.#failed;
  }

  /**
   * Records the outcome of a batch. `asked` contains all revisions of the batch. The revisions that
   * did not fail are on the target.
   */
  async record(asked: ReadonlyMap<string, readonly string[]>): Promise<void> {
    const failed = new Set(this.#failed.map(({ id, revision }) => JSON.stringify([id, revision])));
    for (const [id, revisions] of asked) {
      if (!this.#log.has(id)) continue;
      const done = revisions.filter((revision) => !failed.has(JSON.stringify([id, revision])));
      if (done.length > 0) this.#arrived.push({ id, revisions: done });
    }
    if (this.#failed.length === 0 && this.#arrived.length === 0) return;
    await this.#log.record(this.#failed, this.#arrived);
  }
}

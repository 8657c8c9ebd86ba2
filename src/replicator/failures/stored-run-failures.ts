/** The stored list of failures of a running job. Every write verifies that the job is held. */
import { chunksOf, type Notifier, type Runtime } from "../../base/index.ts";
import type { KeyValueStore, ReadTransaction } from "../../kv/index.ts";
import type { FailureLists, FailurePage } from "./failure-lists.ts";
import type { ListedFailure } from "./failure-record.ts";
import type {
  ArrivedRevisions,
  DocumentFailure,
  RetryRequest,
  RunFailures,
} from "./run-failures.ts";

/** Maximum number of failures read per transaction and retried per batch. */
const PAGE_ROWS_MAX = 500;
/**
 * Maximum number of failures written per transaction. They take at most a megabyte, unless ids are
 * very long.
 */
const WRITE_ROWS_MAX = 200;

export interface StoredRunFailuresParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly lists: FailureLists;
  readonly baseId: string;
  /** Verifies in a transaction that the job is held. Throws if it is lost. */
  readonly verify: (tx: ReadTransaction) => Promise<void>;
  /**
   * Fires when another node notifies the worker about the job, possibly because of a retry request.
   */
  readonly called: Pick<Notifier, "notified">;
}

export class StoredRunFailures implements RunFailures {
  readonly #parts: StoredRunFailuresParts;
  /**
   * Ids of all documents on the list, including those removed since the list was opened. Only the
   * worker that holds the job adds documents to the list.
   */
  readonly #ids = new Set<string>();
  #waitsSinceMs: number | undefined;

  private constructor(parts: StoredRunFailuresParts) {
    this.#parts = parts;
  }

  static async open(parts: StoredRunFailuresParts): Promise<StoredRunFailures> {
    const log = new StoredRunFailures(parts);
    for await (const entries of log.pages()) {
      for (const { id, lastMs } of entries) {
        log.#ids.add(id);
        log.#waitsSinceMs = Math.min(lastMs, log.#waitsSinceMs ?? lastMs);
      }
    }
    return log;
  }

  get waitsSinceMs(): number | undefined {
    return this.#waitsSinceMs;
  }

  isWhole(): Promise<boolean> {
    const { kv, lists, baseId } = this.#parts;
    return kv.read((tx) => lists.isKept(tx, baseId));
  }

  async lookedBack(): Promise<void> {
    const { kv, lists, baseId, verify } = this.#parts;
    await kv.transact(
      async (tx) => {
        await verify(tx);
        lists.keep(tx, baseId);
      },
      { whenUnknown: "retry" },
    );
  }

  has(documentId: string): boolean {
    return this.#ids.has(documentId);
  }

  async record(
    failed: readonly DocumentFailure[],
    arrived: readonly ArrivedRevisions[],
  ): Promise<void> {
    const { runtime } = this.#parts;
    for (const { id } of failed) this.#ids.add(id);
    for (const chunk of chunksOf(arrived, WRITE_ROWS_MAX)) await this.#change([], chunk);
    for (const chunk of chunksOf(failed, WRITE_ROWS_MAX)) await this.#change(chunk, []);
    if (arrived.length > 0) {
      runtime.trace.event("replication.mended", { documentCount: arrived.length });
    }
    for (const { id, revision, phase, status, error, reason } of failed) {
      const fields = { documentId: id, revision, phase, status, error, reason };
      runtime.trace.event("replication.refused", fields);
    }
  }

  async *pages(ids?: readonly string[]): AsyncIterable<readonly ListedFailure[]> {
    const { kv, lists, baseId } = this.#parts;
    if (ids !== undefined) return yield await kv.read((tx) => lists.ofDocuments(tx, baseId, ids));
    let from: FailurePage["next"];
    do {
      const page: FailurePage = await kv.read((tx) =>
        lists.page(tx, baseId, { from, limit: PAGE_ROWS_MAX }),
      );
      if (page.entries.length > 0) yield page.entries;
      from = page.next;
    } while (from !== undefined);
  }

  async retryAsked(signal: AbortSignal): Promise<RetryRequest | undefined> {
    const { kv, lists, baseId, called } = this.#parts;
    while (!signal.aborted) {
      const request = await kv.read((tx) => lists.retryRequest(tx, baseId));
      if (request !== undefined) return request;
      await called.notified(signal).catch(() => {});
    }
    return undefined;
  }

  async retryDone(request: string): Promise<void> {
    const { kv, lists, baseId, verify } = this.#parts;
    await kv.transact(
      async (tx) => {
        await verify(tx);
        await lists.endRetry(tx, baseId, request);
      },
      { whenUnknown: "retry" },
    );
  }

  async #change(
    failed: readonly DocumentFailure[],
    arrived: readonly ArrivedRevisions[],
  ): Promise<void> {
    const { runtime, kv, lists, baseId, verify } = this.#parts;
    const nowMs = runtime.clock.nowMs();
    await kv.transact(async (tx) => {
      await verify(tx);
      await lists.change(tx, baseId, { failed, arrived, nowMs });
    });
  }
}

/**
 * Stores the lists of failures. A list contains the revisions that did not arrive although the
 * checkpoint of the replication is past them.
 *
 * Like a checkpoint, a list belongs to the base id of a replication. If a job is re-created, it
 * resumes at the checkpoint, so it needs the list of skipped revisions.
 */
import { type Digests, utf8Encode } from "../../base/index.ts";
import {
  type Key,
  keyAfter,
  packTuple,
  type ReadTransaction,
  type Subspace,
  type Transaction,
} from "../../kv/index.ts";
import { EndpointError } from "../endpoints/endpoint.ts";
import type { JobIndex } from "../job-lists/job-index.ts";
import { type FailureKind, type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import {
  decodeCount,
  decodeFailure,
  decodeRetryRequest,
  encodeCount,
  encodeFailure,
  encodeRetryRequest,
  type ListedFailure,
} from "./failure-record.ts";
import {
  type ArrivedRevisions,
  type DocumentFailure,
  type RetryRequest,
  SCHEDULED_RETRY,
} from "./run-failures.ts";

/**
 * Maximum length of a list. If a list grows longer, the target is considered unsuitable, and the
 * job crashes, because failures that are not listed must not be skipped. A list of this length
 * takes about 40 MB in the store, and 10 MB of ids in memory.
 */
export const FAILURES_MAX = 100_000;
/**
 * Maximum number of ids in a retry request. A request with more ids retries all documents on the
 * list.
 */
export const RETRY_IDS_MAX = 100;
/** Maximum total length of the ids in a retry request, which is stored as a single value. */
const RETRY_IDS_LENGTH_MAX = 50_000;
/** Maximum length of a stored reason: enough for a sentence, but not for a document. */
const REASON_LENGTH_MAX = 500;
const ERROR_LENGTH_MAX = 100;
/**
 * Length of the id prefix in the key, which determines the order; the digest covers the rest of the
 * id.
 */
const KEY_ID_BYTES_MAX = 500;
/**
 * Maximum length of a listed document's id. A longer id fits neither into a record nor into a
 * request line.
 */
const ID_LENGTH_MAX = 25_000;

const KEPT = packTuple([1]);

export interface FailureCount extends FailureKind {
  readonly count: number;
}

export interface FailurePage {
  readonly entries: readonly ListedFailure[];
  /** Start of the next page; undefined after the last page. */
  readonly next: Key | undefined;
}

export class FailureLists {
  readonly #keys: ReplicatorKeys;
  readonly #digests: Digests;
  readonly #countMax: number;
  readonly #index: JobIndex;

  constructor(subspace: Subspace, digests: Digests, index: JobIndex, countMax = FAILURES_MAX) {
    this.#keys = replicatorKeys(subspace);
    this.#digests = digests;
    this.#countMax = countMax;
    this.#index = index;
  }

  /**
   * Removes `arrived` from the list and adds `failed`. Throws an EndpointError if the list becomes
   * too long.
   */
  async change(
    tx: Transaction,
    baseId: string,
    {
      failed,
      arrived,
      nowMs,
    }: {
      readonly failed: readonly DocumentFailure[];
      readonly arrived: readonly ArrivedRevisions[];
      readonly nowMs: number;
    },
  ): Promise<void> {
    const counts = new Counts(await this.counts(tx, baseId));
    const wasEmpty = counts.total === 0;
    for (const { id, revisions } of arrived) {
      for (const revision of revisions) {
        const key = this.#key(baseId, id, revision);
        const value = await tx.get(key);
        if (value === undefined) continue;
        tx.clear(key);
        counts.add(kindOf(decodeFailure(value)), -1);
      }
    }
    for (const failure of failed) {
      if (failure.id.length > ID_LENGTH_MAX) {
        throw new EndpointError("doc_id_too_long", "a document id is too long");
      }
      const key = this.#key(baseId, failure.id, failure.revision);
      const value = await tx.get(key);
      const earlier = value && decodeFailure(value);
      if (earlier !== undefined) counts.add(kindOf(earlier), -1);
      const listed: ListedFailure = {
        ...failure,
        error: failure.error.slice(0, ERROR_LENGTH_MAX),
        reason: failure.reason.slice(0, REASON_LENGTH_MAX),
        firstMs: earlier?.firstMs ?? nowMs,
        lastMs: nowMs,
        tries: (earlier?.tries ?? 0) + 1,
      };
      tx.set(key, encodeFailure(listed));
      counts.add(kindOf(listed), 1);
    }
    if (failed.length > 0) this.keep(tx, baseId);
    if (failed.length > 0 && counts.total > this.#countMax) {
      const { error, reason } = failed.at(-1) as DocumentFailure;
      throw new EndpointError(
        "too_many_failures",
        `more than ${this.#countMax} revisions failed; the last one: ${error}: ${reason.slice(0, REASON_LENGTH_MAX)}`,
      );
    }
    await this.#writeCounts(tx, baseId, counts, wasEmpty);
  }

  /**
   * Removes up to `limit` failures from the start of a list. Returns whether the list is then
   * empty.
   */
  async removePage(tx: Transaction, baseId: string, limit: number): Promise<boolean> {
    const counts = new Counts(await this.counts(tx, baseId));
    const wasEmpty = counts.total === 0;
    const page = await tx.getRangePage(this.#keys.failure.range({ baseId }), { limit });
    for (const { key, value } of page.entries) {
      tx.clear(key);
      counts.add(kindOf(decodeFailure(value)), -1);
    }
    await this.#writeCounts(tx, baseId, counts, wasEmpty);
    return page.stoppedBy === "exhausted";
  }

  async #writeCounts(
    tx: Transaction,
    baseId: string,
    counts: Counts,
    wasEmpty: boolean,
  ): Promise<void> {
    for (const { count, ...kind } of counts.changed()) {
      const key = this.#keys.failureCount.key({ baseId, ...kind });
      if (count === 0) tx.clear(key);
      else tx.set(key, encodeCount(count));
    }
    const isEmpty = counts.total === 0;
    if (isEmpty !== wasEmpty) await this.#index.leftBehind(tx, baseId, !isEmpty);
  }

  /** Whether the list is complete: it contains every failure before the checkpoint. */
  async isKept(tx: ReadTransaction, baseId: string): Promise<boolean> {
    return (await tx.get(this.#keys.failuresKept.key({ baseId }))) !== undefined;
  }

  keep(tx: Transaction, baseId: string): void {
    tx.set(this.#keys.failuresKept.key({ baseId }), KEPT);
  }

  /** Returns a page of the list, ordered by the bytes of document ids. */
  async page(
    tx: ReadTransaction,
    baseId: string,
    { from, limit }: { readonly from?: Key | undefined; readonly limit: number },
  ): Promise<FailurePage> {
    const range = this.#keys.failure.range({ baseId });
    const page = await tx.getRangePage({ begin: from ?? range.begin, end: range.end }, { limit });
    const last = page.entries.at(-1);
    return {
      entries: page.entries.map(({ value }) => decodeFailure(value)),
      next: page.stoppedBy === "exhausted" || last === undefined ? undefined : keyAfter(last.key),
    };
  }

  /** Returns the listed failures of these documents. */
  async ofDocuments(
    tx: ReadTransaction,
    baseId: string,
    ids: readonly string[],
  ): Promise<readonly ListedFailure[]> {
    const found: ListedFailure[] = [];
    for (const id of new Set(ids)) {
      for await (const { value } of tx.getRange(
        this.#keys.failure.range({ baseId, idBytes: keyIdOf(id) }),
      )) {
        const failure = decodeFailure(value);
        // Compare whole ids, because other ids can have the same prefix in their keys.
        if (failure.id === id) found.push(failure);
      }
    }
    return found;
  }

  /** Returns the number of failures of each kind. */
  async counts(tx: ReadTransaction, baseId: string): Promise<readonly FailureCount[]> {
    const page = await tx.getRangePage(this.#keys.failureCount.range({ baseId }));
    return page.entries.map(({ key, value }) => {
      const { phase, status, error } = this.#keys.failureCount.unpack(key);
      return { phase, status, error, count: decodeCount(value) };
    });
  }

  async retryRequest(tx: ReadTransaction, baseId: string): Promise<RetryRequest | undefined> {
    const value = await tx.get(this.#keys.failureRetry.key({ baseId }));
    return value && decodeRetryRequest(value);
  }

  /**
   * Requests a retry. If a request of a user is already stored, its documents are added to the new
   * request.
   */
  async askRetry(
    tx: Transaction,
    baseId: string,
    { request, ids: more }: RetryRequest,
  ): Promise<void> {
    const earlier = await this.retryRequest(tx, baseId);
    const isFirst = earlier === undefined || earlier.request === SCHEDULED_RETRY.request;
    const ids = isFirst ? more : united(earlier.ids, more);
    tx.set(this.#keys.failureRetry.key({ baseId }), encodeRetryRequest({ request, ids }));
  }

  /** Removes the request with this id, unless a later request has replaced it. */
  async endRetry(tx: Transaction, baseId: string, request: string): Promise<void> {
    if ((await this.retryRequest(tx, baseId))?.request !== request) return;
    tx.clear(this.#keys.failureRetry.key({ baseId }));
  }

  /** Returns a watch that fires when a retry request is added or removed. */
  watchRetry(tx: Transaction, baseId: string) {
    return tx.watch(this.#keys.failureRetry.key({ baseId }));
  }

  #key(baseId: string, id: string, revision: string): Key {
    const digest = this.#digests.md5(utf8Encode(JSON.stringify([id, revision])));
    return this.#keys.failure.key({ baseId, idBytes: keyIdOf(id), digest });
  }
}

function keyIdOf(id: string): Uint8Array {
  return utf8Encode(id).subarray(0, KEY_ID_BYTES_MAX);
}

/** Whether a single retry request can contain these ids. */
export function fitsRetryRequest(ids: readonly string[]): boolean {
  return ids.length <= RETRY_IDS_MAX && JSON.stringify(ids).length <= RETRY_IDS_LENGTH_MAX;
}

/**
 * Combines the documents of two retry requests. Returns undefined (the whole list) if either
 * request is for the whole list or there are too many documents.
 */
function united(
  left: readonly string[] | undefined,
  right: readonly string[] | undefined,
): readonly string[] | undefined {
  if (left === undefined || right === undefined) return undefined;
  const ids = [...new Set([...left, ...right])];
  return fitsRetryRequest(ids) ? ids : undefined;
}

/** Changes to the counters of one list within a transaction. */
class Counts {
  readonly #counts = new Map<string, FailureCount>();
  readonly #changed = new Set<string>();

  constructor(counts: readonly FailureCount[]) {
    for (const count of counts) this.#counts.set(nameOf(count), count);
  }

  get total(): number {
    let total = 0;
    for (const { count } of this.#counts.values()) total += count;
    return total;
  }

  add(kind: FailureKind, more: number): void {
    const name = nameOf(kind);
    this.#counts.set(name, { ...kind, count: (this.#counts.get(name)?.count ?? 0) + more });
    this.#changed.add(name);
  }

  changed(): readonly FailureCount[] {
    return [...this.#changed].map((name) => this.#counts.get(name) as FailureCount);
  }
}

/** Adds up the counts of several lists by kind. */
export function sumCounts(lists: readonly (readonly FailureCount[])[]): readonly FailureCount[] {
  const sum = new Counts([]);
  for (const { count, ...kind } of lists.flat()) sum.add(kind, count);
  return sum.changed();
}

function nameOf({ phase, status, error }: FailureKind): string {
  return `${phase} ${status} ${error}`;
}

/**
 * Returns the kind by which a failure is counted. In the untrusted `error`, replaces characters
 * that a key must not contain.
 */
function kindOf({ phase, status, error }: DocumentFailure): FailureKind {
  return { phase, status: status ?? 0, error: error.replace(/[^\x20-\x7e]/g, "?") };
}

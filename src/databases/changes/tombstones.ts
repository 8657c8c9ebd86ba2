/**
 * Tombstones, the deleted documents of a database: the age at which they are purged
 * (`_auto_purge`), and the sequence up to which they have been purged. A deletion moves the
 * document to the end of the update sequence, so each change is read once.
 */
import { utf8Decode, utf8Encode } from "../../base/index.ts";
import type { ReadTransaction, Transaction, Versionstamp } from "../../kv/index.ts";
import type { Purge, PurgedPage } from "../documents/document-purger.ts";
import type { DocumentReader } from "../documents/document-reader.ts";
import { PurgeSize } from "../documents/purge-size.ts";
import type { WriteContext } from "../hooks.ts";
import { decodeVersionstamp, encodeVersionstamp, readCounter } from "../records/counter-record.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";
import type { AssertExists } from "../transaction-state.ts";
import type { ChangesFeed } from "./changes-feed.ts";
import { FIRST_SEQUENCE, formatSequence, parseSequence } from "./sequence.ts";
import type { Times } from "./times.ts";

/** Maximum number of changes that one transaction reads. */
const PAGE_ROWS = 1_000;

/** Tombstones in one page of changes. */
interface TombstonePage {
  /** Tombstones, each with all its leaves. */
  readonly tombstones: readonly Purge[];
  /** Sequence of the change just before each tombstone, by document id. */
  readonly before: ReadonlyMap<string, string>;
  /** Sequence up to which changes were read. */
  readonly through: string;
  readonly isLast: boolean;
}

/** Tombstones purged in one transaction. */
export interface PurgedTombstones {
  readonly documentCount: number;
  /** Remaining leaves of partially purged documents, for the next transaction. */
  readonly rest: readonly Purge[];
  /** Whether all documents deleted before `beforeMs` have been purged. */
  readonly isLast: boolean;
}

export interface TombstonesParts {
  readonly keys: DatabaseKeys;
  readonly reader: DocumentReader;
  readonly changes: ChangesFeed;
  readonly times: Times;
  readonly assertExists: AssertExists;
  readonly purge: (
    tx: Transaction,
    purges: readonly Purge[],
    context: WriteContext,
    size: PurgeSize,
  ) => Promise<PurgedPage>;
}

export class Tombstones {
  readonly #parts: TombstonesParts;

  constructor(parts: TombstonesParts) {
    this.#parts = parts;
  }

  /** Returns the stored time to live, in the form in which it was given. */
  async ttl(tx: ReadTransaction): Promise<string | undefined> {
    const value = await tx.get(this.#parts.keys.tombstoneTtl.key({}));
    return value && utf8Decode(value);
  }

  async setTtl(tx: Transaction, ttl: string | undefined): Promise<void> {
    await this.#parts.assertExists(tx);
    const key = this.#parts.keys.tombstoneTtl.key({});
    if (ttl === undefined) tx.clear(key);
    else tx.set(key, utf8Encode(ttl));
  }

  /**
   * Counts the tombstones older than `beforeMs` in the next page of changes. `after` is the
   * `through` that the previous call returned. Default: the sequence up to which tombstones have
   * been purged.
   */
  async count(
    tx: ReadTransaction,
    { beforeMs, after }: { readonly beforeMs: number; readonly after?: string | undefined },
  ): Promise<{ readonly count: number; readonly through: string; readonly isLast: boolean }> {
    const since = after ?? (await this.#purgedThrough(tx));
    const page = await this.#page(tx, since, beforeMs, new PurgeSize());
    const { tombstones, through, isLast } = page;
    return { count: tombstones.length, through, isLast };
  }

  /**
   * Purges as many tombstones older than `beforeMs` as one transaction can purge. If `rest`
   * (returned by the previous call) is not empty, purges those instead. If a transaction is too
   * large, the caller repeats it with a smaller `size`.
   */
  async purge(
    tx: Transaction,
    { beforeMs, rest }: { readonly beforeMs: number; readonly rest: readonly Purge[] },
    context: WriteContext,
    size = new PurgeSize(),
  ): Promise<PurgedTombstones> {
    await this.#parts.assertExists(tx);
    const purge = async (purges: readonly Purge[]): Promise<PurgedPage> =>
      purges.length === 0 ? { purged: [], rest: [] } : this.#parts.purge(tx, purges, context, size);
    if (rest.length > 0) {
      const done = await purge(await this.#stillDeleted(tx, rest));
      return { documentCount: finishedCount(done), rest: done.rest, isLast: false };
    }
    const since = await this.#purgedThrough(tx);
    const page = await this.#page(tx, since, beforeMs, size);
    const done = await purge(page.tombstones);
    const begun = new Set(done.purged.map(({ id }) => id));
    // Partially purged documents have moved to the end of the update sequence, so the next page can
    // begin after their old positions.
    const next = done.rest.find(({ id }) => !begun.has(id));
    const through = next === undefined ? page.through : (page.before.get(next.id) as string);
    if (through !== since) this.#setPurgedThrough(tx, through);
    return {
      documentCount: finishedCount(done),
      rest: done.rest.filter(({ id }) => begun.has(id)),
      isLast: page.isLast && done.rest.length === 0,
    };
  }

  /** Returns the sequence up to which tombstones have been purged. */
  async #purgedThrough(tx: ReadTransaction): Promise<string> {
    const value = await tx.get(this.#parts.keys.tombstonesPurged.key({}));
    return value === undefined ? FIRST_SEQUENCE : formatSequence(decodeVersionstamp(value));
  }

  #setPurgedThrough(tx: Transaction, sequence: string): void {
    const versionstamp = parseSequence(sequence) as Versionstamp;
    tx.set(this.#parts.keys.tombstonesPurged.key({}), encodeVersionstamp(versionstamp));
  }

  async #page(
    tx: ReadTransaction,
    since: string,
    beforeMs: number,
    { documentCountMax, revisionCountMax }: PurgeSize,
  ): Promise<TombstonePage> {
    const { keys, changes, times } = this.#parts;
    const before = new Map<string, string>();
    const until = await times.sequenceBefore(tx, beforeMs);
    const deletedCount = await readCounter(tx, keys, "deletedDocuments");
    if (until === FIRST_SEQUENCE || deletedCount === 0) {
      return { tombstones: [], before, through: since, isLast: true };
    }
    // Snapshot reads, because a page must not conflict with writers of documents that are not
    // purged. The purge itself reads its documents again, without a snapshot.
    const page = await changes.page(tx.snapshot, { since, until, limit: PAGE_ROWS });
    const tombstones: Purge[] = [];
    let revisionCount = 0;
    let through = since;
    for (const { id, sequence, deleted, leaves } of page.entries) {
      if (deleted) {
        revisionCount += leaves.length;
        const isFull = tombstones.length === documentCountMax || revisionCount > revisionCountMax;
        if (isFull && tombstones.length > 0) return { tombstones, before, through, isLast: false };
        tombstones.push({ id, revisions: leaves.map(({ revision }) => revision) });
        before.set(id, through);
      }
      through = sequence;
    }
    return { tombstones, before, through, isLast: page.stoppedBy === "exhausted" };
  }

  /** Returns the purges whose documents are still deleted. */
  async #stillDeleted(tx: Transaction, purges: readonly Purge[]): Promise<readonly Purge[]> {
    const loaded = await this.#parts.reader.loadMany(
      tx,
      purges.map(({ id }) => id),
    );
    return purges.filter((_, index) => {
      const leaves = loaded[index]?.tree.leaves ?? [];
      return leaves.length > 0 && leaves.every(({ leaf }) => leaf.deleted);
    });
  }
}

/** Returns the number of documents without remaining leaves. */
function finishedCount({ purged, rest }: PurgedPage): number {
  const unfinished = new Set(rest.map(({ id }) => id));
  return purged.filter(({ id }) => !unfinished.has(id)).length;
}

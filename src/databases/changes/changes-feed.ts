/**
 * The update sequence, page by page. Its records contain everything that a change reports, so no
 * other records are read.
 */
import { assert, type Page } from "../../base/index.ts";
import {
  firstGreaterThan,
  type RangeOptions,
  type ReadTransaction,
  type Transaction,
  Versionstamp,
  type Watch,
} from "../../kv/index.ts";
import type { ChangeCounts } from "../counters/change-counts.ts";
import type { Change } from "../document.ts";
import type { DocumentPurger } from "../documents/document-purger.ts";
import type { DocumentReader } from "../documents/document-reader.ts";
import { type ChangedLeaf, decodeChangeRecord } from "../records/change-record.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";
import { formatRevision } from "../revisions/revision.ts";
import type { RevisionTree } from "../revisions/revision-tree.ts";
import { FIRST_SEQUENCE, formatSequence, parseSequence } from "./sequence.ts";

export interface ChangesOptions {
  /** Changes after this sequence. Default, or "0": from the start. */
  readonly since?: string;
  /** Changes up to this sequence, inclusive. Default: all. */
  readonly until?: string;
  /** Changes before this sequence, for continuing a descending feed. */
  readonly before?: string;
  readonly limit?: number;
  readonly descending?: boolean;
  /** Number of bytes of stored rows after which the page ends. */
  readonly byteLimit?: number;
}

/**
 * Maximum number of documents that are looked up individually. For more documents, all changes are
 * scanned, as in CouchDB.
 */
export const LOOKED_UP_MAX = 100;

/** A page of changes of selected documents. */
export interface ChangesOfDocuments extends Page<Change> {
  /**
   * Sequence up to which all changes of these documents have been reported. It is often the
   * sequence of another document's change. Undefined if the database has no changes.
   */
  readonly lastSequence: string | undefined;
}

export interface ChangesFeedParts {
  readonly keys: DatabaseKeys;
  readonly reader: DocumentReader;
  readonly counts: ChangeCounts;
  readonly purges: DocumentPurger;
}

/**
 * Maximum number of documents loaded for a page, because their changes do not list all leaves.
 * Loading one takes up to a few hundred milliseconds, and a transaction must end within five
 * seconds.
 */
const LOADED_MAX = 10;

export class ChangesFeed {
  readonly #parts: ChangesFeedParts;
  readonly #keys: DatabaseKeys;
  readonly #reader: DocumentReader;

  constructor(parts: ChangesFeedParts) {
    this.#parts = parts;
    this.#keys = parts.keys;
    this.#reader = parts.reader;
  }

  /**
   * Returns one page of the update sequence, which lists each document once, at its latest change.
   */
  async page(tx: ReadTransaction, options: ChangesOptions): Promise<Page<Change>> {
    const { since = "0", until, before, limit, byteLimit, descending = false } = options;
    assert(limit === undefined || limit >= 0, "The limit must not be negative");
    const all = this.#keys.change.range();
    const sinceStamp = parseSequence(since);
    const beforeStamp = before === undefined ? undefined : parseSequence(before);
    if (limit === 0) return { entries: [], stoppedBy: "row-limit" };
    if (until !== undefined && !isBefore(sinceStamp, parseSequence(until))) {
      return { entries: [], stoppedBy: "exhausted" };
    }
    const begin =
      sinceStamp === undefined
        ? all.begin
        : firstGreaterThan(this.#keys.change.key({ versionstamp: sinceStamp }));
    const untilStamp = until === undefined ? undefined : parseSequence(until);
    const bound =
      untilStamp === undefined
        ? all.end
        : firstGreaterThan(this.#keys.change.key({ versionstamp: untilStamp }));
    const end =
      beforeStamp === undefined ? bound : this.#keys.change.key({ versionstamp: beforeStamp });
    const rangeOptions: RangeOptions = {
      reverse: descending,
      ...(limit === undefined ? {} : { limit }),
      ...(byteLimit === undefined ? {} : { byteLimit }),
    };
    const page = await tx.getRangePage({ begin, end }, rangeOptions);
    const entries: Change[] = [];
    let loadedCount = 0;
    for (const { key, value } of page.entries) {
      const record = decodeChangeRecord(value);
      if (!record.complete && loadedCount++ === LOADED_MAX) {
        return { entries, stoppedBy: "row-limit" };
      }
      const leaves = record.complete ? record.leaves : await this.#allLeaves(tx, record.id);
      entries.push(changeOf(Versionstamp.endOf(key), record.id, leaves));
    }
    return { entries, stoppedBy: page.stoppedBy };
  }

  /**
   * Like `page`, for the documents with these ids. Each document is looked up individually, so the
   * cost does not depend on the number of changes; each additional page repeats the lookups.
   */
  async pageOf(
    tx: ReadTransaction,
    ids: readonly string[],
    options: Omit<ChangesOptions, "byteLimit">,
  ): Promise<ChangesOfDocuments> {
    const { since = "0", until, before, limit, descending = false } = options;
    const sinceStamp = parseSequence(since);
    const untilStamp = until === undefined ? undefined : parseSequence(until);
    const beforeStamp = before === undefined ? undefined : parseSequence(before);
    const [end, loaded] = await Promise.all([
      this.page(tx, { ...options, limit: 1, descending: !descending }),
      this.#reader.loadMany(tx, ids),
    ]);
    const found: { readonly at: Versionstamp; readonly change: Change }[] = [];
    for (const [index, { place, tree }] of loaded.entries()) {
      assert(
        place.kind !== "written",
        "A transaction must not read changes after writing documents",
      );
      if (place.kind !== "stored") continue;
      const at = place.versionstamp;
      const isIn =
        isBefore(sinceStamp, at) &&
        (until === undefined || !isBefore(untilStamp, at)) &&
        (before === undefined || isBefore(at, beforeStamp));
      if (isIn) found.push({ at, change: changeOf(at, ids[index] as string, changedLeaves(tree)) });
    }
    found.sort((left, right) => left.at.compare(right.at) * (descending ? -1 : 1));
    const entries = found.slice(0, limit).map(({ change }) => change);
    if (entries.length < found.length) {
      return { entries, stoppedBy: "row-limit", lastSequence: entries.at(-1)?.sequence };
    }
    return { entries, stoppedBy: "exhausted", lastSequence: end.entries[0]?.sequence };
  }

  /** Returns the number of changes after the sequence. */
  pendingCount(tx: ReadTransaction, since: string): Promise<number> {
    return this.#parts.counts.countAfter(tx, parseSequence(since));
  }

  /**
   * Returns the document's position in the update sequence, or `undefined` for an unknown document.
   * Must not be called for a document written by this transaction.
   */
  async sequenceOf(tx: ReadTransaction, id: string): Promise<string | undefined> {
    const { place } = await this.#reader.load(tx, id);
    assert(
      place.kind !== "written",
      "The sequence of a document must not be read in the transaction that wrote it",
    );
    return place.kind === "stored" ? formatSequence(place.versionstamp) : undefined;
  }

  /**
   * Returns the sequence of the last change, or of the last purge if that is later. Before any
   * change or purge, returns the first sequence. Never decreases.
   */
  async lastSequence(tx: ReadTransaction): Promise<string> {
    return (await this.end(tx)).lastSequence;
  }

  /**
   * Returns `lastSequence`, and whether the feed is empty: the database then contains no documents,
   * not even deleted ones.
   */
  async end(
    tx: ReadTransaction,
  ): Promise<{ readonly lastSequence: string; readonly isEmpty: boolean }> {
    const [last, purged] = await Promise.all([
      this.#lastVersionstamp(tx),
      this.#parts.purges.lastVersionstamp(tx),
    ]);
    const later =
      last === undefined || (purged !== undefined && purged.compare(last) > 0) ? purged : last;
    const lastSequence = later === undefined ? FIRST_SEQUENCE : formatSequence(later);
    return { lastSequence, isEmpty: last === undefined };
  }

  /**
   * Returns a watch that fires after the next commit that writes a document of this database or
   * removes the database.
   */
  watch(tx: Transaction): Watch {
    return tx.watch(this.#keys.changed.key({}));
  }

  /** Returns the versionstamp of the last change, if any. */
  async #lastVersionstamp(tx: ReadTransaction): Promise<Versionstamp | undefined> {
    const page = await tx.snapshot.getRangePage(this.#keys.change.range(), {
      limit: 1,
      reverse: true,
    });
    const [last] = page.entries;
    return last === undefined ? undefined : Versionstamp.endOf(last.key);
  }

  async #allLeaves(tx: ReadTransaction, id: string): Promise<readonly ChangedLeaf[]> {
    const { tree } = await this.#reader.load(tx, id);
    return changedLeaves(tree);
  }
}

function changeOf(versionstamp: Versionstamp, id: string, leaves: readonly ChangedLeaf[]): Change {
  const named = leaves.map((leaf) => {
    return { revision: formatRevision(leaf), deleted: leaf.deleted };
  });
  const [winner] = named;
  assert(winner !== undefined, "A changed document must have a leaf");
  return {
    sequence: formatSequence(versionstamp),
    id,
    deleted: winner.deleted,
    winner: winner.revision,
    leaves: named,
  };
}

/** Returns the leaves of a tree, winner first. */
function changedLeaves({ leaves }: RevisionTree): ChangedLeaf[] {
  return leaves.map(({ generation, hash, leaf }) => {
    return { generation, hash, deleted: leaf.deleted };
  });
}

/** Whether `left` strictly precedes `right`; `undefined` precedes all versionstamps. */
function isBefore(left: Versionstamp | undefined, right: Versionstamp | undefined): boolean {
  if (right === undefined) return false;
  return left === undefined || left.compare(right) < 0;
}

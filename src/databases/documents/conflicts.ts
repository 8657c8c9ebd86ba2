/**
 * Documents with conflicts, that is, with two or more leaves that are not deleted. The writer of
 * such a document maintains its conflict row and, in the registry, the number of conflict rows of
 * the database.
 *
 * A database written in an older format has no conflict rows. When the store uses the newer format,
 * the changes of the database are searched for conflicts page by page (`search`). Until this search
 * is complete, a conflict might have no row. The row is therefore read before a document with a
 * conflict is written, and the number is reduced only if the row exists.
 */
import type { Clock, Page } from "../../base/index.ts";
import {
  firstGreaterThan,
  type Key,
  type KeyValue,
  type ReadTransaction,
  type Transaction,
} from "../../kv/index.ts";
import { CounterDeltas } from "../counters/counter-deltas.ts";
import { decodeChangeRecord } from "../records/change-record.ts";
import {
  type ConflictRecord,
  type ConflictSearch,
  decodeConflict,
  decodeConflictSearch,
  encodeConflict,
  encodeConflictSearch,
} from "../records/conflict-record.ts";
import { decodeCounter } from "../records/counter-record.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";
import { formatRevision } from "../revisions/revision.ts";
import type { LeafNode, RevisionTree } from "../revisions/revision-tree.ts";
import type { LoadedDocument } from "../transaction-state.ts";
import type { DocumentReader } from "./document-reader.ts";

/**
 * Returns whether the store has format 3 or a later one, with conflict rows and with small bodies
 * in document records.
 */
export type IsFormat3 = (tx: ReadTransaction) => Promise<boolean>;

/** Default number of changes that one transaction of a search reads. */
const SEARCH_PAGE_ROWS = 1_000;
/**
 * Maximum number of documents that one transaction of a search loads. Each document can have a
 * large revision tree.
 */
const SEARCH_DOCUMENTS_MAX = 50;

export interface Conflict extends ConflictRecord {
  readonly id: string;
}

export interface ConflictCount {
  readonly count: number;
  /** False while changes written by an older version are still being searched for conflicts. */
  readonly isComplete: boolean;
}

export class Conflicts {
  readonly #clock: Clock;
  readonly #keys: DatabaseKeys;
  readonly #countKey: Key;
  readonly #reader: DocumentReader;
  readonly #isFormat3: IsFormat3;

  constructor(
    clock: Clock,
    parts: {
      readonly keys: DatabaseKeys;
      readonly countKey: Key;
      readonly reader: DocumentReader;
      readonly isFormat3: IsFormat3;
    },
  ) {
    this.#clock = clock;
    this.#keys = parts.keys;
    this.#countKey = parts.countKey;
    this.#reader = parts.reader;
    this.#isFormat3 = parts.isFormat3;
  }

  /** Loads documents that will be written, and checks which of them have a conflict row. */
  async load(tx: Transaction, ids: readonly string[]): Promise<LoadedDocument[]> {
    const loaded = await this.#reader.loadMany(tx, ids);
    if (!(await this.#isFormat3(tx))) return loaded;
    for (const document of loaded) document.isFormat3 = true;
    const conflicting = [...loaded.entries()].filter(([, { tree, place }]) => {
      return place.kind === "stored" && isConflicting(tree);
    });
    if (conflicting.length === 0) return loaded;
    const keys = conflicting.map(([at]) => this.#keys.conflict.key({ id: ids[at] as string }));
    for (const [at, value] of (await tx.getMany(keys)).entries()) {
      const [, document] = conflicting[at] as [number, LoadedDocument];
      document.conflictRow = value === undefined ? "absent" : "stored";
    }
    return loaded;
  }

  /** Updates the conflict row and the number of conflicts for a document whose tree has changed. */
  update(
    tx: Transaction,
    {
      id,
      loaded,
      before,
    }: {
      readonly id: string;
      readonly loaded: LoadedDocument;
      readonly before: ReadonlyMap<LeafNode, unknown>;
    },
    { deltas, jobId }: { readonly deltas: CounterDeltas; readonly jobId: string | undefined },
  ): void {
    if (!loaded.isFormat3) return;
    const row = isConflicting(loaded.tree) ? "stored" : "absent";
    if (row === loaded.conflictRow) return;
    if (row === "stored") {
      const added = loaded.tree.leaves.find((leaf) => !leaf.leaf.deleted && !before.has(leaf));
      const revision = added && formatRevision(added);
      this.#add(tx, id, { sinceMs: this.#clock.nowMs(), jobId, revision }, deltas);
    } else {
      tx.clear(this.#keys.conflict.key({ id }));
      tx.clear(this.#keys.unresolved.key({ id }));
      deltas.addAt(this.#countKey, -1);
    }
    loaded.conflictRow = row;
  }

  /** Returns conflict rows in byte order of the ids, starting after `afterId`. */
  async page(
    tx: ReadTransaction,
    { afterId, limit }: { readonly afterId?: string | undefined; readonly limit: number },
  ): Promise<Page<Conflict>> {
    const { begin, end } = this.#keys.conflict.range();
    const after = afterId === undefined ? undefined : this.#keys.conflict.key({ id: afterId });
    const range = { begin: after === undefined ? begin : firstGreaterThan(after), end };
    const page = await tx.getRangePage(range, { limit });
    const entries = page.entries.map(({ key, value }) => {
      return { id: this.#keys.conflict.unpack(key).id, ...decodeConflict(value) };
    });
    return { entries, stoppedBy: page.stoppedBy };
  }

  /** Returns the conflict row of a document, or `undefined` if it has no row. */
  async find(tx: ReadTransaction, id: string): Promise<ConflictRecord | undefined> {
    const value = await tx.get(this.#keys.conflict.key({ id }));
    return value && decodeConflict(value);
  }

  async count(tx: ReadTransaction): Promise<ConflictCount> {
    const [count, search] = await Promise.all([
      tx.snapshot.get(this.#countKey),
      tx.snapshot.get(this.#keys.conflictSearch.key({})),
    ]);
    const isComplete = search !== undefined && decodeConflictSearch(search) === "done";
    return { count: decodeCounter(count), isComplete };
  }

  /** Whether changes remain to be searched. */
  async hasToSearch(tx: ReadTransaction): Promise<boolean> {
    return !(await this.count(tx)).isComplete && (await this.#isFormat3(tx));
  }

  /** Marks the search as complete in a new database, which has no changes to search. */
  async beginComplete(tx: Transaction): Promise<void> {
    if (await this.#isFormat3(tx)) this.#noteSearch(tx, "done");
  }

  #noteSearch(tx: Transaction, search: ConflictSearch): void {
    tx.set(this.#keys.conflictSearch.key({}), encodeConflictSearch(search));
  }

  /** Searches up to `limit` changes. Returns whether all have been searched. */
  async search(tx: Transaction, limit: number = SEARCH_PAGE_ROWS): Promise<boolean> {
    if (!(await this.#isFormat3(tx))) return true;
    const stored = await tx.get(this.#keys.conflictSearch.key({}));
    const search = stored === undefined ? undefined : decodeConflictSearch(stored);
    if (search === "done") return true;
    const { begin, end } = this.#keys.change.range();
    const after = search && this.#keys.change.key({ versionstamp: search });
    const range = { begin: after === undefined ? begin : firstGreaterThan(after), end };
    const page = await tx.getRangePage(range, { limit });
    const ids: string[] = [];
    let searched = 0;
    while (searched < page.entries.length && ids.length < SEARCH_DOCUMENTS_MAX) {
      const { value } = page.entries[searched++] as KeyValue;
      const { id, leaves, complete } = decodeChangeRecord(value);
      if (!complete || leaves.filter(({ deleted }) => !deleted).length > 1) ids.push(id);
    }
    const deltas = new CounterDeltas(this.#keys);
    for (const [at, { tree, conflictRow }] of (await this.load(tx, ids)).entries()) {
      if (!isConflicting(tree) || conflictRow === "stored") continue;
      this.#add(tx, ids[at] as string, { sinceMs: undefined, jobId: undefined }, deltas);
    }
    deltas.apply(tx);
    const last = page.entries[searched - 1];
    const isAll = page.stoppedBy === "exhausted" && searched === page.entries.length;
    const isLast = isAll || last === undefined;
    this.#noteSearch(tx, isLast ? "done" : this.#keys.change.unpack(last.key).versionstamp);
    return isLast;
  }

  #add(tx: Transaction, id: string, record: ConflictRecord, deltas: CounterDeltas): void {
    tx.set(this.#keys.conflict.key({ id }), encodeConflict(record));
    deltas.addAt(this.#countKey, 1);
  }
}

function isConflicting({ leaves }: RevisionTree): boolean {
  // Fast path: most documents have one leaf.
  return leaves.length > 1 && leaves.filter(({ leaf }) => !leaf.deleted).length > 1;
}

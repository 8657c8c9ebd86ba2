/** Read snapshots. Readers of one version share an LMDB snapshot, as reader slots are limited. */
import { compareBytes, type Page } from "../../base/index.ts";
import {
  BEHIND_LAST_KEY,
  FIRST_KEY,
  type Key,
  type KeyValue,
  keyAfter,
  type PageOptions,
  READ_VERSION_AGE_MS_MAX,
  type StoreSnapshot,
  type StoreSpace,
  type Value,
} from "../../kv/index.ts";
import { reading } from "./encoding.ts";
import { unavailable } from "./environment.ts";
import {
  decodeShared,
  isShared,
  isSharedRecord,
  type LmdbDatabase,
  readLastVersion,
  storedEnd,
  storedKey,
} from "./layout.ts";

type LmdbTransaction = ReturnType<LmdbDatabase["useReadTransaction"]>;

/** An LMDB snapshot and the number of its users. */
interface Shared {
  readonly version: number;
  readonly transaction: LmdbTransaction;
  useCount: number;
  /** Time at which the latest user acquired the snapshot. */
  takenAtMs: number;
}

/** Maximum age of a snapshot in use; see `READ_VERSION_AGE_MS_MAX`. */
const HELD_MS_MAX = READ_VERSION_AGE_MS_MAX + 1_000;

/** Number of bytes of rows per page. */
const PAGE_BYTES = 1_000_000;

/** Number of pages at the start of the file that hold LMDB's roots. */
const ROOT_PAGE_COUNT = 2;

/** Page counts of one of LMDB's trees. */
interface TreeStatistics {
  readonly treeBranchPageCount: number;
  readonly treeLeafPageCount: number;
  readonly overflowPages: number;
}

/** The used part of the result of `getStats`, which the library does not declare. */
interface Statistics {
  readonly pageSize: number;
  readonly lastPageNumber: number;
  readonly root: TreeStatistics;
  /** The list of free pages. */
  readonly free: TreeStatistics;
}

export class LmdbSnapshots {
  readonly #database: LmdbDatabase;
  /** The newest snapshot, while transactions use it. */
  #newest: Shared | undefined;
  /** Shared snapshots that still hold a snapshot of LMDB. */
  readonly #held = new Set<Shared>();

  constructor(database: LmdbDatabase) {
    this.#database = database;
  }

  /** Returns a snapshot of everything committed by any process before the call. */
  take(): StoreSnapshot {
    return new LmdbSnapshot(this.#database, this.#share(), this.#release);
  }

  /**
   * Frees expired snapshots. A transaction can hold a snapshot for long, for example while it waits
   * for a response. While a snapshot is held, LMDB cannot reuse pages that have been freed since
   * the snapshot was taken, so the file grows.
   */
  freeOld(): void {
    const nowMs = performance.now();
    for (const shared of this.#held) {
      if (nowMs - shared.takenAtMs > HELD_MS_MAX) this.#free(shared);
    }
  }

  get heldCount(): number {
    return this.#held.size;
  }

  /** The last version committed by any process. */
  lastVersion(): number {
    this.#database.resetReadTxn();
    return readLastVersion(this.#database);
  }

  space(): StoreSpace {
    this.#database.resetReadTxn();
    const { pageSize, lastPageNumber, root, free } = this.#database.getStats() as Statistics;
    const pageCount = lastPageNumber + 1;
    const usedCount = ROOT_PAGE_COUNT + pagesIn(root) + pagesIn(free);
    return { fileBytes: pageCount * pageSize, freeBytes: (pageCount - usedCount) * pageSize };
  }

  #share(): Shared {
    const newest = this.#newest;
    if (newest !== undefined && newest.version === this.lastVersion()) {
      newest.useCount++;
      newest.takenAtMs = performance.now();
      return newest;
    }
    this.#database.resetReadTxn();
    const transaction = this.#database.useReadTransaction();
    const version = readLastVersion(this.#database, { transaction });
    const shared = { version, transaction, useCount: 1, takenAtMs: performance.now() };
    this.#newest = shared;
    this.#held.add(shared);
    return shared;
  }

  readonly #release = (shared: Shared): void => {
    shared.useCount--;
    if (shared.useCount === 0) this.#free(shared);
  };

  #free(shared: Shared): void {
    if (!this.#held.delete(shared)) return;
    if (this.#newest === shared) this.#newest = undefined;
    shared.transaction.done();
  }
}

class LmdbSnapshot implements StoreSnapshot {
  readonly version: number;
  readonly #database: LmdbDatabase;
  readonly #options: { readonly transaction: LmdbTransaction };
  readonly #shared: Shared;
  readonly #release: (shared: Shared) => void;
  #released = false;

  constructor(database: LmdbDatabase, shared: Shared, release: (shared: Shared) => void) {
    this.version = shared.version;
    this.#database = database;
    this.#options = { transaction: shared.transaction };
    this.#shared = shared;
    this.#release = release;
  }

  get(key: Key): Value | undefined {
    const value = this.#database.get(storedKey(key), this.#options);
    if (value === undefined || !isShared(key)) return value;
    return decodeShared(key, value).find((row) => compareBytes(row.key, key) === 0)?.value;
  }

  page(begin: Key, end: Key, options: PageOptions): Page<KeyValue> {
    const what = options.lengthsOnly ? "lengths" : "bytes";
    return reading(what, () => this.#page(begin, end, options));
  }

  #page(
    begin: Key,
    end: Key,
    { reverse, rowCountMax, byteCountMax, lengthsOnly }: PageOptions,
  ): Page<KeyValue> {
    const entries: KeyValue[] = [];
    if (compareBytes(begin, end) >= 0) return { entries, stoppedBy: "exhausted" };
    let byteCount = 0;
    const from = storedKey(begin);
    const to = storedEnd(end);
    const { transaction } = this.#shared;
    const range = reverse
      ? { start: to, end: from, reverse, exclusiveStart: true, inclusiveEnd: true, transaction }
      : { start: from, end: to, transaction };
    for (const { key, value } of this.#database.getRange(range)) {
      if (isSharedRecord(key)) {
        const record = lengthsOnly ? this.#sharedRecord(key) : value;
        const rows = decodeShared(key, record).filter(
          (row) => compareBytes(row.key, begin) >= 0 && compareBytes(row.key, end) < 0,
        );
        if (reverse) rows.reverse();
        for (const row of rows) {
          if (entries.length >= rowCountMax) return { entries, stoppedBy: "row-limit" };
          if (byteCount >= byteCountMax) return { entries, stoppedBy: "byte-limit" };
          entries.push(row);
          byteCount += row.key.length + row.value.length;
        }
        continue;
      }
      if (entries.length >= rowCountMax) return { entries, stoppedBy: "row-limit" };
      if (byteCount >= byteCountMax) return { entries, stoppedBy: "byte-limit" };
      entries.push({ key, value });
      byteCount += key.length + value.length;
    }
    return { entries, stoppedBy: "exhausted" };
  }

  #sharedRecord(sharing: Uint8Array): Uint8Array {
    const read = () => this.#database.get(storedKey(sharing), this.#options);
    return reading("bytes", read) ?? NO_ROWS;
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#release(this.#shared);
  }
}

const NO_ROWS = new Uint8Array(0);

/** Yields all rows in key order, about a megabyte per page. Throws KV_UNAVAILABLE. */
export function* pagesOf(
  snapshot: StoreSnapshot,
  directory: string,
): Generator<readonly KeyValue[]> {
  const options = {
    reverse: false,
    rowCountMax: Number.POSITIVE_INFINITY,
    byteCountMax: PAGE_BYTES,
    lengthsOnly: false,
  };
  try {
    for (let begin = FIRST_KEY; ; ) {
      const { entries, stoppedBy } = snapshot.page(begin, BEHIND_LAST_KEY, options);
      if (entries.length > 0) yield entries;
      if (stoppedBy === "exhausted") return;
      begin = keyAfter((entries.at(-1) as KeyValue).key);
    }
  } catch (error) {
    throw unavailable(error, directory);
  }
}

function pagesIn(tree: TreeStatistics): number {
  return tree.treeBranchPageCount + tree.treeLeafPageCount + tree.overflowPages;
}

/**
 * Creates a store from rows. The store is filled under a temporary name, then synced and renamed.
 */
import { existsSync, linkSync, renameSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { open } from "lmdb";
import { type KeyValue, KeyValueError } from "../../kv/index.ts";
import { saveFile, saveFolder } from "../system/files.ts";
import { draftPath, removeDeadDrafts, removeDraft } from "./drafts.ts";
import { asBuffer } from "./encoding.ts";
import { environmentOptions, makeDirectory, openDraft, unavailable } from "./environment.ts";
import {
  DATA_FILE,
  decodeShared,
  encodeShared,
  encodeVersion,
  isShared,
  type LmdbDatabase,
  replaceRow,
  storedKey,
  VERSION_KEY,
} from "./layout.ts";
import { LmdbSnapshots, pagesOf } from "./snapshots.ts";
import { faultOfFile } from "./whole-file.ts";

/**
 * Number of versions skipped by an import: enough for a year with 30,000 commits per second. The
 * old store can have committed versions after its backup. They must precede all versions of the new
 * store, so that readers of the old changes feed miss no changes. About 8,000 restores are
 * possible.
 */
const SKIPPED_VERSION_COUNT = 2 ** 40;

export interface LmdbImportOptions {
  /** Folder of the new store, created if missing. */
  readonly directory: string;
  /** New file name for an existing store. If undefined, an existing store is an error. */
  readonly keepAs?: string | undefined;
}

/**
 * A store being filled from rows, with one transaction per page. `finish` renames the store. Call
 * `close` in a `finally` block.
 */
export class LmdbImport {
  readonly #options: LmdbImportOptions;
  readonly #draft: string;
  /** Folders created for the store, innermost first. */
  readonly #made: readonly string[];
  readonly #database: LmdbDatabase;
  #closed: Promise<void> | undefined;

  /** Throws KV_UNAVAILABLE if an existing store is open or must not be replaced. */
  constructor(options: LmdbImportOptions) {
    const { directory } = options;
    this.#options = options;
    checkPlace(options);
    this.#draft = draftPath(directory);
    try {
      this.#made = makeDirectory(directory);
      removeDeadDrafts(directory);
      this.#database = openDraft(this.#draft);
    } catch (error) {
      removeDraft(this.#draft);
      throw unavailable(error, directory);
    }
  }

  /** Adds rows. Throws KV_UNAVAILABLE with the reason. */
  put(rows: readonly KeyValue[]): void {
    this.#write(() => {
      for (const row of rows) putRow(this.#database, row);
    });
  }

  /** Returns the stored rows in key order. Throws KV_UNAVAILABLE with the reason. */
  *pages(): Generator<readonly KeyValue[]> {
    const snapshot = new LmdbSnapshots(this.#database).take();
    try {
      yield* pagesOf(snapshot, this.#options.directory);
    } finally {
      snapshot.release();
    }
  }

  /**
   * Renames the store into place. `version` is the version at which the rows were read from the
   * original store. Skips `SKIPPED_VERSION_COUNT` versions, because the original store might have
   * committed later ones.
   */
  async finish(version: number): Promise<void> {
    await this.#finishAt(version + SKIPPED_VERSION_COUNT);
  }

  /**
   * Like `finish`, for rows read from the store that this one replaces. `version` is the last
   * version of the replaced store, so no versions are skipped.
   */
  async finishCompacted(version: number): Promise<void> {
    await this.#finishAt(version);
  }

  async #finishAt(version: number): Promise<void> {
    this.#write(() => {
      this.#database.putSync(VERSION_KEY, encodeVersion(version));
    });
    await this.#closeDatabase();
    checkPlace(this.#options);
    const { directory, keepAs } = this.#options;
    const file = join(directory, DATA_FILE);
    try {
      saveFile(this.#draft, "r+");
      if (keepAs !== undefined && existsSync(file)) {
        linkSync(file, join(directory, keepAs));
        renameSync(this.#draft, file);
      } else linkSync(this.#draft, file);
      saveFolder(directory);
    } catch (error) {
      throw unavailable(error, directory);
    }
  }

  /** Deletes the files and folders that were created, unless the store is finished. */
  async close(): Promise<void> {
    await this.#closeDatabase();
    removeDraft(this.#draft);
    try {
      for (const folder of this.#made) rmdirSync(folder);
    } catch {
      // A folder that is not empty is kept.
    }
  }

  #closeDatabase(): Promise<void> {
    this.#closed ??= this.#database.close();
    return this.#closed;
  }

  #write(body: () => void): void {
    try {
      this.#database.transactionSync(body);
    } catch (error) {
      throw unavailable(error, this.#options.directory);
    }
  }
}

function putRow(database: LmdbDatabase, { key, value }: KeyValue): void {
  const stored = storedKey(key);
  if (!isShared(key)) {
    database.putSync(stored, asBuffer(value));
    return;
  }
  const record = database.get(stored);
  const rows = record === undefined ? [] : decodeShared(key, record);
  database.putSync(stored, encodeShared(replaceRow(rows, key, value)));
}

function checkPlace({ directory, keepAs }: LmdbImportOptions): void {
  if (!existsSync(join(directory, DATA_FILE))) return;
  const refuse = (reason: string, isReplaceable = false): never => {
    const details = { reason: `${directory} ${reason}`, directory, isReplaceable };
    throw new KeyValueError("KV_UNAVAILABLE", details);
  };
  if (keepAs === undefined) refuse("already has a store", true);
  if (isOpen(directory))
    refuse("has a store that another process has opened: stop that process first");
}

/**
 * Whether another process has the store open. Such a process holds a reader slot from its first
 * read on. A damaged file counts as not open, because it would crash any process that opens it,
 * including this one.
 */
function isOpen(directory: string): boolean {
  if (faultOfFile(join(directory, DATA_FILE)) !== undefined) return false;
  const store = open({ ...environmentOptions(directory), readOnly: true });
  try {
    store.readerCheck();
    const pids = [...store.readerList().matchAll(/^ *(\d+) /gm)].map(([, pid]) => Number(pid));
    return pids.some((pid) => pid !== process.pid);
  } finally {
    void store.close();
  }
}

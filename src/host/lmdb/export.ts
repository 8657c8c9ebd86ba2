/**
 * Reads a store at one version while other processes use it. The store's file can grow in the
 * meantime.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type KeyValue, KeyValueError } from "../../kv/index.ts";
import { openEnvironment } from "./environment.ts";
import { DATA_FILE } from "./layout.ts";
import { LmdbSnapshots, pagesOf } from "./snapshots.ts";

export interface StoreExport {
  /** Upper bound of the versionstamps in the rows. */
  readonly version: number;
  /** All rows in key order, about a megabyte per page. */
  pages(): Iterable<readonly KeyValue[]>;
  /** Whether nothing has been committed since `version`. */
  isCurrent(): boolean;
  close(): Promise<void>;
}

/**
 * Exports a store, including all commits acknowledged before the call. Throws KV_UNAVAILABLE if
 * there is no readable store.
 */
export function exportLmdbStore(directory: string): StoreExport {
  checkLmdbStore(directory);
  // Opening also applies lost commits after a crash.
  const database = openEnvironment(directory);
  const snapshots = new LmdbSnapshots(database);
  const snapshot = snapshots.take();
  return {
    version: snapshot.version,
    pages: () => pagesOf(snapshot, directory),
    isCurrent: () => snapshots.lastVersion() === snapshot.version,
    async close() {
      snapshot.release();
      await database.close();
    },
  };
}

/** Throws KV_UNAVAILABLE if the folder has no store: opening would create one. */
export function checkLmdbStore(directory: string): void {
  if (existsSync(join(directory, DATA_FILE))) return;
  throw new KeyValueError("KV_UNAVAILABLE", { reason: `${directory} has no store`, directory });
}

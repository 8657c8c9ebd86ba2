/**
 * Reads all of a store at one version, for as long as that takes, beside the processes that use it. Meanwhile LMDB cannot use the
 * pages again that are freed, so the file of a store that is written to grows.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type KeyValue, KeyValueError } from "../../kv/index.ts";
import { openEnvironment } from "./environment.ts";
import { DATA_FILE } from "./layout.ts";
import { LmdbSnapshots, pagesOf } from "./snapshots.ts";

export interface StoreExport {
  /** No versionstamp among the rows is later. */
  readonly version: number;
  /** Every row in order of its key, about a megabyte at a time. */
  pages(): Iterable<readonly KeyValue[]>;
  close(): Promise<void>;
}

/** Has everything that was acknowledged before the call. Throws KV_UNAVAILABLE when there is no store, or none that can be read. */
export function exportLmdbStore(directory: string): StoreExport {
  checkLmdbStore(directory);
  // As any other process that opens the store: it also carries out what a failing machine left undone.
  const database = openEnvironment(directory);
  const snapshot = new LmdbSnapshots(database).take();
  return {
    version: snapshot.version,
    pages: () => pagesOf(snapshot, directory),
    async close() {
      snapshot.release();
      await database.close();
    },
  };
}

/** Throws KV_UNAVAILABLE when the folder has no store: to open it would make one. */
export function checkLmdbStore(directory: string): void {
  if (existsSync(join(directory, DATA_FILE))) return;
  throw new KeyValueError("KV_UNAVAILABLE", { reason: `${directory} has no store`, directory });
}

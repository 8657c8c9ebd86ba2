/**
 * Reads all of a store at one version, for as long as that takes, beside the processes that use it. Meanwhile LMDB cannot use the
 * pages again that are freed, so the file of a store that is written to grows.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import {
  BEHIND_LAST_KEY,
  FIRST_KEY,
  type KeyValue,
  KeyValueError,
  keyAfter,
} from "../../kv/index.ts";
import { openEnvironment, unavailable } from "./environment.ts";
import { DATA_FILE } from "./layout.ts";
import { LmdbSnapshots } from "./snapshots.ts";

export interface StoreExport {
  /** No versionstamp among the rows is later. */
  readonly version: number;
  /** Every row in order of its key, about a megabyte at a time. */
  pages(): Iterable<readonly KeyValue[]>;
  close(): Promise<void>;
}

const PAGE_BYTES = 1_000_000;

/** Has everything that was acknowledged before the call. Throws KV_UNAVAILABLE when there is no store, or none that can be read. */
export function exportLmdbStore(directory: string): StoreExport {
  if (!existsSync(join(directory, DATA_FILE))) {
    throw new KeyValueError("KV_UNAVAILABLE", { reason: `${directory} has no store`, directory });
  }
  // As any other process that opens the store: it also carries out what a failing machine left undone.
  const database = openEnvironment(directory);
  const snapshot = new LmdbSnapshots(database).take();
  return {
    version: snapshot.version,
    *pages() {
      const options = {
        reverse: false,
        rowCountMax: Number.POSITIVE_INFINITY,
        byteCountMax: PAGE_BYTES,
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
    },
    async close() {
      snapshot.release();
      await database.close();
    },
  };
}

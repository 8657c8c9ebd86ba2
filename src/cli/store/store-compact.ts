/**
 * Implements `tandem store compact`: rewrites the embedded store in the order of its keys. The new
 * file has full pages and no free ones. It replaces the old file after the rows of both have been
 * compared.
 */
import { rmSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { equalBytes } from "../../base/index.ts";
import { exportLmdbStore, LmdbImport } from "../../host/index.ts";
import type { KeyValue } from "../../kv/index.ts";
import { ConfigError, readStorePlace, StoreRowsCheck } from "../../server/index.ts";
import { Progress } from "../terminal/progress.ts";

export interface StoreCompactFlags {
  readonly dataDir?: string;
  readonly config?: string;
}

/** LMDB's name for the file. */
const DATA_FILE = "data.mdb";
const OLD_FILE = `old-${DATA_FILE}`;

export async function compactStore({ dataDir, config }: StoreCompactFlags): Promise<void> {
  const { store, dataDirectory } = readStorePlace(
    {
      ...(dataDir === undefined ? {} : { dataDirectory: dataDir }),
      ...(config === undefined ? {} : { configFile: config }),
    },
    process.env,
  );
  if (store !== "lmdb") {
    throw new ConfigError(`the store is ${store}; Tandem can only compact the embedded store`);
  }
  const directory = resolve(dataDirectory);
  const file = join(directory, DATA_FILE);
  const exported = exportLmdbStore(directory);
  const sizeBefore = sizeOf(file);
  let imported: LmdbImport | undefined;
  try {
    imported = new LmdbImport({ directory, keepAs: OLD_FILE });
    // A compaction that was killed might have left this file behind.
    rmSync(join(directory, OLD_FILE), { force: true });
    const progress = new Progress("compacting", process.stderr, "rows");
    let rowCount = 0;
    for (const rows of new StoreRowsCheck(directory).pages(exported.pages())) {
      imported.put(rows);
      rowCount += rows.length;
      progress.show(rowCount, undefined);
    }
    if (!exported.isCurrent()) {
      throw new Error(
        `${directory} was not compacted: a node wrote to it at the same time; stop all nodes first`,
      );
    }
    if (!areSameRows(exported.pages(), imported.pages())) {
      throw new Error(
        `${directory} was not compacted: the compacted copy differs from the store; check the disk`,
      );
    }
    await imported.finishCompacted(exported.version);
    rmSync(join(directory, OLD_FILE));
  } finally {
    await imported?.close();
    await exported.close();
  }
  process.stdout.write(`${directory}: ${sizeBefore} before, ${sizeOf(file)} now\n`);
}

/** Whether two stores have the same rows, regardless of page boundaries. */
export function areSameRows(
  left: Iterable<readonly KeyValue[]>,
  right: Iterable<readonly KeyValue[]>,
): boolean {
  const others = rowsOf(right);
  for (const { key, value } of rowsOf(left)) {
    const other = others.next().value;
    const isSame =
      other !== undefined && equalBytes(key, other.key) && equalBytes(value, other.value);
    if (!isSame) return false;
  }
  return others.next().done === true;
}

function* rowsOf(pages: Iterable<readonly KeyValue[]>): Generator<KeyValue, undefined> {
  for (const rows of pages) yield* rows;
}

function sizeOf(file: string): string {
  return `${(statSync(file).size / 2 ** 20).toFixed(1)} MiB`;
}

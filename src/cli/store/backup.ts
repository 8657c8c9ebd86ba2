/**
 * Implements `tandem backup` and `tandem restore`: writes the embedded store to a file, and creates
 * a store from one.
 */
import { accessSync, constants, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { OperationalError } from "../../base/index.ts";
import {
  type BackupSummary,
  exportLmdbStore,
  LmdbImport,
  readBackup,
  systemClock,
  writeBackup,
} from "../../host/index.ts";
import type { KeyValue } from "../../kv/index.ts";
import { ConfigError, readStorePlace, StoreRowsCheck, VERSION } from "../../server/index.ts";
import { counted } from "../terminal/counted.ts";
import { WrongUse } from "../terminal/wrong-use.ts";

export interface BackupFlags {
  readonly dataDir?: string;
  readonly config?: string;
}

export interface RestoreFlags {
  readonly dataDir: string;
  readonly replace?: boolean;
}

export async function backUp(
  path: string,
  { dataDir, config: configFile }: BackupFlags,
): Promise<void> {
  const { store, dataDirectory } = readStorePlace(
    {
      ...(dataDir === undefined ? {} : { dataDirectory: dataDir }),
      ...(configFile === undefined ? {} : { configFile }),
    },
    process.env,
  );
  if (store !== "lmdb") {
    throw new ConfigError(`the store is ${store}; Tandem can only back up the embedded store`);
  }
  const madeAtMs = systemClock.nowMs();
  const file = isFolder(path) ? join(path, `tandem-${timeName(madeAtMs)}.backup`) : path;
  const exported = exportLmdbStore(resolve(dataDirectory));
  try {
    const head = { madeAtMs, program: VERSION, version: exported.version };
    const checked = new StoreRowsCheck(resolve(dataDirectory)).pages(exported.pages());
    print(file, await writeBackup(file, head, checked));
  } finally {
    await exported.close();
  }
}

export async function verifyBackup(file: string): Promise<void> {
  const check = new StoreRowsCheck(file);
  const summary = await readBackup(file, { rows: (rows) => check.add(rows) });
  check.end();
  print(file, summary);
}

export async function restore(file: string, { dataDir, replace }: RestoreFlags): Promise<void> {
  if (dataDir === "") throw new WrongUse("--data-dir is empty; expected a folder");
  // Reports a mistyped file name before a store is created.
  accessSync(file, constants.R_OK);
  const keepAs = `replaced-${timeName(systemClock.nowMs())}.mdb`;
  const imported = openImport(dataDir, replace === true ? keepAs : undefined);
  try {
    const check = new StoreRowsCheck(file);
    const rows = (page: readonly KeyValue[]): void => {
      check.add(page);
      imported.put(page);
    };
    const summary = await readBackup(file, { rows });
    check.end();
    await imported.finish(summary.version);
    print(file, summary);
  } finally {
    await imported.close();
  }
}

function openImport(dataDir: string, keepAs: string | undefined): LmdbImport {
  try {
    return new LmdbImport({ directory: resolve(dataDir), keepAs });
  } catch (error) {
    if (!(error instanceof OperationalError) || error.details.isReplaceable !== true) throw error;
    throw new Error(
      `${resolve(dataDir)} already has a store, and nothing was restored; choose another --data-dir, or use --replace, which keeps the old store's file next to the new one`,
      { cause: error },
    );
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** Time for file names, such as `20261123T101500Z`; valid on every file system. */
function timeName(timeMs: number): string {
  return new Date(timeMs).toISOString().replace(/[-:]|\.\d+/g, "");
}

function print(file: string, { madeAtMs, program, rowCount, byteCount }: BackupSummary): void {
  const madeAt = new Date(madeAtMs).toISOString();
  process.stdout.write(
    `${file}: made at ${madeAt} by Tandem ${program}, ${counted(rowCount, "row")}, ${counted(byteCount, "byte")}, complete\n`,
  );
}

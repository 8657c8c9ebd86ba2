/**
 * Opens LMDB with the required options, and translates its errors into errors of the `kv` layer.
 */
import { chmodSync, copyFileSync, existsSync, linkSync, mkdirSync, statfsSync } from "node:fs";
import { dirname, join } from "node:path";
import { open } from "lmdb";
import { errorCode } from "../../base/index.ts";
import { KeyValueError } from "../../kv/index.ts";
import { saveFile, saveFolder } from "../system/files.ts";
import { copyOf, draftPath, removeDraft } from "./drafts.ts";
import { keyEncoder, valueEncoder } from "./encoding.ts";
import { DATA_FILE, FORMAT_KEY, FORMAT_VERSION, type LmdbDatabase, PAGE_BYTES } from "./layout.ts";
import { redoLostCommits } from "./redo.ts";
import { faultOfFile } from "./whole-file.ts";

/**
 * Virtual address space of the map. The file grows as needed. A large map never has to be moved
 * while other processes read. If the address space is unavailable, a smaller map is used, and LMDB
 * grows it.
 */
const MAP_BYTES = 2 ** 40;

/** Reader slots for all processes together. Fixed when the store is created; 64 bytes each. */
const READER_COUNT_MAX = 4_096;

/** Readable only by the owner, because documents are not encrypted. */
const FILE_MODE = 0o600;

export function openEnvironment(directory: string, mapBytes: number = MAP_BYTES): LmdbDatabase {
  try {
    makeDirectory(directory);
    const options = environmentOptions(directory, mapBytes);
    makeFile(directory, options);
    checkFile(directory);
    const database = open<Uint8Array, Buffer>(options);
    // LMDB does not sync the directory entries of its files.
    saveFolder(directory);
    checkFormat(database, directory);
    redoLostCommits(database, directory);
    return database;
  } catch (error) {
    throw unusable(error, directory) ?? unavailable(error, directory);
  }
}

/** LMDB options for the store at `path`. */
export function environmentOptions(path: string, mapBytes: number = MAP_BYTES) {
  // A function returns the options, because TypeScript would reject the encoders in an object
  // literal passed to `open`. They are documented, but missing from lmdb's type declarations.
  return {
    path,
    // `path` is a folder. By default, a path with a dot in its last segment would denote a file.
    noSubdir: false,
    keyEncoder,
    encoding: "binary" as const,
    encoder: valueEncoder,
    pageSize: PAGE_BYTES,
    // Overlapping syncs would make commits visible before they are durable.
    overlappingSync: false,
    maxReaders: READER_COUNT_MAX,
    mapSize: mapBytes,
  };
}

/** Opens a new store in a private file without syncing. The caller must sync and rename it. */
export function openDraft(file: string): LmdbDatabase {
  const options = { ...environmentOptions(file), noSubdir: true, noSync: true };
  const database = open<Uint8Array, Buffer>(options);
  chmodSync(file, FILE_MODE);
  checkFormat(database, file);
  return database;
}

/** Error codes of a folder that an operator has to fix. */
const FOLDER_CODES: ReadonlySet<unknown> = new Set([
  ...["EACCES", "EEXIST", "ELOOP", "ENAMETOOLONG", "ENOENT", "ENOTDIR", "EPERM", "EROFS"],
  // LMDB's numeric codes.
  13,
  30,
]);

/** Returns KV_UNUSABLE if the folder cannot be created or written; otherwise undefined. */
function unusable(error: unknown, directory: string): KeyValueError | undefined {
  const { code, syscall, message } = error as NodeJS.ErrnoException;
  if (!FOLDER_CODES.has(code) || isDiskFull(error, directory)) return undefined;
  const what = syscall === "mkdir" ? "made" : "written";
  const reason = `the data folder ${directory} cannot be ${what} (${message}): choose another folder with --data-dir, or give this user write access`;
  return new KeyValueError("KV_UNUSABLE", { reason, directory }, { cause: error });
}

/**
 * Returns a KV_UNAVAILABLE error for system failures; returns errors of the `kv` layer unchanged.
 */
export function unavailable(error: unknown, directory: string): Error {
  if (errorCode(error) !== undefined) return error as Error;
  return new KeyValueError(
    "KV_UNAVAILABLE",
    { reason: reasonOf(error, directory), directory },
    { cause: error },
  );
}

/** Whether LMDB has failed permanently in this process, because it could not write a root. */
export function isGivenUp(error: unknown): boolean {
  return error instanceof Error && error.message.includes("MDB_PANIC");
}

export const GIVEN_UP_REASON =
  "LMDB failed to write its root page and closed the store for this process; restart the process";

export function reasonOf(error: unknown, directory: string): string {
  const message = error instanceof Error ? error.message : String(error);
  if (isGivenUp(error)) return GIVEN_UP_REASON;
  if (isForbidden(error)) return `the folder cannot be written (${message})`;
  if (isDiskFull(error, directory)) return `the disk is full (${message})`;
  return message;
}

/** Whether writing is not permitted, as on a read-only file system. */
function isForbidden(error: unknown): boolean {
  const { code, message } = error as { readonly code?: unknown; readonly message?: string };
  return (
    code === 13 || code === 30 || /EACCES|EROFS|Permission denied|Read-only/.test(message ?? "")
  );
}

/** Free space below which any failure is attributed to a full disk. */
const FULL_BYTES = 1_000_000;

/** Whether the failure was caused by a full disk. */
export function isDiskFull(error: unknown, directory: string): boolean {
  if (isGivenUp(error) || isForbidden(error)) return false;
  const { code, message } = error as { readonly code?: unknown; readonly message?: string };
  if (code === 28 || /ENOSPC|No space left/.test(message ?? "")) return true;
  // On a full disk, LMDB can report a partially written page as an I/O error.
  return freeBytes(directory) < FULL_BYTES;
}

/** Free bytes on the disk; infinite if unknown. */
export function freeBytes(directory: string): number {
  try {
    const { bavail, bsize } = statfsSync(directory);
    return bavail * bsize;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/**
 * Creates and syncs the folder and its missing parents. Returns the created folders, innermost
 * first.
 */
export function makeDirectory(directory: string): readonly string[] {
  const missing: string[] = [];
  for (let folder = directory; !existsSync(folder); folder = dirname(folder)) missing.push(folder);
  // Creates folders individually, because the recursive mkdir of Node.js never returns in folders
  // such as /proc.
  for (const folder of missing.toReversed()) makeIfMissing(folder);
  const first = missing.at(-1);
  if (first !== undefined) saveFolders(dirname(first), dirname(directory));
  return missing;
}

function makeIfMissing(folder: string): void {
  try {
    mkdirSync(folder);
  } catch (error) {
    // EEXIST: another process might have created the folder.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

/**
 * Creates a store under a temporary name, syncs and renames it. LMDB does not sync its initial
 * roots, and a process that opens a file with a torn root is terminated.
 */
function makeFile(directory: string, options: Parameters<typeof open>[0]): void {
  const file = join(directory, DATA_FILE);
  if (existsSync(file)) return;
  const draft = draftPath(directory);
  const copy = copyOf(draft);
  try {
    const database = open<Uint8Array, Buffer>({ ...options, path: draft, noSubdir: true });
    checkFormat(database, directory);
    // The draft is copied, not renamed: it is not closed immediately, and LMDB identifies files by
    // inode.
    copyFileSync(draft, copy);
    chmodSync(copy, FILE_MODE);
    // The draft is no longer used and is deleted below, so it does not matter if closing it fails.
    database.close().catch(() => undefined);
    saveFile(copy, "r+");
    linkSync(copy, file);
  } catch (error) {
    // EEXIST: another process might have created the store.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    removeDraft(draft);
  }
}

/**
 * Throws KV_UNUSABLE for a damaged file that would crash LMDB, or that LMDB would treat as a new
 * store.
 */
function checkFile(directory: string): void {
  const file = join(directory, DATA_FILE);
  const fault = faultOfFile(file);
  if (fault === undefined) return;
  throw new KeyValueError("KV_UNUSABLE", {
    reason: `${file} is not a complete store (${fault}): restore a backup (docs/backup.md), or move the file away to start with an empty store`,
    directory,
  });
}

/** Syncs the folders from `outer` to `inner`. */
function saveFolders(outer: string, inner: string): void {
  if (inner !== outer) saveFolders(outer, dirname(inner));
  saveFolder(inner);
}

function checkFormat(database: LmdbDatabase, directory: string): void {
  const stored = database.get(FORMAT_KEY)?.[0];
  if (stored === FORMAT_VERSION) return;
  if (stored !== undefined) {
    throw new KeyValueError("KV_UNUSABLE", {
      reason: `the store has format ${stored}, but this program writes format ${FORMAT_VERSION}: install a newer Tandem, or restore the backup`,
      directory,
    });
  }
  database.transactionSync(() => {
    // Another process might have written the format in the meantime.
    if (database.get(FORMAT_KEY) === undefined) {
      database.putSync(FORMAT_KEY, Buffer.from([FORMAT_VERSION]));
    }
  });
}

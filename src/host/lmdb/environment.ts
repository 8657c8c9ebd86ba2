/** Opens LMDB with the options that its tests need, and translates its failures into this layer's errors. */
import { randomUUID } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  rmSync,
  statfsSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { open } from "lmdb";
import { errorCode } from "../../base/index.ts";
import { KeyValueError } from "../../kv/index.ts";
import { saveFile, saveFolder } from "../system/files.ts";
import { keyEncoder, valueEncoder } from "./encoding.ts";
import { DATA_FILE, FORMAT_KEY, FORMAT_VERSION, type LmdbDatabase, PAGE_BYTES } from "./layout.ts";
import { redoLostCommits } from "./redo.ts";
import { faultOfFile } from "./whole-file.ts";

/**
 * Address space, not memory and not disk: the file grows as it is filled, and the map behind it never has to move while
 * others read. Where so much address space cannot be had, a smaller map is taken, and LMDB grows it.
 */
const MAP_BYTES = 2 ** 40;

/** Slots for snapshots that are held at once, by all processes together. Fixed when the store is created; 64 bytes each. */
const READER_COUNT_MAX = 4_096;

/** Documents are not sealed: their owner alone reads them. */
const FILE_MODE = 0o600;

export function openEnvironment(directory: string, mapBytes: number = MAP_BYTES): LmdbDatabase {
  try {
    makeDirectory(directory);
    const options = environmentOptions(directory, mapBytes);
    makeFile(directory, options);
    checkFile(directory);
    const database = open<Uint8Array, Buffer>(options);
    // LMDB puts what is in its files on the disk, not that they are there.
    saveFolder(directory);
    checkFormat(database, directory);
    redoLostCommits(database, directory);
    return database;
  } catch (error) {
    throw unusable(error, directory) ?? unavailable(error, directory);
  }
}

/** What LMDB is told to open the store at `path`. */
export function environmentOptions(path: string, mapBytes: number = MAP_BYTES) {
  // Not passed as a literal: the declarations of lmdb lack the encoders that its manual describes.
  return {
    path,
    // By itself it takes a path with a dot in its last name for that of a file.
    noSubdir: false,
    keyEncoder,
    encoding: "binary" as const,
    encoder: valueEncoder,
    pageSize: PAGE_BYTES,
    // With it a commit would be seen by others before it is on the disk.
    overlappingSync: false,
    maxReaders: READER_COUNT_MAX,
    mapSize: mapBytes,
  };
}

/**
 * A new store in a file of its own, which nobody else knows: it waits for no disk. Who has filled and closed it puts the file on the
 * disk and gives it its name.
 */
export function openDraft(file: string): LmdbDatabase {
  const options = { ...environmentOptions(file), noSubdir: true, noSync: true };
  const database = open<Uint8Array, Buffer>(options);
  chmodSync(file, FILE_MODE);
  checkFormat(database, file);
  return database;
}

/** What the system says of a folder that an operator has to make usable. */
const FOLDER_CODES: ReadonlySet<unknown> = new Set([
  ...["EACCES", "EEXIST", "ELOOP", "ENAMETOOLONG", "ENOENT", "ENOTDIR", "EPERM", "EROFS"],
  // LMDB's.
  13,
  30,
]);

/** A folder that can neither be made nor written, as KV_UNUSABLE; undefined for anything else. */
function unusable(error: unknown, directory: string): KeyValueError | undefined {
  const { code, syscall, message } = error as NodeJS.ErrnoException;
  if (!FOLDER_CODES.has(code) || isDiskFull(error, directory)) return undefined;
  const what = syscall === "mkdir" ? "made" : "written";
  const reason = `the data folder ${directory} cannot be ${what} (${message}): choose another with --data-dir, or let this user write there`;
  return new KeyValueError("KV_UNUSABLE", { reason, directory }, { cause: error });
}

/** A failure of the machine as KV_UNAVAILABLE; errors of this layer stay what they are. */
export function unavailable(error: unknown, directory: string): Error {
  if (errorCode(error) !== undefined) return error as Error;
  return new KeyValueError(
    "KV_UNAVAILABLE",
    { reason: reasonOf(error, directory), directory },
    { cause: error },
  );
}

/** Whether LMDB has given up the environment: it could not write a root, and serves no thread of this process any more. */
export function isGivenUp(error: unknown): boolean {
  return error instanceof Error && error.message.includes("MDB_PANIC");
}

export const GIVEN_UP_REASON =
  "LMDB could not write its root and has given the store up for this process, which has to be started again";

export function reasonOf(error: unknown, directory: string): string {
  const message = error instanceof Error ? error.message : String(error);
  if (isGivenUp(error)) return GIVEN_UP_REASON;
  if (isForbidden(error)) return `the folder cannot be written (${message})`;
  if (isDiskFull(error, directory)) return `the disk is full (${message})`;
  return message;
}

/** Whether the system forbids to write there, as it does where a file system is mounted read-only. */
function isForbidden(error: unknown): boolean {
  const { code, message } = error as { readonly code?: unknown; readonly message?: string };
  return (
    code === 13 || code === 30 || /EACCES|EROFS|Permission denied|Read-only/.test(message ?? "")
  );
}

/** With less than one group may take, whatever fails fails for want of room. */
const FULL_BYTES = 1_000_000;

/** Whether something failed for want of room. */
export function isDiskFull(error: unknown, directory: string): boolean {
  if (isGivenUp(error) || isForbidden(error)) return false;
  const { code, message } = error as { readonly code?: unknown; readonly message?: string };
  if (code === 28 || /ENOSPC|No space left/.test(message ?? "")) return true;
  // LMDB calls a page that was written by half an error of input or output.
  return freeBytes(directory) < FULL_BYTES;
}

/** The room that is left; without a bound where the system does not tell. */
export function freeBytes(directory: string): number {
  try {
    const { bavail, bsize } = statfsSync(directory);
    return bavail * bsize;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** Makes the folder and those above it that are missing, and puts them on the disk. Returns those that were made, the innermost first. */
export function makeDirectory(directory: string): readonly string[] {
  const missing: string[] = [];
  for (let folder = directory; !existsSync(folder); folder = dirname(folder)) missing.push(folder);
  // One after the other: where folders cannot be made, as below /proc, Node.js tries all at once for ever.
  for (const folder of missing.toReversed()) makeIfMissing(folder);
  const first = missing.at(-1);
  if (first !== undefined) saveFolders(dirname(first), dirname(directory));
  return missing;
}

function makeIfMissing(folder: string): void {
  try {
    mkdirSync(folder);
  } catch (error) {
    // Another process may have been faster.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

/**
 * A new store gets its name when it is whole and on the disk. LMDB writes its first roots without waiting for the disk, and ends the
 * process that opens a file in which a failing machine left one of them.
 */
function makeFile(directory: string, options: Parameters<typeof open>[0]): void {
  const file = join(directory, DATA_FILE);
  if (existsSync(file)) return;
  const draft = join(directory, `new-${randomUUID()}`);
  const copy = `${draft}-copy`;
  try {
    const database = open<Uint8Array, Buffer>({ ...options, path: draft, noSubdir: true });
    checkFormat(database, directory);
    // LMDB takes files for one another by their number, and this one is not closed at once.
    copyFileSync(draft, copy);
    chmodSync(copy, FILE_MODE);
    // Nothing is read from the draft any more, and its files go below.
    database.close().catch(() => undefined);
    saveFile(copy, "r+");
    linkSync(copy, file);
  } catch (error) {
    // Another process may have been faster.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    for (const each of [draft, `${draft}-lock`, copy]) rmSync(each, { force: true });
  }
}

/** Throws KV_UNUSABLE for a file with which LMDB would end the process, or that it would take for a new store. */
function checkFile(directory: string): void {
  const file = join(directory, DATA_FILE);
  const fault = faultOfFile(file);
  if (fault === undefined) return;
  throw new KeyValueError("KV_UNUSABLE", {
    reason: `${file} is no whole store (${fault}): restore a backup (docs/backup.md), or move the file away for a new store`,
    directory,
  });
}

/** Puts on the disk what the folders hold, from the outer to the inner one. */
function saveFolders(outer: string, inner: string): void {
  if (inner !== outer) saveFolders(outer, dirname(inner));
  saveFolder(inner);
}

function checkFormat(database: LmdbDatabase, directory: string): void {
  const stored = database.get(FORMAT_KEY)?.[0];
  if (stored === FORMAT_VERSION) return;
  if (stored !== undefined) {
    throw new KeyValueError("KV_UNUSABLE", {
      reason: `the store has format ${stored}, this program writes format ${FORMAT_VERSION}: install a newer Tandem, or restore the backup`,
      directory,
    });
  }
  database.transactionSync(() => {
    // Another process may have been faster.
    if (database.get(FORMAT_KEY) === undefined) {
      database.putSync(FORMAT_KEY, Buffer.from([FORMAT_VERSION]));
    }
  });
}

/** Backup files: written under a temporary name until complete and synced, and read in blocks. */
import { randomUUID } from "node:crypto";
import { existsSync, linkSync, rmSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { dirname } from "node:path";
import { OperationalError } from "../../base/index.ts";
import type { KeyValue } from "../../kv/index.ts";
import { saveFolder } from "../system/files.ts";
import {
  type BackupBlock,
  BackupDamagedError,
  type BackupEnd,
  type BackupHead,
  BLOCK_HEAD_BYTES,
  BlockDecoder,
  BlockEncoder,
  DIGEST_BYTES,
  MAGIC,
  PAYLOAD_BYTES_MAX,
} from "./format.ts";

/**
 * Readable only by the owner, because the file contains all passwords and the secret that signs
 * sessions.
 */
const FILE_MODE = 0o600;

/**
 * Number of bytes after which a file being written is synced. Otherwise the system would write
 * gigabytes at once, and the commits of a store on the same disk would wait
 * (`bench/large/operations.mjs`).
 */
const SYNC_BYTES = 8 * 1024 * 1024;

export type BackupSummary = BackupHead & BackupEnd;

/**
 * Receives the contents of a backup while it is read. The contents are not verified until
 * `readBackup` resolves.
 */
export interface BackupVisitor {
  head?(head: BackupHead): void;
  rows?(rows: readonly KeyValue[]): void;
}

/**
 * Writes `pages`, whose keys are in order, then verifies the file and renames it. A failed backup
 * leaves no file. Rejects with BACKUP_NOT_WRITTEN and the reason.
 */
export async function writeBackup(
  path: string,
  head: BackupHead,
  pages: Iterable<readonly KeyValue[]>,
): Promise<BackupSummary> {
  if (existsSync(path)) throw notWritten(`${path} exists`);
  const draft = `${path}.${randomUUID()}.partial`;
  try {
    await writeDraft(draft, head, pages);
    const summary = await readBackup(draft, {});
    // Unlike a rename, a hard link never replaces a file created meanwhile.
    linkSync(draft, path);
    rmSync(draft);
    saveFolder(dirname(path));
    return summary;
  } catch (error) {
    if (error instanceof OperationalError) throw error;
    if ((error as NodeJS.ErrnoException).code === "EEXIST")
      throw notWritten(`${path} exists`, error);
    throw notWritten(reasonOf(error), error);
  } finally {
    rmSync(draft, { force: true });
  }
}

async function writeDraft(
  path: string,
  head: BackupHead,
  pages: Iterable<readonly KeyValue[]>,
): Promise<void> {
  const file = await open(path, "wx", FILE_MODE);
  try {
    const encoder = new BlockEncoder();
    let unsyncedBytes = 0;
    const write = async (block: BackupBlock): Promise<void> => {
      const bytes = encoder.encode(block);
      await file.appendFile(bytes);
      unsyncedBytes += bytes.length;
      if (unsyncedBytes < SYNC_BYTES) return;
      await file.datasync();
      unsyncedBytes = 0;
    };
    await file.appendFile(MAGIC);
    await write({ kind: "head", head });
    const counted = new RowCounter();
    for (const rows of pages) {
      counted.add(rows);
      await write({ kind: "rows", rows });
    }
    await write({ kind: "end", end: counted.end });
    await file.sync();
  } finally {
    await file.close();
  }
}

/**
 * Reads a backup. Rejects with BACKUP_DAMAGED, or with the system's error if the file cannot be
 * opened.
 */
export async function readBackup(path: string, visitor: BackupVisitor): Promise<BackupSummary> {
  const file = await open(path, "r");
  try {
    if ((await file.stat()).isDirectory()) throw new NotAFileError(path);
    return await readBlocks(file, visitor);
  } finally {
    await file.close();
  }
}

class NotAFileError extends OperationalError {
  constructor(path: string) {
    super("BACKUP_NOT_A_FILE", "The backup cannot be read", { reason: `${path} is a folder` });
  }
}

async function readBlocks(file: FileHandle, visitor: BackupVisitor): Promise<BackupSummary> {
  if (!(await readBytes(file, MAGIC.length)).equals(MAGIC)) {
    throw new BackupDamagedError("the file does not have a known backup format");
  }
  const decoder = new BlockDecoder();
  const counted = new RowCounter();
  let head: BackupHead | undefined;
  for (;;) {
    const block = await readBlock(file, decoder);
    if (head === undefined) {
      if (block.kind !== "head") throw new BackupDamagedError("the file has no header");
      head = block.head;
      visitor.head?.(head);
    } else if (block.kind === "rows") {
      counted.add(block.rows);
      visitor.rows?.(block.rows);
    } else if (block.kind === "end") {
      await checkEnd(file, block.end, counted.end);
      return { ...head, ...block.end };
    } else throw new BackupDamagedError("the file has more than one header");
  }
}

async function checkEnd(file: FileHandle, told: BackupEnd, found: BackupEnd): Promise<void> {
  if (told.rowCount !== found.rowCount || told.byteCount !== found.byteCount) {
    throw new BackupDamagedError(`the file has ${found.rowCount} rows instead of ${told.rowCount}`);
  }
  const { bytesRead } = await file.read(Buffer.alloc(1), 0, 1);
  if (bytesRead > 0) throw new BackupDamagedError("there is data after the end block");
}

async function readBlock(file: FileHandle, decoder: BlockDecoder): Promise<BackupBlock> {
  const head = await readBytes(file, BLOCK_HEAD_BYTES);
  const payloadBytes = head.readUInt32BE();
  if (payloadBytes > PAYLOAD_BYTES_MAX) {
    throw new BackupDamagedError("a block exceeds the maximum length");
  }
  return decoder.decode(head, await readBytes(file, payloadBytes + DIGEST_BYTES));
}

async function readBytes(file: FileHandle, byteCount: number): Promise<Buffer> {
  const bytes = Buffer.alloc(byteCount);
  let length = 0;
  while (length < byteCount) {
    const { bytesRead } = await file.read(bytes, length, byteCount - length);
    if (bytesRead === 0) throw new BackupDamagedError("the file is truncated");
    length += bytesRead;
  }
  return bytes;
}

class RowCounter {
  #rowCount = 0;
  #byteCount = 0;

  add(rows: readonly KeyValue[]): void {
    this.#rowCount += rows.length;
    for (const { key, value } of rows) this.#byteCount += key.length + value.length;
  }

  get end(): BackupEnd {
    return { rowCount: this.#rowCount, byteCount: this.#byteCount };
  }
}

function notWritten(reason: string, cause?: unknown): OperationalError {
  const message = "The backup could not be written";
  return new OperationalError("BACKUP_NOT_WRITTEN", message, { reason }, { cause });
}

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code === "ENOSPC" ? `the disk is full (${message})` : message;
}

/**
 * Contents that a file can have after a failure of the machine, computed from a record of the
 * operations. The operating system caches pages of 4,096 bytes. A successful sync writes all dirty
 * pages to disk. A failed sync writes some of them, and the system treats the others as written.
 * Between syncs the system can write any pages. A page that is being written when the machine fails
 * is on disk in part, in sectors of 512 bytes.
 */
import type { DiskEntry } from "./recorded-disk.ts";

const PAGE_BYTES = 4_096;
const SECTOR_BYTES = 512;

/** Random source for the decisions that a disk makes by itself. */
export interface Chance {
  /** Returns a number of at least 0 and below 1. */
  ratio(): number;
}

export class SimulatedDisk {
  readonly #chance: Chance;
  /** Content of the file as processes see it. */
  #file: Buffer = Buffer.alloc(0);
  /** Content of the file on the disk. */
  #disk: Buffer = Buffer.alloc(0);
  /** Numbers of the dirty pages. */
  readonly #changed = new Set<number>();

  constructor(chance: Chance) {
    this.#chance = chance;
  }

  take(entry: DiskEntry): void {
    switch (entry.kind) {
      case "write":
        this.#write(entry);
        break;
      case "present":
        this.#write(entry);
        this.#flushAll();
        break;
      case "sync":
        this.#flushAll();
        break;
      case "range-sync":
        this.#settle(pagesOf(entry), () => true);
        break;
      case "sync-failed":
        this.#settle([...this.#changed], () => this.#toss());
        break;
      case "range-sync-failed":
        this.#settle(pagesOf(entry), () => this.#toss());
        break;
      case "note":
      case "folder-sync":
        break;
    }
  }

  /**
   * Returns possible contents of the file after a failure at this time. Repeated calls may return
   * different contents.
   */
  imageAfterFailure(): Buffer {
    const image = Buffer.from(this.#disk);
    const keptRatio = this.#keptRatio();
    for (const page of this.#changed) {
      const isTorn = this.#toss();
      const isKept = this.#chance.ratio() < keptRatio;
      const step = isTorn ? SECTOR_BYTES : PAGE_BYTES;
      const end = Math.min((page + 1) * PAGE_BYTES, this.#file.length);
      for (let at = page * PAGE_BYTES; at < end; at += step) {
        if (isTorn ? this.#chance.ratio() < keptRatio : isKept) {
          this.#file.copy(image, at, at, Math.min(at + step, end));
        }
      }
    }
    return image;
  }

  /** Returns the fraction of pages that reach the disk. In half of the cases, this is 0 or 1. */
  #keptRatio(): number {
    return Math.min(1, Math.max(0, this.#chance.ratio() * 2 - 0.5));
  }

  #write({ offset, bytes }: DiskEntry): void {
    const length = Math.max(this.#file.length, offset + bytes.length);
    this.#file = grown(this.#file, length);
    this.#disk = grown(this.#disk, length);
    // The operating system writes some pages at times of its choice, including pages that are about
    // to change again.
    for (const page of this.#changed) if (this.#chance.ratio() < 0.02) this.#flush(page);
    bytes.copy(this.#file, offset);
    for (const page of pagesOf({ offset, byteCount: bytes.length })) this.#changed.add(page);
  }

  #flushAll(): void {
    for (const page of this.#changed) this.#flush(page);
    this.#changed.clear();
  }

  #settle(pages: readonly number[], isWritten: () => boolean): void {
    for (const page of pages) {
      if (!this.#changed.delete(page)) continue;
      if (isWritten()) this.#flush(page);
    }
  }

  #flush(page: number): void {
    const begin = page * PAGE_BYTES;
    this.#file.copy(this.#disk, begin, begin, Math.min(begin + PAGE_BYTES, this.#file.length));
  }

  #toss(): boolean {
    return this.#chance.ratio() < 0.5;
  }
}

function pagesOf({ offset, byteCount }: { offset: number; byteCount: number }): number[] {
  const first = Math.floor(offset / PAGE_BYTES);
  const end = Math.ceil((offset + byteCount) / PAGE_BYTES);
  return Array.from({ length: end - first }, (_, index) => first + index);
}

function grown(bytes: Buffer, length: number): Buffer {
  return bytes.length >= length
    ? bytes
    : Buffer.concat([bytes, Buffer.alloc(length - bytes.length)]);
}

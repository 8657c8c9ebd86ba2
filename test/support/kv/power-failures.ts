/**
 * Possible file contents after a machine failure, computed from a record of the operations. The
 * system caches pages of 4,096 bytes. A successful sync writes all dirty pages to disk; a failed
 * one writes some, and the system treats the others as written. Between syncs it writes any pages,
 * and a page being written at the failure is on disk in part, by sectors of 512 bytes.
 */
import type { DiskEntry } from "./recorded-disk.ts";

const PAGE_BYTES = 4_096;
const SECTOR_BYTES = 512;

/** Random source for the disk's own decisions. */
export interface Chance {
  /** Returns a number from 0 to below 1. */
  ratio(): number;
}

export class SimulatedDisk {
  readonly #chance: Chance;
  /** Contents as processes see them. */
  #file: Buffer = Buffer.alloc(0);
  /** Contents on the disk. */
  #disk: Buffer = Buffer.alloc(0);
  /** Numbers of dirty pages. */
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

  /** A possible file content after a failure now. Repeated calls may return different ones. */
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

  /** Returns the fraction of pages that reach the disk. In half of the cases it is 0 or 1. */
  #keptRatio(): number {
    return Math.min(1, Math.max(0, this.#chance.ratio() * 2 - 0.5));
  }

  #write({ offset, bytes }: DiskEntry): void {
    const length = Math.max(this.#file.length, offset + bytes.length);
    this.#file = grown(this.#file, length);
    this.#disk = grown(this.#disk, length);
    // The system writes some pages on its own, including those about to change again.
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

/**
 * Two times that a process shares with its child and its threads: when the last successful renewal of a lease began,
 * and when the process was last seen alive. They are in a file without a name and are read without waiting, so neither
 * a busy event loop nor a queue of messages delays them. All use one clock, the machine's monotonic one.
 */
import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export type SharedTime = "renewed" | "alive";

const PLACES: Readonly<Record<SharedTime, number>> = { renewed: 0, alive: 8 };
const TIME_BYTES = 8;

export class SharedTimes {
  /** Of the open file; a child may know it by another number. */
  readonly descriptor: number;

  constructor(descriptor: number) {
    this.descriptor = descriptor;
  }

  /** A new file, which is gone when the last process has closed it. */
  static create(): SharedTimes {
    const folder = mkdtempSync(join(tmpdir(), "tandem-lease-"));
    try {
      return new SharedTimes(openSync(join(folder, "times"), "wx+"));
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  /** How long ago that was. A time that was never set is as old as the machine. */
  ageMs(time: SharedTime): number {
    const bytes = Buffer.alloc(TIME_BYTES);
    readSync(this.descriptor, bytes, 0, TIME_BYTES, PLACES[time]);
    return Number(process.hrtime.bigint() - bytes.readBigInt64LE()) / 1e6;
  }

  setAge(time: SharedTime, ageMs: number): void {
    const bytes = Buffer.alloc(TIME_BYTES);
    bytes.writeBigInt64LE(process.hrtime.bigint() - BigInt(Math.ceil(ageMs * 1e6)));
    writeSync(this.descriptor, bytes, 0, TIME_BYTES, PLACES[time]);
  }

  close(): void {
    closeSync(this.descriptor);
  }
}

/**
 * Two times shared by a process, its threads and its child: the start of the last successful lease
 * renewal, and the process's last heartbeat. They are read synchronously from an unlinked file, so
 * that neither a busy event loop nor message queues delay the reader. Both use the machine's
 * monotonic clock.
 */
import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export type SharedTime = "renewed" | "alive";

const PLACES: Readonly<Record<SharedTime, number>> = { renewed: 0, alive: 8 };
const TIME_BYTES = 8;

export class SharedTimes {
  /**
   * Descriptor of the open file in this process. A child process may inherit it under another
   * number.
   */
  readonly descriptor: number;

  constructor(descriptor: number) {
    this.descriptor = descriptor;
  }

  /** Creates a file that is deleted when the last process closes it. */
  static create(): SharedTimes {
    const folder = mkdtempSync(join(tmpdir(), "tandem-lease-"));
    try {
      return new SharedTimes(openSync(join(folder, "times"), "wx+"));
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  /** Age in milliseconds. The age of a time that was never set is the machine's uptime. */
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

/**
 * LMDB on a disk with temporary failures. Data of a failed sync can be lost silently, because the
 * operating system treats the data as written. Even if the machine then fails, the store has all
 * acknowledged commits and no refused ones.
 */
import { dirname } from "node:path";
import { expect, test } from "vitest";
import { SeededRandom } from "../simulation/kernel/seeded-random.ts";
import { inspect } from "../support/kv/image-check.ts";
import {
  canRecordDisks,
  type Operation,
  RecordedDisk,
  type Writer,
} from "../support/kv/recorded-disk.ts";
import { withDirectory } from "../support/with-directory.ts";

const DISK_COUNT = 14;

/** A transaction that is too large for a redo record. */
const LARGE: readonly Operation[] = [{ kind: "set", key: "row", byteCount: 6_000 }];
const SMALL: readonly Operation[] = [{ kind: "set", key: "row", byteCount: 300 }];

test.skipIf(!canRecordDisks)(
  "an acknowledged commit survives a failure of the machine after a failure of the disk",
  async () => {
    await withDisk(async (disk) => {
      const writer = await disk.open();
      await writeSome(writer, 4);
      const firstIndex = disk.entries().length;
      disk.fail({ syncs: 1 });
      expect(await writer.write(SMALL)).toMatchObject({ outcome: "KV_UNAVAILABLE" });
      expect(await writeSome(writer, 3)).toEqual(["committed", "committed", "committed"]);
      await disk.close();
      expect(await faultsOf(disk, firstIndex)).toEqual([]);
    });
  },
);

test.skipIf(!canRecordDisks)(
  "a refused transaction stays refused, even if the disk fails while the transaction's outcome is determined",
  async () => {
    await withDisk(async (disk) => {
      const writer = await disk.open();
      await writeSome(writer, 4);
      const firstIndex = disk.entries().length;
      disk.fail({ syncs: 2 });
      expect(await writer.write(SMALL)).toMatchObject({ outcome: "KV_UNAVAILABLE" });
      await disk.close();
      expect(await faultsOf(disk, firstIndex)).toEqual([]);
    });
  },
);

test.skipIf(!canRecordDisks)(
  "transactions are refused while the disk fails, and a transaction with unknown outcome is applied completely or not at all",
  async () => {
    await withDisk(async (disk) => {
      const writer = await disk.open();
      await writeSome(writer, 4);
      const firstIndex = disk.entries().length;
      disk.fail({ syncs: 5 });
      // The sync of the commit fails. Two syncs that would determine the commit's outcome also
      // fail.
      expect(await writer.write(SMALL)).toMatchObject({ outcome: "KV_UNKNOWN_COMMIT" });
      expect(await writer.write(SMALL)).toMatchObject({ outcome: "KV_UNAVAILABLE" });
      // The operating system reports the last failures to LMDB only at the next sync, so the next
      // commit fails.
      expect(await writeSome(writer, 3)).toEqual(["KV_UNAVAILABLE", "committed", "committed"]);
      await disk.close();
      expect(await faultsOf(disk, firstIndex)).toEqual([]);
    });
  },
);

test.skipIf(!canRecordDisks)(
  "a process that opens the store after a disk failure of another process loses no acknowledged commit",
  async () => {
    await withDisk(async (disk) => {
      const writer = await disk.open();
      await writeSome(writer, 4);
      const firstIndex = disk.entries().length;
      disk.fail({ syncs: 3 });
      expect(await writer.write(SMALL)).toMatchObject({ outcome: "KV_UNKNOWN_COMMIT" });
      const other = await disk.open();
      expect(await writeSome(other, 3)).toEqual(["committed", "committed", "committed"]);
      // The operating system reports the last failures to LMDB only at the next sync, so the next
      // commit fails.
      expect(await writeSome(writer, 3)).toEqual(["KV_UNAVAILABLE", "committed", "committed"]);
      await disk.close();
      expect(await faultsOf(disk, firstIndex)).toEqual([]);
    });
  },
);

test.skipIf(!canRecordDisks)(
  "a process that could not write a root refuses all later transactions, and the next process continues",
  async () => {
    await withDisk(async (disk) => {
      const writer = await disk.open();
      await writeSome(writer, 4);
      const firstIndex = disk.entries().length;
      disk.fail({ rootWrites: 1 });
      expect(await writer.write(LARGE)).toMatchObject({ outcome: "KV_UNKNOWN_COMMIT" });
      expect(await writer.write(SMALL, "retry")).toMatchObject({
        outcome: "KV_UNAVAILABLE",
        reason: expect.stringContaining("restart the process"),
      });
      expect(await writer.state()).toEqual({ isAvailable: false, read: "KV_UNAVAILABLE" });
      expect(await writeSome(writer, 2)).toEqual(["KV_UNAVAILABLE", "KV_UNAVAILABLE"]);
      const other = await disk.open();
      expect(await other.state()).toEqual({ isAvailable: true, read: "done" });
      expect(await writeSome(other, 3)).toEqual(["committed", "committed", "committed"]);
      await disk.close();
      expect(await faultsOf(disk, firstIndex)).toEqual([]);
    });
  },
);

test.skipIf(!canRecordDisks)(
  "the folder and the files of a new store are synced before any commit is acknowledged",
  async () => {
    await withDisk(async (disk) => {
      await writeSome(await disk.open(), 1);
      const entries = disk.entries();
      const acknowledgedIndex = entries.findIndex(({ kind }) => kind === "note");
      const saved = entries
        .slice(0, acknowledgedIndex)
        .filter(({ kind }) => kind === "folder-sync")
        .map(({ bytes }) => bytes.toString());
      const nested = dirname(disk.storeDirectory);
      expect(saved.slice(0, 3)).toEqual([dirname(nested), nested, disk.storeDirectory]);
    });
  },
);

async function writeSome(writer: Writer, count: number): Promise<string[]> {
  const outcomes: string[] = [];
  for (let number = 0; number < count; number++) outcomes.push((await writer.write(SMALL)).outcome);
  return outcomes;
}

async function withDisk(body: (disk: RecordedDisk) => Promise<void>): Promise<void> {
  await withDirectory(async (directory) => {
    const disk = new RecordedDisk(directory);
    try {
      await body(disk);
    } finally {
      await disk.close();
    }
  });
}

async function faultsOf(disk: RecordedDisk, firstIndex: number): Promise<readonly string[]> {
  const seeds = Array.from({ length: DISK_COUNT }, (_, number) => new SeededRandom(String(number)));
  const { faults } = await inspect(disk, { chances: seeds, firstIndex });
  return faults;
}

/**
 * LMDB on failing disks, with several processes. A seed determines the faults: syncs fail and lose
 * data, roots cannot be written, the disk is full, and the machine fails at any point. Every
 * resulting image is opened. It must contain every acknowledged transaction and no refused
 * transaction, and its transactions must be complete and in order.
 *
 * `DISK_IMAGES=10000 npx vitest run test/kv/lmdb-disk-simulation` checks more images, and
 * `DISK_SEED=…` checks different ones. A failure names its seed.
 */
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

const IMAGE_COUNT = Number(process.env.DISK_IMAGES ?? 400);
const FIRST_SEED = Number(process.env.DISK_SEED ?? 1);

/** Number of transactions per run. */
const TRANSACTION_COUNT = 40;
const WRITER_COUNT_MAX = 3;
/** Number of simulated disks per run. */
const DISK_COUNT = 5;
/**
 * Fraction of the recorded disk operations that are followed by a simulated machine failure and a
 * check of the file.
 */
const IMAGE_RATIO = 0.15;
/** Fraction of the transactions before which a fault is injected. */
const FAULT_RATIO = 0.15;

test.skipIf(!canRecordDisks)(
  `acknowledged commits survive failures of disks and machines (${IMAGE_COUNT} images, from seed ${FIRST_SEED})`,
  async () => {
    const found: string[] = [];
    let imageCount = 0;
    for (let seed = FIRST_SEED; imageCount < IMAGE_COUNT && found.length === 0; seed++) {
      await withDirectory(async (directory) => {
        const random = new SeededRandom(String(seed));
        const disk = new RecordedDisk(directory);
        try {
          await writeUnderFaults(disk, random);
        } finally {
          await disk.close();
        }
        const chances = Array.from({ length: DISK_COUNT }, (_, number) =>
          random.fork(`disk ${number}`),
        );
        const inspection = await inspect(disk, { chances, ratio: IMAGE_RATIO });
        imageCount += inspection.imageCount;
        for (const fault of inspection.faults) found.push(`seed ${seed}, ${fault}`);
      });
    }
    expect(found).toEqual([]);
  },
);

/**
 * Writes with one process after another. Replaces each process whose LMDB has failed permanently.
 */
async function writeUnderFaults(disk: RecordedDisk, random: SeededRandom): Promise<void> {
  const writers: Writer[] = [await disk.open()];
  for (let number = 0; number < TRANSACTION_COUNT; number++) {
    if (random.ratio() < FAULT_RATIO) disk.fail(drawFaults(random));
    const place = random.integer(WRITER_COUNT_MAX);
    const writer = writers[place] ?? (await openedDespiteFaults(disk));
    writers[Math.min(place, writers.length)] = writer;
    const { outcome } = await writer.write(drawOperations(random));
    if (outcome === "committed" || (await writer.isAvailable())) continue;
    await writer.kill();
    writers.splice(writers.indexOf(writer), 1);
  }
}

/** Opens the store after the injected faults are removed. */
async function openedDespiteFaults(disk: RecordedDisk): Promise<Writer> {
  disk.fail({ syncs: 0, rootWrites: 0, fullWrites: 0 });
  return disk.open();
}

function drawFaults(random: SeededRandom): Parameters<RecordedDisk["fail"]>[0] {
  const count = 1 + random.integer(4);
  switch (random.integer(4)) {
    case 0:
      return { rootWrites: 1 };
    case 1:
      return { fullWrites: count };
    default:
      return { syncs: count };
  }
}

function drawOperations(random: SeededRandom): Operation[] {
  return Array.from({ length: 1 + random.integer(4) }, () => drawOperation(random));
}

function drawOperation(random: SeededRandom): Operation {
  const place = random.integer(40);
  const key = keyAt(place);
  switch (random.integer(6)) {
    case 0:
      return { kind: "clear", key };
    case 1:
      return { kind: "clearRange", key, end: keyAt(place + random.integer(10)) };
    case 2:
      // A value that is too large for a redo record.
      return { kind: "set", key, byteCount: 4_000 + random.integer(12_000) };
    default:
      return { kind: "set", key, byteCount: 100 + random.integer(600) };
  }
}

function keyAt(place: number): string {
  return `row ${String(place).padStart(2, "0")}`;
}

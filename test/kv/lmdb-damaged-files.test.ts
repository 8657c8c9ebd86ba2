/**
 * Files that would crash LMDB, or would be mistaken for a new store, are refused with a reason.
 * Valid files are accepted.
 */
import { closeSync, openSync, readFileSync, statSync, truncateSync, writeSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  createSystemRuntime,
  exportLmdbStore,
  LmdbImport,
  openLmdbEngine,
} from "../../src/host/index.ts";
import { openEnvironment } from "../../src/host/lmdb/environment.ts";
import type { LmdbDatabase } from "../../src/host/lmdb/layout.ts";
import { withDirectory } from "../support/with-directory.ts";

const PAGE_BYTES = 8_192;

const DAMAGES: readonly {
  readonly name: string;
  readonly damage: (file: string) => void;
  readonly fault: RegExp;
}[] = [
  { name: "an empty file", damage: (file) => truncateSync(file, 0), fault: /the file is empty/ },
  {
    name: "a file of one byte",
    damage: (file) => truncateSync(file, 1),
    fault: /the first pages are damaged/,
  },
  {
    name: "a file of less than one page",
    damage: (file) => truncateSync(file, 5_000),
    fault: /the first pages are damaged/,
  },
  {
    name: "half a file",
    damage: (file) => truncateSync(file, Math.floor(statSync(file).size / 2)),
    fault: /the file has \d+ of \d+ bytes/,
  },
  {
    name: "a file without its last page",
    damage: (file) => truncateSync(file, statSync(file).size - 1),
    fault: /the file has \d+ of \d+ bytes/,
  },
  {
    name: "a file without its first page",
    damage: (file) => zero(file, 0, PAGE_BYTES),
    fault: /the first pages are damaged/,
  },
  {
    name: "a file without its second page",
    damage: (file) => zero(file, PAGE_BYTES, PAGE_BYTES),
    fault: /the first pages are damaged/,
  },
  {
    name: "a file without its first two pages",
    damage: (file) => zero(file, 0, 2 * PAGE_BYTES),
    fault: /the first pages are damaged/,
  },
];

for (const { name, damage, fault } of DAMAGES) {
  test(`${name} is refused: the file is neither treated as a new store nor changed`, async () => {
    await withDirectory(async (directory) => {
      const file = join(directory, "data.mdb");
      await fill(directory);
      damage(file);
      const before = readFileSync(file);
      const refusal = {
        code: "KV_UNUSABLE",
        details: { directory, reason: expect.stringMatching(fault) },
      };
      const runtime = createSystemRuntime();
      await expect(openLmdbEngine({ runtime, directory })).rejects.toMatchObject(refusal);
      expect(() => exportLmdbStore(directory)).toThrow(expect.objectContaining(refusal));
      expect(readFileSync(file).equals(before)).toBe(true);
    });
  });

  test(`an import replaces ${name}`, async () => {
    await withDirectory(async (directory) => {
      await fill(directory);
      damage(join(directory, "data.mdb"));
      const imported = new LmdbImport({ directory, keepAs: "kept.mdb" });
      await imported.finish(1);
      await imported.close();
      await openEnvironment(directory).close();
    });
  });
}

test("a file may lack unwritten pages at its end, but no other bytes", async () => {
  await withDirectory(async (directory) => {
    const file = join(directory, "data.mdb");
    const database = openEnvironment(directory);
    putRows(database, "row", 20);
    database.transactionSync(() => {
      putRows(database, "passing", 40);
      for (let number = 0; number < 40; number++) database.removeSync(keyOf("passing", number));
      putRows(database, "last", 1);
    });
    await database.close();
    expect(statSync(file).size).toBeLessThan(pageCountOf(file) * PAGE_BYTES);
    const again = openEnvironment(directory);
    expect(again.get(keyOf("row", 19))).toHaveLength(30_000);
    await again.close();
    truncateSync(file, statSync(file).size - 1);
    expect(() => openEnvironment(directory)).toThrow("The store cannot be used");
  });
});

async function fill(directory: string): Promise<void> {
  const database = openEnvironment(directory);
  putRows(database, "row", 40);
  await database.close();
}

function putRows(database: LmdbDatabase, name: string, count: number): void {
  for (let number = 0; number < count; number++) {
    database.putSync(keyOf(name, number), Buffer.alloc(30_000, number));
  }
}

function keyOf(name: string, number: number): Buffer {
  return Buffer.from(`\x01${name}-${number}`);
}

/** Returns the number of pages that the later of the two roots contains. */
function pageCountOf(file: string): number {
  const bytes = readFileSync(file);
  const roots = [bytes, bytes.subarray(PAGE_BYTES)];
  return Math.max(...roots.map((root) => Number(root.readBigUInt64LE(144)) + 1));
}

function zero(file: string, position: number, byteCount: number): void {
  const descriptor = openSync(file, "r+");
  writeSync(descriptor, Buffer.alloc(byteCount), 0, byteCount, position);
  closeSync(descriptor);
}
